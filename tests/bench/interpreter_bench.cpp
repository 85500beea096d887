// The nax side of bench_interpreter.py: reads one measurement a line from standard input,
//   <case> <rows> <columns> <threads> <seconds>
// runs its engine program on the interpreter for about that long, and prints the median and the least seconds of one launch.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/interpreter/interpreter.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"

namespace {

using Clock = std::chrono::steady_clock;

const std::map<std::string, std::string>& programs() {
  static const std::map<std::string, std::string> all = {
      {"chain", R"(
program chain {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 read
  arg z: view f32 rank 2 write
  %n = size(x, 0) * size(x, 1)
  nest {
    partition r: ceil_div(%n, 2048)
    free c: 2048 split r of %n
    tile a: f32 [r, c]
    tile b: f32 [r, c]
    tile t: f32 [r, c]
    a = dma_copy(x[r * 2048 + c])
    b = dma_copy(y[r * 2048 + c])
    t = tensor_tensor multiply(a, b)
    t = tensor_tensor add(t, a)
    t = tensor_scalar subtract(t, 0.5)
    t = activation relu(t)
    t = tensor_scalar multiply(t, 1.5)
    t = tensor_tensor add(t, b)
    t = tensor_scalar abs(t)
    t = tensor_tensor multiply(t, a)
    z[r * 2048 + c] = dma_copy(t)
  }
})"},
      {"softmax", R"(
program softmax {
  arg x: view f32 rank 2 read
  arg z: view f32 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile m: f32 [r, 1]
    a = dma_copy(x[r * stride(x, 0) + c])
    m = tensor_reduce max(a)
    a = tensor_scalar subtract(a, m)
    a = activation exp(a)
    m = tensor_reduce sum(a)
    a = x.pointwise x.divide(a, m)
    z[r * stride(z, 0) + c] = dma_copy(a)
  }
})"},
      {"rmsnorm", R"(
program rmsnorm {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 read
  arg z: view f32 rank 2 write
  %c = size(x, 1)
  arg inv: scalar f32
  nest {
    partition r: size(x, 0)
    free c: %c
    tile a: f32 [r, c]
    tile q: f32 [r, c]
    tile g: f32 [r, c]
    tile v: f32 [r, 1]
    a = dma_copy(x[r * stride(x, 0) + c])
    q = tensor_scalar square(a)
    v = tensor_reduce sum(q)
    v = tensor_scalar multiply(v, inv)
    v = tensor_scalar add(v, 1e-5)
    v = activation rsqrt(v)
    a = tensor_scalar multiply(a, v)
    g = dma_copy(y[c])
    a = tensor_tensor multiply(a, g)
    z[r * stride(z, 0) + c] = dma_copy(a)
  }
})"},
      {"layernorm", R"(
program layernorm {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 read
  arg z: view f32 rank 2 write
  arg inv: scalar f32
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile d: f32 [r, c]
    tile q: f32 [r, c]
    tile g: f32 [r, c]
    tile m: f32 [r, 1]
    tile v: f32 [r, 1]
    a = dma_copy(x[r * stride(x, 0) + c])
    m = tensor_reduce sum(a)
    m = tensor_scalar multiply(m, inv)
    d = tensor_scalar subtract(a, m)
    q = tensor_scalar square(d)
    v = tensor_reduce sum(q)
    v = tensor_scalar multiply(v, inv)
    v = tensor_scalar add(v, 1e-5)
    v = activation rsqrt(v)
    a = tensor_scalar multiply(d, v)
    g = dma_copy(y[c])
    a = tensor_tensor multiply(a, g)
    a = tensor_tensor add(a, g)
    z[r * stride(z, 0) + c] = dma_copy(a)
  }
})"},
      {"colsum", R"(
program colsum {
  arg x: view f32 rank 2 read
  arg z: view f32 rank 2 write
  nest {
    partition r: size(x, 0) carried
    free c: size(x, 1) tile 512
    tile a: f32 [r, c]
    tile s: f32 [1, c]
    a = dma_copy(x[r * stride(x, 0) + c])
    s = tensor_partition_reduce sum(a)
    finish {
      z[c] = dma_copy(s)
    }
  }
})"},
      {"transpose", R"(
program transpose {
  arg x: view f32 rank 2 read
  arg z: view f32 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: f32 [r, c]
    a = dma_copy(x[r + c * size(x, 0)])
    z[r * size(x, 1) + c] = dma_copy(a)
  }
})"},
      {"bias", R"(
program bias {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 read
  arg z: view f32 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile b: f32 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c])
    b = dma_copy(y[c])
    a = tensor_tensor add(a, b)
    z[r * stride(z, 0) + c] = dma_copy(a)
  }
})"},
  };
  return all;
}

}  // namespace

int main() {
  std::map<std::string, std::shared_ptr<nax::PreparedProgram>> prepared;
  std::string name;
  int64_t rows, columns;
  int threads;
  double budget;
  while (std::cin >> name >> rows >> columns >> threads >> budget) {
    const auto found = programs().find(name);
    if (found == programs().end()) {
      std::fprintf(stderr, "no case %s\n", name.c_str());
      return 1;
    }
    std::shared_ptr<nax::PreparedProgram>& program = prepared[name];
    if (program == nullptr) {
      auto parsed = nax::parse_program(found->second);
      nax::Status status = parsed.ok() ? nax::verify(*parsed) : parsed.status();
      if (status.ok()) {
        auto made = nax::PreparedProgram::prepare(std::make_shared<const nax::Program>(std::move(parsed).value()));
        if (made.ok()) program = *made;
        status = made.ok() ? nax::Status() : made.status();
      }
      if (!status.ok()) {
        std::fprintf(stderr, "%s: %s\n", name.c_str(), std::string(status.message()).c_str());
        return 1;
      }
    }
    const size_t n = static_cast<size_t>(rows * columns);
    // As HBM and PyTorch's allocator give it: on cache lines.
    std::vector<float> memory(3 * (n + 64));
    float* x = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) / 4;
    float *y = x + (n + 15) / 16 * 16, *z = y + (n + 15) / 16 * 16;
    std::mt19937 rng(7);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < n; ++i) x[i] = i < 65536 ? normal(rng) : x[i % 65536], y[i] = x[i] * 0.5f + 1;
    std::vector<nax::ArgValue> args(program->program().args.size());
    int reads = 0;
    for (size_t a = 0; a < args.size(); ++a) {
      const nax::ArgDecl& decl = program->program().args[a];
      if (decl.kind == nax::ArgKind::kScalar) args[a].scalar = nax::ScalarValue::from_f64(1.0 / static_cast<double>(columns));
      if (decl.kind != nax::ArgKind::kView) continue;
      args[a].data = decl.written ? z : reads++ == 0 ? x : y;
      args[a].sizes = {rows, columns};
      args[a].strides = {columns, 1};
    }
    nax::ThreadPool pool(threads);
    uint8_t errors[8] = {};
    std::vector<double> times;
    const Clock::time_point start = Clock::now();
    while (times.size() < 5 || std::chrono::duration<double>(Clock::now() - start).count() < budget) {
      const Clock::time_point t = Clock::now();
      if (!program->run(args.data(), 1, pool, errors).ok()) return 1;
      times.push_back(std::chrono::duration<double>(Clock::now() - t).count());
    }
    std::sort(times.begin(), times.end());
    std::printf("%.9f %.9f\n", times[times.size() / 2], times[0]);
    std::fflush(stdout);
  }
  return 0;
}
