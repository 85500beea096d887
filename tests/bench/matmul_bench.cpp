// The nax side of bench_matmul.py: reads one measurement a line from standard input,
//   <batch> <m> <k> <n> <layout NN|NT|TN|TT> <dtype f32|bf16|f16|f64|i32|i64> <threads> <seconds>
// runs it for about that long, and prints the seconds of one matmul in its best stretch of about
// 50 us, results stored in the operand type (integers in their accumulator). The first word of the
// command line may choose the host ISA, as NAX_HOST_ISA does.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "device/base/host_isa.h"
#include "device/matmul/matmul.h"
#include "device/pool/pool.h"
#include "device/scalar/strip.h"

namespace {

using Clock = std::chrono::steady_clock;
using nax::DType;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<char> random_operand(DType dtype, int64_t count) {
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = normal(rng);
  std::vector<char> bytes(static_cast<size_t>(count) * nax::dtype_size(dtype));
  if (nax::is_floating(dtype) && dtype != DType::kF64) {
    nax::store_fn(nax::HostIsa::kAvx2, dtype)(bytes.data(), values.data(), 1, count);
    return bytes;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const double d = values[i];
    const int64_t l = static_cast<int64_t>(d * 100);
    const size_t size = nax::dtype_size(dtype);
    std::memcpy(bytes.data() + i * size, dtype == DType::kF64 ? static_cast<const void*>(&d) : &l,
                size);
  }
  return bytes;
}

// Seconds of one call in the best stretch.
template <class Run>
double best_stretch(double budget, Run run) {
  run();
  auto start = Clock::now();
  run();
  const int64_t calls =
      std::clamp<int64_t>(static_cast<int64_t>(50e-6 / (seconds_since(start) + 1e-9)), 1, 1000);
  double best = 1e30;
  const auto begin = Clock::now();
  do {
    start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) run();
    best = std::min(best, seconds_since(start) / static_cast<double>(calls));
  } while (seconds_since(begin) < budget);
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    auto isa = nax::parse_host_isa(argv[1]);
    nax::Status status = isa.status();
    if (status.ok()) status = nax::set_host_isa(*isa);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
      return 1;
    }
  }
  nax::ThreadPool pool(1);
  int64_t batch, m, k, n;
  std::string layout, dtype_text;
  int threads;
  double budget;
  while (std::cin >> batch >> m >> k >> n >> layout >> dtype_text >> threads >> budget) {
    const DType dtype = nax::dtype_from_name(dtype_text);
    const DType acc = nax::accumulator_dtype(dtype);
    if (acc == DType::kInvalid || layout.size() != 2) {
      std::fprintf(stderr, "bad line\n");
      return 1;
    }
    pool.set_threads(threads);
    const std::vector<char> a = random_operand(dtype, batch * m * k);
    const std::vector<char> b = random_operand(dtype, batch * k * n);
    const DType stored = nax::is_floating(dtype) ? dtype : acc;
    const size_t size = nax::dtype_size(stored), acc_size = nax::dtype_size(acc);
    std::vector<char> out(static_cast<size_t>(batch * m * n) * size);
    nax::MatmulArgs args;
    args.batch = batch;
    args.a = {a.data(), dtype, m, k, layout[0] == 'T' ? 1 : k, layout[0] == 'T' ? m : 1};
    args.b = {b.data(), dtype, k, n, layout[1] == 'T' ? 1 : n, layout[1] == 'T' ? k : 1};
    args.a_batch_stride = m * k;
    args.b_batch_stride = k * n;
    const nax::StoreFn round = stored == acc ? nullptr : nax::store_fn(nax::host_isa(), stored);
    const auto store = [&](int64_t item, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                           const void* block, int64_t ld) {
      for (int64_t i = m0; i < m1; ++i) {
        char* const to = out.data() + static_cast<size_t>((item * m + i) * n + n0) * size;
        const char* const from =
            static_cast<const char*>(block) + static_cast<size_t>((i - m0) * ld) * acc_size;
        if (round)
          round(to, from, 1, n1 - n0);
        else
          std::memcpy(to, from, static_cast<size_t>(n1 - n0) * size);
      }
    };
    std::printf("%.9g\n", best_stretch(budget, [&] { nax::matmul(args, pool, store); }));
    std::fflush(stdout);
  }
  return 0;
}
