// Operands of every type and layout, the definition of their product, and what the kernels make of
// them.
#pragma once

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
#include <vector>

#include "device/base/host_isa.h"
#include "device/matmul/kernel_table.h"
#include "device/matmul/matmul.h"
#include "device/pool/pool.h"

namespace nax::test {

inline float widen(DType t, uint16_t bits) {
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

inline float step(float a, float b, float acc) { return std::fma(a, b, acc); }
inline double step(double a, double b, double acc) { return std::fma(a, b, acc); }
inline int32_t step(int32_t a, int32_t b, int32_t acc) {
  return static_cast<int32_t>(static_cast<uint32_t>(acc) +
                              static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}
inline int64_t step(int64_t a, int64_t b, int64_t acc) {
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
inline constexpr Layout kLayouts[] = {Layout::kRow,
                               Layout::kColumn};  // single-threaded cases: not what it looks for
#else
inline constexpr Layout kLayouts[] = {Layout::kRow,          Layout::kColumn,  Layout::kPadded,
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
inline std::vector<KernelSet> kernel_sets() {
  std::vector<KernelSet> sets = {{"avx2", &matmul_detail::avx2_kernels()}};
  if (host_supports(HostIsa::kAvx512)) sets.push_back({"avx512", &matmul_detail::avx512_kernels()});
  return sets;
}
struct ForcedKernels {
  explicit ForcedKernels(const KernelSet& set) { matmul_detail::force_kernels(set.table); }
  ~ForcedKernels() { matmul_detail::force_kernels(nullptr); }
};

inline std::string describe(int64_t m, int64_t k, int64_t n, Layout la, Layout lb) {
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

}  // namespace nax::test
