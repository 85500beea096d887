// The nax side of bench_matmul.py: reads one measurement a line from standard input,
//   <m> <k> <n> <layout NN|NT|TN|TT> <dtype f32|bf16|f64|i32|i64> <threads> <seconds>
// runs it for about that long, and prints the mean seconds of one matmul with its results stored in
// the operand type's accumulator. The first word of the command line may force a kernel set: avx2
// or avx512.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "device/base/host_isa.h"
#include "device/matmul/kernel_table.h"
#include "device/matmul/matmul.h"
#include "device/pool/pool.h"

namespace {

using Clock = std::chrono::steady_clock;
using nax::DType;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<char> random_operand(DType dtype, int64_t count) {
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  std::vector<char> bytes(static_cast<size_t>(count) * nax::dtype_size(dtype));
  for (int64_t i = 0; i < count; ++i) {
    const float f = normal(rng);
    const double d = f;
    const int64_t l = static_cast<int64_t>(f * 100);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    const uint16_t high = static_cast<uint16_t>(bits >> 16);
    const size_t size = nax::dtype_size(dtype);
    const void* from = dtype == DType::kF32    ? static_cast<const void*>(&f)
                       : dtype == DType::kF64  ? static_cast<const void*>(&d)
                       : dtype == DType::kBF16 ? static_cast<const void*>(&high)
                                               : static_cast<const void*>(&l);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * size, from, size);
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const std::string isa = argv[1];
    if (isa == "avx2") nax::matmul_detail::force_kernels(&nax::matmul_detail::avx2_kernels());
    if (isa == "avx512") {
      if (!nax::host_supports(nax::HostIsa::kAvx512)) {
        std::fprintf(stderr, "this machine has no AVX-512\n");
        return 1;
      }
      nax::matmul_detail::force_kernels(&nax::matmul_detail::avx512_kernels());
    }
  }
  nax::ThreadPool pool(1);
  int64_t m, k, n;
  std::string layout, dtype_text;
  int threads;
  double budget;
  while (std::cin >> m >> k >> n >> layout >> dtype_text >> threads >> budget) {
    const DType dtype = nax::dtype_from_name(dtype_text);
    const DType acc = nax::accumulator_dtype(dtype);
    if (acc == DType::kInvalid || layout.size() != 2) {
      std::fprintf(stderr, "bad line\n");
      return 1;
    }
    pool.set_threads(threads);
    const std::vector<char> a = random_operand(dtype, m * k), b = random_operand(dtype, k * n);
    const size_t size = nax::dtype_size(acc);
    std::vector<char> out(static_cast<size_t>(m * n) * size);
    nax::MatmulArgs args;
    args.a = {a.data(), dtype, m, k, layout[0] == 'T' ? 1 : k, layout[0] == 'T' ? m : 1};
    args.b = {b.data(), dtype, k, n, layout[1] == 'T' ? 1 : n, layout[1] == 'T' ? k : 1};
    const auto store = [&](int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                           const void* block, int64_t ld) {
      for (int64_t i = m0; i < m1; ++i)
        std::memcpy(out.data() + static_cast<size_t>(i * n + n0) * size,
                    static_cast<const char*>(block) + static_cast<size_t>((i - m0) * ld) * size,
                    static_cast<size_t>(n1 - n0) * size);
    };
    nax::matmul(args, pool, store);
    int64_t runs = 0;
    const auto start = Clock::now();
    do {
      nax::matmul(args, pool, store);
      ++runs;
    } while (seconds_since(start) < budget);
    std::printf("%.9g\n", seconds_since(start) / static_cast<double>(runs));
    std::fflush(stdout);
  }
  return 0;
}
