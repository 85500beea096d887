#include "tests/device/interpreter/launch.h"

namespace nax::testing {
namespace {

// y = relu(alpha * a @ b + bias) with a rounding to y's dtype in between, batched.
std::string text(const std::string& dtype, const std::string& acc) {
  return R"(
program matmul {
  ops 2
  arg a: view )" + dtype + R"( rank 3 read
  arg b: view )" + dtype + R"( rank 3 read
  arg bias: view )" + dtype + R"( rank 1 read
  arg y: view )" + dtype + R"( rank 3 write
  nest {
    loop i: size(a, 0)
    partition m: size(a, 1)
    free n: size(b, 2) tile 512
    contract k: size(a, 2)
    tile acc: psum )" + acc + R"( [m, n]
    tile t: )" + acc + R"( [m, n]
    tile c: )" + acc + R"( [m, n]
    tile o: )" + dtype + R"( [m, n]
    acc = matmul(a[i * stride(a, 0) + m * stride(a, 1) + k * stride(a, 2)], b[i * stride(b, 0) + k * stride(b, 1) + n * stride(b, 2)])
    c = dma_copy(bias[n * stride(bias, 0)])
    t = tensor_copy(acc)
    t = x.pointwise add(t, c) on pool
    o = tensor_copy(t)
    o = x.pointwise maximum(o, 0) on pool op 1
    y[i * stride(y, 0) + m * stride(y, 1) + n * stride(y, 2)] = dma_copy(o) op 1
  }
}
)";
}

TEST_CASE("matmul with its eviction chain") {
  std::mt19937_64 rng(11);
  for (auto [dtype, acc] : {std::pair<const char*, const char*>{"f32", "f32"}, {"f64", "f64"}, {"i32", "i32"}, {"i64", "i64"}}) {
    CAPTURE(dtype);
    const Program p = parse(text(dtype, acc));
    struct Case {
      int64_t batch, m, k, n;
    };
    for (const Case& c : {Case{1, 1, 1, 1}, Case{2, 5, 7, 3}, Case{1, 33, 0, 17}, Case{3, 64, 40, 50}, Case{1, 130, 65, 140}, Case{0, 3, 3, 3}, Case{1, 0, 3, 3}, Case{1, 300, 20, 200}}) {
      CAPTURE(c.m);
      CAPTURE(c.k);
      CAPTURE(c.n);
      for (int layout = 0; layout < 3; ++layout) {
        Launch launch(p);
        if (layout == 0) launch.contiguous(0, {c.batch, c.m, c.k});
        else launch.view(0, {c.batch, c.m, c.k}, {c.m * c.k, 1, c.m});
        if (layout < 2) launch.contiguous(1, {c.batch, c.k, c.n});
        else launch.view(1, {c.batch, c.k, c.n}, {0, 1, c.k});
        launch.contiguous(2, {c.n});
        if (layout == 1) launch.view(3, {c.batch, c.m, c.n}, {c.m * c.n, 1, c.m});
        else launch.contiguous(3, {c.batch, c.m, c.n});
        launch.fill(rng, 0);
        check(p, launch);
      }
    }
  }
}

}  // namespace
}  // namespace nax::testing
