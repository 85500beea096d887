// Loads, stores, rounding and casts: exhaustive for the 16-bit formats, against their definitions.
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

// The nearest value of a 16-bit format, ties to the even mantissa, found by search over the exact values.
uint16_t nearest(const std::vector<float>& values, uint16_t infinity, float overflow, float x) {
  if (x != x) return static_cast<uint16_t>(infinity | (infinity >> 1));
  const float a = std::fabs(x);
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (a >= overflow) return sign | infinity;
  uint16_t low = 0, high = infinity;  // values[low] <= a < values[high]; values ascend with their bits
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (static_cast<double>(values[middle]) <= a ? low : high) = middle;
  }
  const double below = a - static_cast<double>(values[low]);
  const double above = (high == infinity ? static_cast<double>(overflow) * 2 - values[low] : values[high]) - static_cast<double>(a);
  const bool up = above < below || (above == below && (low & 1));
  return sign | (up ? high : low);
}

struct Format {
  DType dtype;
  uint16_t infinity;
  float overflow;  // halfway between the largest value and the next one that would exist
  float (*value)(uint16_t);
};

TEST_CASE("f16 and bf16: every value loads exactly, every store rounds to nearest even") {
  const Format formats[] = {{DType::kF16, 0x7c00, 65520.0f, test::float_of_f16},
                            {DType::kBF16, 0x7f80, std::bit_cast<float>(0x7f7f8000u), test::float_of_bf16}};
  for (const Format& f : formats) {
    std::vector<float> values(65536);
    for (int i = 0; i < 65536; ++i) values[static_cast<size_t>(i)] = f.value(static_cast<uint16_t>(i));
    std::vector<float> inputs = test::many_floats(50000);
    for (int i = 0; i + 1 < f.infinity; ++i) {  // each midpoint and its neighbours
      const float middle = static_cast<float>((static_cast<double>(values[static_cast<size_t>(i)]) + values[static_cast<size_t>(i + 1)]) / 2);
      inputs.push_back(middle);
      inputs.push_back(-std::nextafter(middle, 0.0f));
      inputs.push_back(std::nextafter(middle, 1e38f));
    }
    for (HostIsa isa : isas()) {
      std::vector<uint16_t> memory(65536);
      for (size_t i = 0; i < 65536; ++i) memory[i] = static_cast<uint16_t>(i);
      std::vector<float> lanes(65536);
      load_fn(isa, f.dtype)(lanes.data(), memory.data(), 1, 65536);
      for (size_t i = 0; i < 65536; ++i)
        if (!test::same_bits_or_nan(lanes[i], values[i])) FAIL(dtype_name(f.dtype) << " load of " << i);

      const auto n = static_cast<int64_t>(inputs.size());
      std::vector<uint16_t> stored(inputs.size());
      store_fn(isa, f.dtype)(stored.data(), inputs.data(), 1, n);
      std::vector<float> rounded = inputs;
      round_fn(isa, f.dtype)(rounded.data(), n);
      for (size_t i = 0; i < inputs.size(); ++i) {
        const uint16_t want = nearest(values, f.infinity, f.overflow, inputs[i]);
        const bool is_nan = inputs[i] != inputs[i];
        if (is_nan ? values[stored[i]] == values[stored[i]] : stored[i] != want)
          FAIL(dtype_name(f.dtype) << " store of " << inputs[i] << ": " << stored[i] << ", not " << want);
        if (!test::same_bits_or_nan(rounded[i], values[stored[i]])) FAIL(dtype_name(f.dtype) << " round of " << inputs[i]);
      }
    }
  }
}

TEST_CASE("strides: gather, scatter, reverse, broadcast") {
  for (HostIsa isa : isas()) {
    std::vector<uint16_t> memory(1000);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<uint16_t>(0x3f80 + i);
    std::vector<float> lanes(100);
    load_fn(isa, DType::kBF16)(lanes.data(), memory.data(), 7, 100);
    for (size_t i = 0; i < 100; ++i) CHECK(lanes[i] == test::float_of_bf16(memory[7 * i]));
    load_fn(isa, DType::kBF16)(lanes.data(), memory.data() + 999, -3, 100);
    for (size_t i = 0; i < 100; ++i) CHECK(lanes[i] == test::float_of_bf16(memory[999 - 3 * i]));
    load_fn(isa, DType::kBF16)(lanes.data(), memory.data() + 5, 0, 100);
    for (size_t i = 0; i < 100; ++i) CHECK(lanes[i] == test::float_of_bf16(memory[5]));
    std::vector<int32_t> in = {1, 256 + 7, -1, 0};
    std::vector<uint8_t> out(16, 9);
    store_fn(isa, DType::kU8)(out.data() + 12, in.data(), -4, 4);
    CHECK(out == std::vector<uint8_t>{0, 9, 9, 9, 255, 9, 9, 9, 7, 9, 9, 9, 1, 9, 9, 9});
    store_fn(isa, DType::kBool)(out.data(), in.data(), 1, 4);
    CHECK(std::vector<uint8_t>(out.begin(), out.begin() + 4) == std::vector<uint8_t>{1, 1, 1, 0});
  }
}

template <class Out, class In>
std::vector<Out> cast(HostIsa isa, Lane from, DType to, std::vector<In> in) {
  // Longer than a vector, so that fast paths run too.
  const size_t once = in.size();
  std::vector<In> x;
  for (int i = 0; i < 40; ++i) x.insert(x.end(), in.begin(), in.end());
  std::vector<Out> y(x.size());
  cast_fn(isa, from, to)(y.data(), x.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < y.size(); ++i)
    if (std::memcmp(&y[i], &y[i % once], sizeof(Out)) != 0) FAIL("a cast depends on the position: " << i);
  y.resize(once);
  return y;
}

TEST_CASE("casts answer as PyTorch's CPU does, out of range and NaN included") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> f = {300, -1, nan, inf, 3e9f, -3e9f, 70000, 1e20f, 2.9f, -2.9f};
  const std::vector<double> d(f.begin(), f.end());
  using I = std::vector<int32_t>;
  using L = std::vector<int64_t>;
  for (HostIsa isa : isas()) {
    CHECK(cast<int32_t>(isa, Lane::kF32, DType::kI8, f) == I{44, -1, 0, 0, 0, 0, 112, 0, 2, -2});
    CHECK(cast<int32_t>(isa, Lane::kF32, DType::kU8, f) == I{44, 255, 0, 0, 0, 0, 112, 0, 2, 254});
    CHECK(cast<int32_t>(isa, Lane::kF32, DType::kI16, f) == I{300, -1, 0, 0, 0, 0, 4464, 0, 2, -2});
    const I i32 = {300, -1, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN, 70000, INT32_MIN, 2, -2};
    CHECK(cast<int32_t>(isa, Lane::kF32, DType::kI32, f) == i32);
    CHECK(cast<int32_t>(isa, Lane::kF64, DType::kI32, d) == i32);
    const L i64 = {300, -1, INT64_MIN, INT64_MIN, 3000000000, -3000000000, 70000, INT64_MIN, 2, -2};
    CHECK(cast<int64_t>(isa, Lane::kF32, DType::kI64, f) == i64);
    CHECK(cast<int64_t>(isa, Lane::kF64, DType::kI64, d) == i64);
    CHECK(cast<int32_t>(isa, Lane::kF64, DType::kU8, std::vector<double>{4294967301.0}) == I{5});
    CHECK(cast<int32_t>(isa, Lane::kF64, DType::kI8, std::vector<double>{4294967301.0}) == I{0});
    CHECK(cast<int32_t>(isa, Lane::kF32, DType::kBool, std::vector<float>{0, -0.0f, nan, 0.1f}) == I{0, 0, 1, 1});
    CHECK(cast<int32_t>(isa, Lane::kI64, DType::kBool, L{0, int64_t{1} << 32}) == I{0, 1});
    CHECK(cast<int32_t>(isa, Lane::kI64, DType::kI32, L{(int64_t{1} << 32) + 5}) == I{5});
    // One rounding: through double this would tie to even and lose the low bit.
    CHECK(cast<float>(isa, Lane::kI64, DType::kF32, L{(int64_t{1} << 60) + (int64_t{1} << 36) + 1}) ==
          std::vector<float>{std::nextafter(0x1p60f, 1e38f)});
    CHECK(cast<float>(isa, Lane::kI32, DType::kBF16, I{257, 259}) == std::vector<float>{256, 260});
    CHECK(cast<float>(isa, Lane::kF64, DType::kF32, std::vector<double>{0.1, 1e300}) == std::vector<float>{0.1f, inf});
    CHECK(cast<float>(isa, Lane::kF64, DType::kF16, std::vector<double>{65519, 65520}) == std::vector<float>{65504, inf});
    CHECK(cast<double>(isa, Lane::kI64, DType::kF64, L{-3}) == std::vector<double>{-3});
  }
}

TEST_CASE("scalars become lanes, rounded to the dtype") {
  float f = 0;
  scalar_to_lane(ScalarValue::from_f64(0.1), DType::kBF16, &f);
  CHECK(f == test::float_of_bf16(0x3dcd));
  int32_t i = 0;
  scalar_to_lane(ScalarValue::from_i64(300), DType::kI8, &i);
  CHECK(i == 44);
  int64_t l = 0;
  scalar_to_lane(ScalarValue::from_i64(INT64_MAX), DType::kI64, &l);
  CHECK(l == INT64_MAX);
  double d = 0;
  scalar_to_lane(ScalarValue::from_f64(0.1), DType::kF64, &d);
  CHECK(d == 0.1);
  std::vector<double> filled(33, 0);
  fill_lanes(Lane::kF64, filled.data(), &d, 33);
  CHECK(filled == std::vector<double>(33, 0.1));
}

}  // namespace
}  // namespace nax
