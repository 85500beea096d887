// Reductions against a direct transcription of DESIGN I2's orders.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "device/scalar/strip.h"
#include "tests/device/scalar/inputs.h"

namespace nax {
namespace {

std::vector<HostIsa> isas() {
  if (host_supports(HostIsa::kAvx512)) return {HostIsa::kAvx2, HostIsa::kAvx512};
  return {HostIsa::kAvx2};
}

template <class T>
T combine(ReduceFn fn, T a, T b) {
  using U = std::conditional_t<std::is_same_v<T, int32_t>, uint32_t, std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>>;
  switch (fn) {
    case ReduceFn::kSum: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case ReduceFn::kProd: return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case ReduceFn::kMax: return a != a ? a : b != b ? b : a > b ? a : b;
    case ReduceFn::kMin: return a != a ? a : b != b ? b : a < b ? a : b;
    case ReduceFn::kAny: return a != 0 || b != 0;
    case ReduceFn::kAll: return a != 0 && b != 0;
  }
  return a;
}

template <class T>
T start(ReduceFn fn, Lane lane) {
  T x;
  reduce_identity(fn, lane, &x);
  return x;
}

// Chunks of 512 from the left; in a chunk, lane i takes i, i + 16, ...; then i + 8, i + 4, i + 2, i + 1.
template <class T>
T reference_row(ReduceFn fn, Lane lane, const std::vector<T>& x) {
  T total = start<T>(fn, lane);
  for (size_t begin = 0; begin < x.size(); begin += 512) {
    std::vector<T> part(16, start<T>(fn, lane));
    for (size_t i = begin; i < std::min(begin + 512, x.size()); ++i) part[(i - begin) % 16] = combine(fn, part[(i - begin) % 16], x[i]);
    for (size_t half : {8u, 4u, 2u, 1u})
      for (size_t l = 0; l < half; ++l) part[l] = combine(fn, part[l], part[l + half]);
    total = combine(fn, total, part[0]);
  }
  return total;
}

template <class T>
std::vector<T> random_values(size_t n, uint64_t seed, ReduceFn fn) {
  std::mt19937_64 rng(seed);
  std::vector<T> x(n);
  std::uniform_real_distribution<double> near_one(0.9, 1.1), any(-100, 100);
  for (T& v : x) {
    if (fn == ReduceFn::kAny || fn == ReduceFn::kAll) v = static_cast<T>(rng() % 2);
    else v = static_cast<T>(fn == ReduceFn::kProd && std::is_floating_point_v<T> ? near_one(rng) : any(rng));
  }
  return x;
}

template <class T>
void check_lane(Lane lane) {
  for (int f = 0; f < 6; ++f) {
    const auto fn = static_cast<ReduceFn>(f);
    if (row_reduce_fn(HostIsa::kAvx2, fn, lane) == nullptr) {
      CHECK((lane != Lane::kI32 && (fn == ReduceFn::kAny || fn == ReduceFn::kAll)));
      continue;
    }
    for (HostIsa isa : isas()) {
      for (size_t n : {0u, 1u, 5u, 16u, 17u, 511u, 512u, 513u, 1024u, 2048u, 2049u, 5000u}) {
        const std::vector<T> x = random_values<T>(n, n + 1, fn);
        const T want = reference_row(fn, lane, x);
        T got = start<T>(fn, lane);
        row_reduce_fn(isa, fn, lane)(x.data(), static_cast<int64_t>(n), &got);
        if (!test::same_bits_or_nan(got, want)) FAIL("row reduction " << f << " lane " << static_cast<int>(lane) << " of " << n);
        // In pieces of a multiple of 512.
        T carried = start<T>(fn, lane);
        for (size_t i = 0; i < n; i += 1536)
          row_reduce_fn(isa, fn, lane)(x.data() + i, static_cast<int64_t>(std::min<size_t>(1536, n - i)), &carried);
        if (!test::same_bits_or_nan(carried, want)) FAIL("carried row reduction " << f << " of " << n);
      }
      for (size_t columns : {1u, 7u, 16u, 64u, 67u, 200u}) {
        const size_t rows = 90, stride = columns + 3;
        const std::vector<T> x = random_values<T>(rows * stride, columns, fn);
        std::vector<T> want(columns, start<T>(fn, lane)), got(columns + 1, T(42));
        for (size_t j = 0; j < columns; ++j) got[j] = want[j];
        for (size_t r = 0; r < rows; ++r)
          for (size_t j = 0; j < columns; ++j) want[j] = combine(fn, want[j], x[r * stride + j]);
        column_reduce_fn(isa, fn, lane)(x.data(), static_cast<int64_t>(stride), 40, static_cast<int64_t>(columns), got.data());
        column_reduce_fn(isa, fn, lane)(x.data() + 40 * stride, static_cast<int64_t>(stride), 50, static_cast<int64_t>(columns), got.data());
        for (size_t j = 0; j < columns; ++j)
          if (!test::same_bits_or_nan(got[j], want[j])) FAIL("column reduction " << f << " of " << columns);
        CHECK(got[columns] == T(42));
      }
      const std::vector<T> x = random_values<T>(777, 5, fn);
      std::vector<T> scanned(777);
      T running = start<T>(fn, lane), last = running;
      scan_fn(isa, fn, lane)(scanned.data(), x.data(), 777, &last);
      for (size_t i = 0; i < x.size(); ++i) {
        running = combine(fn, running, x[i]);
        if (!test::same_bits_or_nan(scanned[i], running)) FAIL("scan " << f);
      }
      CHECK(test::same_bits_or_nan(last, running));
    }
  }
}

TEST_CASE("row, column and running reductions keep the fixed order on every lane") {
  check_lane<float>(Lane::kF32);
  check_lane<double>(Lane::kF64);
  check_lane<int64_t>(Lane::kI64);
  check_lane<int32_t>(Lane::kI32);
}

TEST_CASE("maximum and minimum of a row propagate NaN from anywhere") {
  for (HostIsa isa : isas())
    for (size_t at : {0u, 3u, 600u, 2047u, 2050u}) {
      std::vector<float> x(2051, 1.0f);
      x[at] = std::numeric_limits<float>::quiet_NaN();
      for (ReduceFn fn : {ReduceFn::kMax, ReduceFn::kMin}) {
        float got;
        reduce_identity(fn, Lane::kF32, &got);
        row_reduce_fn(isa, fn, Lane::kF32)(x.data(), 2051, &got);
        CHECK(std::isnan(got));
      }
    }
}

// Level by level, as the program header words it.
float reference_tree(std::vector<float> level) {
  while (level.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
    if (level.size() % 2) next.push_back(level.back());
    level = next;
  }
  return level[0];
}

TEST_CASE("tree order pairs neighbours and carries an odd last one up") {
  TreeReducer tree(HostIsa::kAvx2, ReduceFn::kSum, Lane::kF32);
  float got = 1;
  tree.finish(&got);
  CHECK(got == 0);
  for (size_t n = 1; n < 70; ++n) {
    const std::vector<float> x = random_values<float>(n, n, ReduceFn::kSum);
    tree.push_strip(x.data(), static_cast<int64_t>(n));
    tree.finish(&got);
    CHECK(std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(reference_tree(x)));
  }
}

}  // namespace
}  // namespace nax
