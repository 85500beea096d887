// bf16 by the host's dot product instructions (DESIGN I2): steps of two k with vdpbf16ps, of 32 with
// tdpbf16ps. AMX runs over a software model of its tiles, so that packing and blocks are tested on
// every host with AVX-512.
#include <array>

#include "tests/device/matmul/amx_model.h"
#include "tests/device/matmul/matmul_cases.h"

namespace nax::test {
namespace {

enum class Dot { kPairs, kTiles };

float flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
// fma as the dot products make it.
float dot_fma(float a, float b, float acc) {
  return flush(std::fma(flush(a), flush(b), flush(acc)));
}

// The definition, element by element; operands past the end of k are zero.
std::vector<float> expected_dot(const MatmulArgs& args, Dot dot) {
  const int64_t m = args.a.rows, n = args.b.cols, k = args.a.cols;
  std::vector<float> out;
  for (int64_t z = 0; z < args.batch; ++z)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const auto a = [&](int64_t x) {
          return x < k ? at<float>(args.a, z * args.a_batch_stride, i, x) : 0.0f;
        };
        const auto b = [&](int64_t x) {
          return x < k ? at<float>(args.b, z * args.b_batch_stride, x, j) : 0.0f;
        };
        float acc =
            args.init.data ? at<float>(args.init, z * args.init_batch_stride, i, j) : 0.0f;
        if (dot == Dot::kPairs) {
          for (int64_t x = 0; x < k; x += 2)
            acc = dot_fma(a(x), b(x), dot_fma(a(x + 1), b(x + 1), acc));
        } else {
          for (int64_t x = 0; x < k; x += 32) {
            std::array<float, 2> sum = {};
            for (int64_t y = x; y < x + 32; ++y)
              sum[y % 2] = dot_fma(a(y), b(y), sum[y % 2]);
            acc = flush(flush(acc) + flush(sum[0] + sum[1]));
          }
        }
        out.push_back(acc);
      }
  return out;
}

struct DotKernels {
  std::string name;
  Dot dot;
  matmul_detail::KernelTable table;
};
std::vector<DotKernels> dot_kernels() {
  std::vector<DotKernels> kernels;
  if (!host_supports(HostIsa::kAvx512)) return kernels;
  const auto add = [&](std::string name, Dot dot, const matmul_detail::TypeKernels& bf16) {
    matmul_detail::KernelTable table = matmul_detail::avx512_kernels();
    table.bf16 = bf16;
    kernels.push_back({std::move(name), dot, table});
  };
  if (host_has_avx512_bf16())
    add("avx512_bf16", Dot::kPairs, matmul_detail::avx512_bf16_dot());
  add("model of amx", Dot::kTiles, amx_model_bf16_dot());
  if (host_supports(HostIsa::kAmx)) add("amx", Dot::kTiles, matmul_detail::amx_bf16_dot());
  return kernels;
}

void check_dot(const MatmulArgs& args, const std::vector<ThreadPool*>& pools,
               const std::string& what) {
  REQUIRE(check_matmul(args).ok());
  for (const DotKernels& kernels : dot_kernels()) {
    const ForcedKernels forced({kernels.name, &kernels.table});
    const std::vector<float> want = expected_dot(args, kernels.dot);
    for (ThreadPool* pool : pools) {
      INFO(what << " " << kernels.name << " " << pool->threads() << " threads");
      CHECK(differences(want, computed<float>(args, *pool)) == 0);
    }
  }
}

TEST_CASE("bf16 dot products: bits are the definition's for every shape and layout") {
  ThreadPool pool(1);
  const int64_t shapes[][3] = {{1, 1, 1},    {1, 2, 1},   {2, 3, 2},    {3, 16, 5},  {4, 31, 33},
                               {5, 1, 64},   {7, 32, 31}, {13, 33, 32}, {14, 64, 64}, {16, 34, 17},
                               {17, 63, 16}, {31, 65, 97}, {1, 130, 300}, {300, 129, 1},
                               {3, 70, 200}, {200, 71, 3}, {4, 391, 17}, {48, 66, 33}, {33, 0, 7}};
  for (auto [m, k, n] : shapes)
    for (Layout la : kLayouts)
      for (Layout lb : kLayouts) {
        Matrix a(DType::kBF16, m, k, la, 1, 31, true), b(DType::kBF16, k, n, lb, 1, 32, true);
        MatmulArgs args;
        args.a = a.view, args.b = b.view;
        check_dot(args, {&pool}, describe(m, k, n, la, lb));
      }
}

TEST_CASE("bf16 dot products: several blocks of rows, columns and depth, one and many threads") {
  ThreadPool one(1), three(3);
  const int64_t shapes[][3] = {{170, 390, 270}, {339, 1101, 97}, {64, 1000, 520},
                               {400, 31, 600},  {20, 64, 2500},  {2500, 63, 20},
                               {1, 900, 2600},  {3000, 41, 1},   {195, 800, 130}};
  for (auto [m, k, n] : shapes)
    for (auto [la, lb] : {std::pair{Layout::kRow, Layout::kRow},
                          {Layout::kRow, Layout::kColumn},
                          {Layout::kColumn, Layout::kPadded},
                          {Layout::kStrided, Layout::kStrided}}) {
      Matrix a(DType::kBF16, m, k, la, 1, 33), b(DType::kBF16, k, n, lb, 1, 34);
      MatmulArgs args;
      args.a = a.view, args.b = b.view;
      check_dot(args, {&one, &three}, describe(m, k, n, la, lb));
    }
}

TEST_CASE("bf16 dot products: batches, and chains that continue") {
  ThreadPool pool(3);
  for (auto [m, k, n] : {std::array<int64_t, 3>{16, 16, 16}, {33, 71, 40}, {200, 450, 70}, {5, 0, 6}})
    for (Layout lb : {Layout::kRow, Layout::kColumn}) {
      Matrix a(DType::kBF16, m, k, Layout::kRow, 5, 35), b(DType::kBF16, k, n, lb, 5, 36);
      Matrix init(DType::kF32, m, n, Layout::kColumn, 5, 37, true);
      MatmulArgs args;
      args.batch = 5;
      args.a = a.view, args.b = b.view, args.init = init.view;
      args.a_batch_stride = a.extent, args.b_batch_stride = b.extent;
      args.init_batch_stride = init.extent;
      check_dot(args, {&pool}, "init " + describe(m, k, n, Layout::kRow, lb));
      args.init = {};
      args.b_batch_stride = 0;
      check_dot(args, {&pool}, "shared B " + describe(m, k, n, Layout::kRow, lb));
    }
  // A product in two parts of k is the product where the cut lies between steps.
  Matrix a(DType::kBF16, 37, 100, Layout::kRow, 1, 38);
  Matrix b(DType::kBF16, 100, 50, Layout::kRow, 1, 39);
  MatmulArgs whole, first, second;
  whole.a = first.a = second.a = a.view;
  whole.b = first.b = second.b = b.view;
  first.a.cols = first.b.rows = 64;
  second.a.cols = second.b.rows = 36;
  second.a.data = static_cast<const uint16_t*>(a.view.data) + 64;
  second.b.data = static_cast<const uint16_t*>(b.view.data) + 64 * 50;
  for (const DotKernels& kernels : dot_kernels()) {
    const ForcedKernels forced({kernels.name, &kernels.table});
    const std::vector<float> half = computed<float>(first, pool);
    second.init = {half.data(), DType::kF32, 37, 50, 50, 1};
    CHECK(computed<float>(second, pool) == computed<float>(whole, pool));
  }
}

TEST_CASE("bf16 dot products: the host's ISA chooses them, once for all sizes and layouts") {
  const matmul_detail::TypeKernels& active = matmul_detail::active_kernels().bf16;
  switch (host_isa()) {
    case HostIsa::kAvx2:
      CHECK(active.k_step == 1);
      break;
    case HostIsa::kAvx512:
      CHECK(active.k_step == (host_has_avx512_bf16() ? 2 : 1));
      break;
    case HostIsa::kAmx:
      CHECK(active.k_step == 32);
      break;
  }
}

}  // namespace
}  // namespace nax::test
