// Strips against compiled kernels, one thread: ns an element of each, and what the compile takes. Prints a table.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/interpreter/interpreter.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"
#include "device/jit/jit.h"
#include "device/scalar/strip.h"

namespace {

// The thread's own time: other processes do not count.
double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// A body on [rows, columns] views x, y -> z of dtype T; `$T` stands for it.
struct Case {
  const char* name;
  const char* body;
};
constexpr Case kCases[] = {
    {"chain of 8", R"(
    tile t: $T [r, c]
    t = tensor_tensor multiply(a, b)
    t = tensor_scalar add(t, 1.5)
    t = tensor_tensor multiply(t, a)
    t = tensor_tensor subtract(t, b)
    t = activation relu(t)
    t = tensor_scalar multiply(t, 0.5)
    t = tensor_tensor add(t, b)
    o = activation sigmoid(t))"},
    {"add", R"(
    o = tensor_tensor add(a, b))"},
    {"swiglu", R"(
    tile t: $T [r, c]
    t = activation silu(a)
    o = tensor_tensor multiply(t, b))"},
    {"gelu (tanh)", R"(
    o = activation gelu_apprx_tanh(a))"},
    {"softmax", R"(
    tile m: f32 [r, 1]
    tile e: f32 [r, c]
    tile s: f32 [r, 1]
    m = tensor_reduce max(a)
    e = tensor_scalar subtract(a, m)
    e = activation exp(e)
    s = tensor_reduce sum(e)
    o = x.pointwise x.divide(e, s))"},
    {"rmsnorm", R"(
    tile q: f32 [r, c]
    tile s: f32 [r, 1]
    q = activation square(a)
    s = tensor_reduce sum(q)
    s = tensor_scalar multiply(s, 0.0009765625)
    s = tensor_scalar add(s, 0.00001)
    s = activation rsqrt(s)
    q = tensor_scalar multiply(a, s)
    o = tensor_tensor multiply(q, b))"},
};

std::string program_text(const Case& c, const std::string& dtype) {
  std::string body = c.body;
  for (size_t at; (at = body.find("$T")) != std::string::npos;) body.replace(at, 2, dtype);
  const size_t first = body.find(" = ");
  const size_t tiles_end = body.rfind('\n', first);
  return "program bench {\n  arg x: view " + dtype + " rank 2 read\n  arg y: view " + dtype + " rank 2 read\n  arg z: view " + dtype +
         " rank 2 write\n  nest {\n    partition r: size(x, 0)\n    free c: size(x, 1)\n    tile a: " + dtype + " [r, c]\n    tile b: " + dtype +
         " [r, c]\n    tile o: " + dtype + " [r, c]" + body.substr(0, tiles_end) +
         "\n    a = dma_copy(x[r * stride(x, 0) + c])\n    b = dma_copy(y[r * stride(y, 0) + c])" + body.substr(tiles_end) +
         "\n    z[r * stride(z, 0) + c] = dma_copy(o)\n  }\n}\n";
}

struct Buffers {
  std::vector<char> bytes[3];
  std::vector<nax::ArgValue> args;
  Buffers(nax::DType dtype, int64_t rows, int64_t columns) : args(3) {
    for (int i = 0; i < 3; ++i) {
      bytes[i].resize(static_cast<size_t>(rows * columns) * nax::dtype_size(dtype));
      for (int64_t k = 0; k < rows * columns; ++k) {
        const float v = static_cast<float>((k * 7 + i) % 97) * 0.03f - 1.0f;
        nax::store_fn(nax::HostIsa::kAvx2, dtype)(bytes[i].data() + static_cast<size_t>(k) * nax::dtype_size(dtype), &v, 1, 1);
      }
      args[static_cast<size_t>(i)].data = bytes[i].data();
      args[static_cast<size_t>(i)].sizes = {rows, columns};
      args[static_cast<size_t>(i)].strides = {columns, 1};
    }
  }
};

double best_ns(const nax::PreparedProgram& program, Buffers& buffers, int64_t elements) {
  nax::ThreadPool pool(1);
  double best = 1e9;
  std::vector<uint8_t> errors(program.program().op_count);
  for (int i = 0; i < 15; ++i) {
    const double start = seconds();
    if (!program.run(buffers.args.data(), 1, pool, errors.data()).ok()) return -1;
    best = std::min(best, seconds() - start);
  }
  return best * 1e9 / static_cast<double>(elements);
}

}  // namespace

int main() {
  constexpr int64_t kRows = 256, kColumns = 1024;
  std::printf("[%ld, %ld] on one thread, %s; ns an element, in brackets the compile in ms\n", static_cast<long>(kRows), static_cast<long>(kColumns),
              std::string(nax::host_isa_name(nax::host_isa())).c_str());
  std::printf("%-22s %8s %18s %18s %18s\n", "", "strips", "level 0", "level 1", "level 2");
  for (const nax::DType dtype : {nax::DType::kF32, nax::DType::kBF16})
    for (const Case& c : kCases) {
      auto parsed = nax::parse_program(program_text(c, std::string(nax::dtype_name(dtype))));
      if (!parsed.ok()) return std::printf("%s: %s\n", c.name, std::string(parsed.status().message()).c_str()), 1;
      if (const nax::Status s = nax::verify(*parsed); !s.ok()) return std::printf("%s: %s\n", c.name, std::string(s.message()).c_str()), 1;
      auto prepared = nax::PreparedProgram::prepare(std::make_shared<const nax::Program>(std::move(*parsed)));
      if (!prepared.ok()) return std::printf("%s: %s\n", c.name, std::string(prepared.status().message()).c_str()), 1;
      Buffers buffers(dtype, kRows, kColumns);
      std::printf("%-16s %-5s %8.3f", c.name, std::string(nax::dtype_name(dtype)).c_str(), best_ns(**prepared, buffers, kRows * kColumns));
      for (int level : {0, 1, 2}) {
        double compile = 1e9;
        for (int i = 0; i < 5; ++i) {
          const double start = seconds();
          auto kernel = nax::compile_lanes((*prepared)->lanes(0), {nax::host_isa(), level});
          compile = std::min(compile, seconds() - start);
          if (!kernel.ok()) return std::printf(" %s\n", std::string(kernel.status().message()).c_str()), 1;
          (*prepared)->attach_kernel(0, *kernel);
        }
        std::printf("   %7.3f (%5.2f)", best_ns(**prepared, buffers, kRows * kColumns), compile * 1e3);
      }
      std::printf("\n");
    }
  return 0;
}
