#include "device/matmul/matmul.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "device/base/host_isa.h"
#include "device/matmul/kernel_table.h"
#include "device/pool/pool.h"

using namespace nax;

namespace {

float widen(DType t, uint16_t bits) {
  if (t == DType::kBF16) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float f;
    std::memcpy(&f, &wide, 4);
    return f;
  }
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? std::numeric_limits<float>::quiet_NaN() : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

template <class Acc>
Acc load(DType t, const void* p) {
  switch (t) {
    case DType::kF32:
      return static_cast<Acc>(*static_cast<const float*>(p));
    case DType::kF64:
      return static_cast<Acc>(*static_cast<const double*>(p));
    case DType::kBF16:
    case DType::kF16:
      return static_cast<Acc>(widen(t, *static_cast<const uint16_t*>(p)));
    case DType::kU8:
      return static_cast<Acc>(*static_cast<const uint8_t*>(p));
    case DType::kI8:
      return static_cast<Acc>(*static_cast<const int8_t*>(p));
    case DType::kI16:
      return static_cast<Acc>(*static_cast<const int16_t*>(p));
    case DType::kI32:
      return static_cast<Acc>(*static_cast<const int32_t*>(p));
    default:
      return static_cast<Acc>(*static_cast<const int64_t*>(p));
  }
}

template <class Acc>
Acc at(const MatrixView& v, int64_t batch_offset, int64_t i, int64_t j) {
  return load<Acc>(v.dtype, static_cast<const char*>(v.data) +
                                (batch_offset + i * v.row_stride + j * v.col_stride) *
                                    static_cast<int64_t>(dtype_size(v.dtype)));
}

float step(float a, float b, float acc) { return std::fma(a, b, acc); }
double step(double a, double b, double acc) { return std::fma(a, b, acc); }
int32_t step(int32_t a, int32_t b, int32_t acc) {
  return static_cast<int32_t>(static_cast<uint32_t>(acc) +
                              static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}
int64_t step(int64_t a, int64_t b, int64_t acc) {
  return static_cast<int64_t>(static_cast<uint64_t>(acc) +
                              static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// The definition: one chain an element.
template <class Acc>
std::vector<Acc> expected(const MatmulArgs& args) {
  const int64_t m = args.a.rows, n = args.b.cols, k = args.a.cols;
  std::vector<Acc> out;
  out.reserve(static_cast<size_t>(args.batch * m * n));
  for (int64_t z = 0; z < args.batch; ++z)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        Acc acc = args.init.data ? at<Acc>(args.init, z * args.init_batch_stride, i, j) : Acc(0);
        for (int64_t x = 0; x < k; ++x)
          acc = step(at<Acc>(args.a, z * args.a_batch_stride, i, x),
                     at<Acc>(args.b, z * args.b_batch_stride, x, j), acc);
        out.push_back(acc);
      }
  return out;
}

template <class Acc>
std::vector<Acc> computed(const MatmulArgs& args, ThreadPool& pool,
                          int64_t* smallest_rows = nullptr) {
  const int64_t m = args.a.rows, n = args.b.cols;
  const size_t count = static_cast<size_t>(args.batch * m * n);
  std::vector<Acc> out(count);
  std::vector<std::atomic<uint8_t>> seen(count);
  std::mutex mutex;
  matmul(
      args, pool,
      [&](int64_t z, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const void* acc, int64_t ld) {
        for (int64_t i = m0; i < m1; ++i)
          for (int64_t j = n0; j < n1; ++j) {
            const size_t at = static_cast<size_t>((z * m + i) * n + j);
            out[at] = static_cast<const Acc*>(acc)[(i - m0) * ld + (j - n0)];
            ++seen[at];
          }
        if (smallest_rows) {
          std::lock_guard lock(mutex);
          *smallest_rows = std::min(*smallest_rows, m1 - m0);
        }
      });
  int64_t wrong = 0;
  for (auto& s : seen) wrong += s != 1;
  CHECK(wrong == 0);
  return out;
}

// Bits, with all NaNs equal.
template <class Acc>
bool same(Acc a, Acc b) {
  if (a != a) return b != b;
  return std::memcmp(&a, &b, sizeof(Acc)) == 0;
}

template <class Acc>
int64_t differences(const std::vector<Acc>& want, const std::vector<Acc>& got) {
  int64_t wrong = want.size() == got.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(want.size(), got.size()); ++i) wrong += !same(want[i], got[i]);
  return wrong;
}

enum class Layout { kRow, kColumn, kPadded, kPaddedColumn, kStrided, kReversed };
#ifdef __SANITIZE_THREAD__
constexpr Layout kLayouts[] = {Layout::kRow,
                               Layout::kColumn};  // single-threaded cases: not what it looks for
#else
constexpr Layout kLayouts[] = {Layout::kRow,          Layout::kColumn,  Layout::kPadded,
                               Layout::kPaddedColumn, Layout::kStrided, Layout::kReversed};
#endif

// A matrix whose storage ends with its last element, so that a sanitizer sees reads past it.
struct Matrix {
  std::unique_ptr<char[]> storage;
  MatrixView view;
  int64_t extent = 0;  // elements of one batch item

  Matrix(DType dtype, int64_t rows, int64_t cols, Layout layout, int64_t batch, uint64_t seed,
         bool special = false) {
    int64_t rs = cols, cs = 1, start = 0;
    switch (layout) {
      case Layout::kRow:
        break;
      case Layout::kColumn:
        rs = 1, cs = rows;
        break;
      case Layout::kPadded:
        rs = cols + 5;
        break;
      case Layout::kPaddedColumn:
        rs = 1, cs = rows + 3;
        break;
      case Layout::kStrided:
        rs = 2 * cols + 1, cs = 2;
        break;
      case Layout::kReversed:
        rs = -cols, cs = -1, start = rows * cols - 1;
        break;
    }
    extent = rows * cols == 0              ? 0
             : layout == Layout::kReversed ? rows * cols
                                           : (rows - 1) * rs + (cols - 1) * cs + 1;
    const size_t size = dtype_size(dtype);
    const int64_t count = extent * batch;
    storage.reset(new char[static_cast<size_t>(count) * size + 1]);
    std::mt19937_64 rng(seed);
    for (int64_t i = 0; i < count; ++i)
      put(dtype, storage.get() + static_cast<size_t>(i) * size, rng, special);
    view = {storage.get() + static_cast<size_t>(start) * size, dtype, rows, cols, rs, cs};
  }

  static void put(DType dtype, char* p, std::mt19937_64& rng, bool special) {
    const double uniform = static_cast<double>(rng() >> 11) * 0x1p-52 - 1.0;
    const auto store = [&](auto v) { std::memcpy(p, &v, sizeof(v)); };
    switch (dtype) {
      case DType::kF32: {
        float f = static_cast<float>(uniform);
        if (special) {
          switch (rng() % 40) {
            case 0:
              f = std::numeric_limits<float>::denorm_min() * static_cast<float>(rng() % 1000);
              break;
            case 1:
              f = -std::numeric_limits<float>::min() / 3;
              break;
            case 2:
              f = -0.0f;
              break;
            case 3:
              f = 0.0f;
              break;
            case 4:
              f = f * 1e-25f;
              break;
            case 5:
              f = f * 1e25f;
              break;
            case 6:
              f = rng() % 20 ? f : INFINITY;
              break;
            case 7:
              f = rng() % 20 ? f : std::numeric_limits<float>::quiet_NaN();
              break;
            default:
              break;
          }
        }
        return store(f);
      }
      case DType::kF64:
        return store(uniform);
      case DType::kBF16: {
        float f = static_cast<float>(uniform);
        uint32_t bits;
        std::memcpy(&bits, &f, 4);
        if (special && rng() % 8 == 0)
          bits = static_cast<uint32_t>(rng() % 128) << 16;  // subnormals
        return store(static_cast<uint16_t>(bits >> 16));
      }
      case DType::kF16: {
        uint16_t bits = static_cast<uint16_t>(rng());
        if ((bits & 0x7c00) == 0x7c00 && !special) bits &= 0xbfff;
        return store(bits);
      }
      case DType::kU8:
      case DType::kI8:
        return store(static_cast<uint8_t>(rng()));
      case DType::kI16:
        return store(static_cast<uint16_t>(rng()));
      case DType::kI32:
        return store(static_cast<uint32_t>(rng()));
      default:
        return store(static_cast<uint64_t>(rng()));
    }
  }
};

struct KernelSet {
  std::string name;
  const matmul_detail::KernelTable* table;
};
std::vector<KernelSet> kernel_sets() {
  std::vector<KernelSet> sets = {{"avx2", &matmul_detail::avx2_kernels()}};
  if (host_supports(HostIsa::kAvx512)) sets.push_back({"avx512", &matmul_detail::avx512_kernels()});
  return sets;
}
struct ForcedKernels {
  explicit ForcedKernels(const KernelSet& set) { matmul_detail::force_kernels(set.table); }
  ~ForcedKernels() { matmul_detail::force_kernels(nullptr); }
};

std::string describe(int64_t m, int64_t k, int64_t n, Layout la, Layout lb) {
  return std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) + " layouts " +
         std::to_string(static_cast<int>(la)) + "," + std::to_string(static_cast<int>(lb));
}

// Against the definition, with every kernel set of this machine.
template <class Acc>
void check_bits(const MatmulArgs& args, ThreadPool& pool, const std::string& what) {
  REQUIRE(check_matmul(args).ok());
  const std::vector<Acc> want = expected<Acc>(args);
  for (const KernelSet& set : kernel_sets()) {
    ForcedKernels forced(set);
    INFO(what << " " << set.name);
    CHECK(differences(want, computed<Acc>(args, pool)) == 0);
  }
}

}  // namespace

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
