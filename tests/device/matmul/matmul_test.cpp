#include "device/matmul/matmul.h"

#include <thread>

#include "tests/device/matmul/matmul_cases.h"

namespace nax::test {
namespace {

TEST_CASE("matmul: fp32 bits are the chain's, for every shape, layout and ISA") {
  ThreadPool pool(1);
  const int64_t shapes[][3] = {
      {1, 1, 1},    {1, 5, 1},    {2, 3, 2},     {3, 16, 5},    {4, 7, 33},   {5, 1, 64},
      {7, 20, 31},  {13, 33, 32}, {14, 64, 64},  {15, 17, 48},  {16, 16, 16}, {17, 40, 65},
      {29, 50, 97}, {64, 64, 64}, {1, 130, 300}, {300, 130, 1}, {3, 70, 200}, {200, 70, 3},
      {50, 9, 2},   {33, 100, 4}, {2, 400, 40},  {4, 391, 17},  {60, 800, 20}};
  for (auto [m, k, n] : shapes)
    for (Layout la : kLayouts)
      for (Layout lb : kLayouts) {
        Matrix a(DType::kF32, m, k, la, 1, 1, true), b(DType::kF32, k, n, lb, 1, 2, true);
        MatmulArgs args;
        args.a = a.view, args.b = b.view;
        check_bits<float>(args, pool, describe(m, k, n, la, lb));
      }
}

TEST_CASE("matmul: several blocks of rows, columns and depth, one and many threads") {
  ThreadPool one(1), three(3);
  const int64_t shapes[][3] = {{170, 390, 270}, {339, 401, 97}, {64, 1000, 520}, {400, 30, 600},
                               {20, 64, 2500},  {2500, 64, 20}, {1, 900, 2600},  {3000, 40, 1},
                               {260, 772, 3},   {171, 0, 5}};
  for (auto [m, k, n] : shapes)
    for (auto [la, lb] : {std::pair{Layout::kRow, Layout::kRow},
                          {Layout::kRow, Layout::kColumn},
                          {Layout::kColumn, Layout::kPadded},
                          {Layout::kStrided, Layout::kStrided}}) {
      Matrix a(DType::kF32, m, k, la, 1, 3), b(DType::kF32, k, n, lb, 1, 4);
      MatmulArgs args;
      args.a = a.view, args.b = b.view;
      const std::vector<float> want = expected<float>(args);
      for (const KernelSet& set : kernel_sets()) {
        ForcedKernels forced(set);
        for (ThreadPool* pool : {&one, &three}) {
          int64_t smallest_rows = m;
          INFO(describe(m, k, n, la, lb) << " " << set.name);
          CHECK(differences(want, computed<float>(args, *pool, &smallest_rows)) == 0);
          CHECK(smallest_rows >= std::min<int64_t>(m, 64));
        }
      }
    }
}

TEST_CASE("matmul: other types") {
  ThreadPool pool(2);
  const int64_t shapes[][3] = {{1, 9, 40}, {5, 33, 7}, {40, 65, 3}, {35, 48, 50}, {180, 400, 70}};
  const DType types[] = {DType::kBF16, DType::kF16, DType::kF64, DType::kU8,
                         DType::kI8,   DType::kI16, DType::kI32, DType::kI64};
  for (DType type : types)
    for (auto [m, k, n] : shapes)
      for (Layout la : {Layout::kRow, Layout::kPaddedColumn, Layout::kStrided})
        for (Layout lb : {Layout::kPadded, Layout::kColumn, Layout::kReversed}) {
          Matrix a(type, m, k, la, 1, 5, true), b(type, k, n, lb, 1, 6, true);
          MatmulArgs args;
          args.a = a.view, args.b = b.view;
          const std::string what = std::string(dtype_name(type)) + " " + describe(m, k, n, la, lb);
          switch (accumulator_dtype(type)) {
            case DType::kF32:
              check_bits<float>(args, pool, what);
              break;
            case DType::kF64:
              check_bits<double>(args, pool, what);
              break;
            case DType::kI32:
              check_bits<int32_t>(args, pool, what);
              break;
            default:
              check_bits<int64_t>(args, pool, what);
              break;
          }
        }
}

TEST_CASE("matmul: continues from an initial accumulator") {
  ThreadPool pool(2);
  const int64_t shapes[][3] = {{30, 20, 45}, {200, 500, 300}, {90, 30, 1},
                               {1, 30, 90},  {70, 9, 3},      {7, 0, 9}};
  for (auto [m, k, n] : shapes)
    for (Layout lb : {Layout::kRow, Layout::kColumn})
      for (Layout li : {Layout::kRow, Layout::kColumn, Layout::kStrided}) {
        Matrix a(DType::kF32, m, k, Layout::kRow, 2, 7), b(DType::kF32, k, n, lb, 2, 8);
        Matrix init(DType::kF32, m, n, li, 2, 9);
        MatmulArgs args;
        args.batch = 2;
        args.a = a.view, args.b = b.view, args.init = init.view;
        args.a_batch_stride = a.extent, args.b_batch_stride = b.extent,
        args.init_batch_stride = init.extent;
        check_bits<float>(args, pool, "init " + describe(m, k, n, lb, li));
      }
  // A product in two halves of k is the product.
  Matrix a(DType::kF32, 37, 100, Layout::kRow, 1, 10), b(DType::kF32, 100, 50, Layout::kRow, 1, 11);
  MatmulArgs whole, first, second;
  whole.a = first.a = second.a = a.view;
  whole.b = first.b = second.b = b.view;
  first.a.cols = first.b.rows = 61;
  second.a.cols = second.b.rows = 39;
  second.a.data = static_cast<const float*>(a.view.data) + 61;
  second.b.data = static_cast<const float*>(b.view.data) + 61 * 50;
  const std::vector<float> half = computed<float>(first, pool);
  second.init = {half.data(), DType::kF32, 37, 50, 50, 1};
  CHECK(computed<float>(second, pool) == computed<float>(whole, pool));
}

TEST_CASE("matmul: batches, shared and expanded operands") {
  ThreadPool pool(3);
  const int64_t shapes[][3] = {{16, 16, 16}, {33, 70, 40}, {130, 90, 140}};
  for (int64_t batch : {0, 1, 3, 40}) {
    for (auto [m, k, n] : shapes) {
      Matrix a(DType::kF32, m, k, Layout::kRow, batch, 12),
          b(DType::kF32, k, n, Layout::kColumn, batch, 13);
      MatmulArgs args;
      args.batch = batch;
      args.a = a.view, args.b = b.view;
      args.a_batch_stride = a.extent, args.b_batch_stride = b.extent;
      check_bits<float>(args, pool, "batch " + std::to_string(batch));
      args.b_batch_stride = 0;  // one B for all
      check_bits<float>(args, pool, "shared B, batch " + std::to_string(batch));
    }
  }
  Matrix a(DType::kF32, 1, 50, Layout::kRow, 1, 14), b(DType::kF32, 50, 1, Layout::kRow, 1, 15);
  MatmulArgs args;
  args.a = a.view, args.b = b.view;
  args.a.rows = 40, args.a.row_stride = 0;
  args.b.cols = 60, args.b.col_stride = 0;
  check_bits<float>(args, pool, "zero strides");
}

TEST_CASE("matmul: empty sizes") {
  ThreadPool pool(2);
  Matrix a(DType::kF32, 5, 0, Layout::kRow, 1, 16), b(DType::kF32, 0, 6, Layout::kRow, 1, 17);
  MatmulArgs args;
  args.a = a.view, args.b = b.view;
  CHECK(computed<float>(args, pool) == std::vector<float>(30, 0.0f));
  args.a.rows = 0;
  CHECK(computed<float>(args, pool).empty());
}

TEST_CASE("matmul: the eviction may multiply again, on the same thread") {
  ThreadPool pool(2);
  Matrix a(DType::kF32, 70, 40, Layout::kRow, 1, 18), b(DType::kF32, 40, 80, Layout::kRow, 1, 19);
  MatmulArgs args;
  args.a = a.view, args.b = b.view;
  const std::vector<float> want = expected<float>(args);
  std::atomic<int> wrong{0};
  std::vector<float> out(want.size());
  matmul(args, pool,
         [&](int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const void* acc, int64_t ld) {
           if (computed<float>(args, pool) != want) ++wrong;
           for (int64_t i = m0; i < m1; ++i)
             for (int64_t j = n0; j < n1; ++j)
               out[i * 80 + j] = static_cast<const float*>(acc)[(i - m0) * ld + j - n0];
         });
  CHECK(wrong == 0);
  CHECK(out == want);
}

TEST_CASE("matmul: several callers at once") {
  ThreadPool pool(2);
  Matrix a(DType::kF32, 150, 200, Layout::kRow, 1, 20),
      b(DType::kF32, 200, 160, Layout::kColumn, 1, 21);
  MatmulArgs args;
  args.a = a.view, args.b = b.view;
  const std::vector<float> want = expected<float>(args);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        std::vector<float> out(want.size());
        matmul(args, pool,
               [&](int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const void* acc,
                   int64_t ld) {
                 for (int64_t r = m0; r < m1; ++r)
                   for (int64_t j = n0; j < n1; ++j)
                     out[r * 160 + j] = static_cast<const float*>(acc)[(r - m0) * ld + j - n0];
               });
        if (out != want) ++wrong;
      }
    });
  for (auto& t : callers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("matmul: bad arguments are named") {
  MatmulArgs args;
  args.a = {nullptr, DType::kF32, 2, 3, 3, 1};
  args.b = {nullptr, DType::kF32, 4, 5, 5, 1};
  CHECK(std::string(check_matmul(args).message()).find("2x3") != std::string::npos);
  args.b.rows = 3;
  CHECK(check_matmul(args).ok());
  args.b.dtype = DType::kBF16;
  CHECK(std::string(check_matmul(args).message()).find("bf16") != std::string::npos);
  args.a.dtype = args.b.dtype = DType::kBool;
  CHECK_FALSE(check_matmul(args).ok());
  args.a.dtype = args.b.dtype = DType::kBF16;
  float init = 0;
  args.init = {&init, DType::kBF16, 2, 5, 0, 0};
  CHECK_FALSE(check_matmul(args).ok());
  args.init.dtype = DType::kF32;
  CHECK(check_matmul(args).ok());
  args.init.cols = 4;
  CHECK_FALSE(check_matmul(args).ok());
  args.batch = -1;
  CHECK_FALSE(check_matmul(args).ok());
}

}  // namespace
}  // namespace nax::test
