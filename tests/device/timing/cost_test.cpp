#include "device/timing/cost.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "tests/device/isa/bind_program.h"
#include "tests/device/isa/sample_programs.h"

namespace nax {
namespace {

// NKI DMA bandwidth guide (S4), trn2: efficiency by bytes of a partition's row, in percent of 32
// KiB rows.
TEST_CASE("the DMA efficiency curve is within 5% from 128 bytes up") {
  constexpr std::pair<int64_t, double> kCurve[] = {{128, 5.0},   {256, 10.3},  {512, 20.6},
                                                   {1024, 42.2}, {2048, 81.3}, {4096, 96.6},
                                                   {8192, 98.3}, {16384, 99.0}};
  const TargetInfo& t = *find_target("trn2");
  auto rate = [&](int64_t bytes) {
    const DmaCost c = dma_cost({128, 1, bytes}, t);
    return 128.0 * static_cast<double>(bytes) /
           (static_cast<double>(c.descriptors) * static_cast<double>(c.descriptor_ps));
  };
  for (const auto& [bytes, percent] : kCurve) {
    CAPTURE(bytes);
    CHECK(100 * rate(bytes) / rate(32768) == doctest::Approx(percent).epsilon(0.05));
  }
  // One engine moves 32 KiB in 1416 ns (S4).
  CHECK(static_cast<double>(dma_cost({1, 1, 32768}, t).descriptor_ps) / 1000 ==
        doctest::Approx(1416).epsilon(0.01));
}

TEST_CASE("scattered elements cost a burst each, rows above 64 KiB several descriptors") {
  const TargetInfo& t = *find_target("trn2");
  const DmaCost scattered = dma_cost({1, 2048, 4}, t), dense = dma_cost({1, 1, 2048 * 64}, t);
  CHECK(scattered.descriptors * scattered.descriptor_ps == dense.descriptors * dense.descriptor_ps);
  CHECK(dma_cost({1, 1, 65536}, t).descriptors == 1);
  CHECK(dma_cost({1, 1, 65537}, t).descriptors == 2);
}

TEST_CASE("nc_matmul: columns, overhead and passes") {
  const TargetInfo &trn1 = *find_target("trn1"), &trn2 = *find_target("trn2");
  CHECK(matmul_cycles(512, DType::kBF16, trn1) == 512 + 85);
  CHECK(matmul_cycles(512, DType::kF32, trn2) == 4 * (512 + 4));
  CHECK(matmul_cycles(8, DType::kBF16, trn2) == 64 + 4);
}

// Issue intervals of the documented formulas (S3), N elements a partition.
TEST_CASE("instruction costs follow the vendor's table") {
  const char* text = R"(
program table {
  arg x: view f32 rank 2 read
  arg y: view bf16 rank 2 read
  nest {
    partition r: 128
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile b: f32 [r, c]
    tile h: bf16 [r, c]
    tile g: bf16 [r, c]
    tile m: f32 [r, 1]
    a = dma_copy(x[r * stride(x, 0) + c])
    h = dma_copy(y[r * stride(y, 0) + c])
    b = tensor_tensor add(a, a)
    g = tensor_tensor add(h, h)
    b = tensor_scalar multiply(a, 2.0)
    g = tensor_scalar multiply(h, 2.0)
    b = activation exp(a)
    m = tensor_reduce sum(a)
    b = x.pointwise reciprocal(a) on dve
    b = memset(1.0)
    g = memset(0.0)
    b = tensor_tensor_scan sum(a)
    b = x.pointwise x.divide(a, m)
    b = x.pointwise x.divide(a, b)
    b = tensor_copy(a)
    g = tensor_copy(h)
  }
})";
  Bound bound = bind(text, {{128, 1000}, {128, 1000}});
  const Nest& nest = bound.program.nests[0];
  const TargetInfo &trn1 = *find_target("trn1"), &trn2 = *find_target("trn2");
  auto cycles = [&](size_t k, int64_t n, const TargetInfo& t) {
    return instr_cycles(bound.program, nest, nest.body[k], n, t);
  };
  CHECK(cycles(2, 1000, trn2) == 2000);   // tensor_tensor, fp32 from SBUF
  CHECK(cycles(3, 1000, trn2) == 1000);   // all bf16
  CHECK(cycles(4, 1000, trn2) == 1000);   // tensor_scalar
  CHECK(cycles(5, 1000, trn2) == 250);    // 4x mode
  CHECK(cycles(5, 1000, trn1) == 1000);   // trn1 has none
  CHECK(cycles(6, 1000, trn2) == 1000);   // activation
  CHECK(cycles(7, 1000, trn2) == 1000);   // tensor_reduce
  CHECK(cycles(8, 1000, trn2) == 8000);   // reciprocal, documented
  CHECK(cycles(8, 1000, trn1) == 2400);   // reciprocal, measured
  CHECK(cycles(9, 1000, trn2) == 1000);   // memset
  CHECK(cycles(10, 1000, trn2) == 500);   // memset to zero in bf16
  CHECK(cycles(11, 1000, trn2) == 2000);  // scan
  CHECK(cycles(12, 1000, trn2) == 4000);  // one divisor a row
  CHECK(cycles(13, 1000, trn2) == 8000);
  CHECK(cycles(14, 1000, trn2) == 1000);
  CHECK(cycles(15, 1000, trn2) == 250);
  CHECK(cycles(6, 1, trn2) == 64);              // least interval
  CHECK(cycles(6, 65537, trn2) == 65536 + 64);  // two instructions: one may touch 64K elements
}

}  // namespace
}  // namespace nax
