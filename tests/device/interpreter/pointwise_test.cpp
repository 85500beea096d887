#include "tests/device/interpreter/launch.h"

namespace nax::testing {
namespace {

const char* kChain = R"(
program chain {
  arg x: view f32 rank 1 read
  arg y: view f32 rank 1 read
  arg z: view f32 rank 1 write
  arg s: scalar f32
  nest {
    partition r: ceil_div(size(x, 0), 2048)
    free c: 2048 split r of size(x, 0)
    tile a: f32 [r, c]
    tile b: f32 [r, c]
    tile t: f32 [r, c]
    a = dma_copy(x[r * (2048 * stride(x, 0)) + c * stride(x, 0)])
    b = dma_copy(y[r * (2048 * stride(y, 0)) + c * stride(y, 0)])
    t = tensor_tensor multiply(a, b)
    t = tensor_tensor add(t, a)
    t = tensor_scalar subtract(t, s)
    t = activation relu(t)
    t = tensor_scalar multiply(t, 1.5)
    t = tensor_tensor add(t, b)
    t = tensor_scalar abs(t)
    t = tensor_tensor multiply(t, a)
    z[r * (2048 * stride(z, 0)) + c * stride(z, 0)] = dma_copy(t)
  }
}
)";

TEST_CASE("a chain on flat vectors of any length") {
  const Program p = parse(kChain);
  std::mt19937_64 rng(1);
  for (int64_t n : {0, 1, 7, 15, 16, 17, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 5000, 70001, 400000}) {
    CAPTURE(n);
    Launch launch(p);
    for (int a : {0, 1, 2}) launch.contiguous(a, {n});
    launch.scalar(3, 0.5);
    launch.fill(rng, 0.05);
    check(p, launch);
  }
}

TEST_CASE("a chain on strided vectors, in place and out of place") {
  const Program p = parse(kChain);
  std::mt19937_64 rng(2);
  for (int64_t stride : {2, 3, -1, -2, 0}) {
    CAPTURE(stride);
    Launch launch(p);
    launch.view(0, {3000}, {stride});
    launch.contiguous(1, {3000});
    launch.same_as(2, 1);
    launch.scalar(3, -0.25);
    launch.fill(rng, 0.05);
    check(p, launch);
  }
}

}  // namespace
}  // namespace nax::testing
