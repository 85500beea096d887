// Accuracy of the fp32 functions against the C library in double (long double where that matters), in units of the last
// place of the exact result.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "device/scalar/strip.h"
#include "tests/device/scalar/inputs.h"

namespace nax {
namespace {

double ulp_of(double exact) {
  const double a = std::fabs(exact);
  if (a < std::numeric_limits<float>::min()) return std::numeric_limits<float>::denorm_min();
  int e;
  std::frexp(a, &e);
  return std::ldexp(1.0, e - 24);
}

// 0 where both are NaN or the same infinity or zero; huge where only one of them is.
double error_in_ulps(float got, double exact) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : 1e30;
  const float rounded = static_cast<float>(exact);
  if (got == rounded) return std::signbit(got) == std::signbit(rounded) || std::fabs(exact) > 0 ? 0 : 1e30;
  if (std::isinf(got) || std::isinf(rounded)) {  // overflow decided one step apart is a rounding error, not a wrong value
    const double limit = std::ldexp(1.0, 128);
    const double g = std::isinf(got) ? std::copysign(limit, got) : got;
    const double x = std::isinf(exact) ? std::copysign(limit, exact) : exact;
    return std::fabs(g - x) / std::ldexp(1.0, 104);
  }
  return std::fabs(got - exact) / ulp_of(exact);
}

void check(HostIsa isa, ScalarOp op, double bound, const std::function<double(double)>& exact,
           const std::function<bool(float)>& domain = [](float) { return true; }) {
  std::vector<float> x;
  for (float v : test::many_floats())
    if (domain(v)) x.push_back(v);
  std::vector<float> y(x.size());
  const StripFn fn = strip_fn(isa, op, Lane::kF32, kStripAll, DType::kF32);
  REQUIRE((fn != nullptr));
  fn(y.data(), x.data(), nullptr, nullptr, static_cast<int64_t>(x.size()), nullptr);
  double worst = 0;
  float at = 0, got = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double e = error_in_ulps(y[i], exact(x[i]));
    if (e > worst) worst = e, at = x[i], got = y[i];
  }
  INFO(std::string(scalar_op_name(op)) << " at " << at << " gives " << got << ", exact " << exact(at));
  CHECK(worst <= bound);
}

TEST_CASE("fp32 functions are within their stated error") {
  const HostIsa isa = HostIsa::kAvx2;
  check(isa, ScalarOp::kExp, 1.0, [](double x) { return std::exp(x); });
  check(isa, ScalarOp::kExpm1, 1.5, [](double x) { return std::expm1(x); });
  check(isa, ScalarOp::kLog, 1.0, [](double x) { return std::log(x); });
  check(isa, ScalarOp::kLog1p, 1.5, [](double x) { return std::log1p(x); });
  check(isa, ScalarOp::kTanh, 1.5, [](double x) { return std::tanh(x); });
  check(isa, ScalarOp::kErf, 1.5, [](double x) { return std::erf(x); });
  check(isa, ScalarOp::kSin, 1.5, [](double x) { return std::sin(x); });
  check(isa, ScalarOp::kCos, 1.5, [](double x) { return std::cos(x); });
  check(isa, ScalarOp::kSqrt, 0.5, [](double x) { return std::sqrt(x); });
  check(isa, ScalarOp::kRsqrt, 1.5, [](double x) { return 1.0 / std::sqrt(x); });
  check(isa, ScalarOp::kReciprocal, 0.5, [](double x) { return 1.0 / x; });
  // 1 + exp(-x) overflows in fp32 where the double does not: the same cut as ATen's.
  check(isa, ScalarOp::kSigmoid, 2.5, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }, [](float x) { return !(x < -87); });
  check(isa, ScalarOp::kSilu, 3.0, [](double x) { return x / (1.0 + std::exp(-x)); }, [](float x) { return !(x < -87); });
  for (ScalarOp op : {ScalarOp::kExp2, ScalarOp::kLog2, ScalarOp::kLog10, ScalarOp::kTan, ScalarOp::kAtan, ScalarOp::kAsinh})
    check(isa, op, 0.501, [op](double x) {
      switch (op) {
        case ScalarOp::kExp2: return std::exp2(x);
        case ScalarOp::kLog2: return std::log2(x);
        case ScalarOp::kLog10: return std::log10(x);
        case ScalarOp::kTan: return std::tan(x);
        case ScalarOp::kAtan: return std::atan(x);
        default: return std::asinh(x);
      }
    });
}

// ATen's own formula cancels for large negative x, so the bound is on |error| / |x|.
TEST_CASE("gelu follows ATen's formula") {
  const std::vector<float> x = test::many_floats();
  std::vector<float> y(x.size());
  for (ScalarOp op : {ScalarOp::kGelu, ScalarOp::kGeluTanh}) {
    strip_fn(HostIsa::kAvx2, op, Lane::kF32, kStripAll, DType::kF32)(y.data(), x.data(), nullptr, nullptr,
                                                                     static_cast<int64_t>(x.size()), nullptr);
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i];
      if (std::isnan(v) || std::fabs(v) > 1e9) continue;
      const double exact = op == ScalarOp::kGelu
                               ? 0.5 * v * (1.0 + std::erf(v * M_SQRT1_2))
                               : 0.5 * v * (1.0 + std::tanh(M_SQRT2 * M_2_SQRTPI * 0.5 * (v + 0.044715 * v * v * v)));
      if (std::fabs(y[i] - exact) > 2.0e-7 * std::fabs(v) + 1e-44) FAIL(scalar_op_name(op) << " at " << x[i] << ": " << y[i]);
    }
  }
}

TEST_CASE("pow is within 0.51 ulp and has C's special cases") {
  const std::vector<float> special = test::special_floats();
  std::vector<float> a, b;
  for (float x : special)
    for (float y : special) a.push_back(x), b.push_back(y);
  std::mt19937_64 rng(3);
  std::uniform_real_distribution<float> base(0.0f, 20.0f), near_one(0.9f, 1.1f), exponent(-40.0f, 40.0f), big(-900.0f, 900.0f);
  for (int i = 0; i < 200000; ++i) {
    a.push_back(base(rng)), b.push_back(exponent(rng));
    a.push_back(near_one(rng)), b.push_back(big(rng));
    a.push_back(-base(rng)), b.push_back(std::rint(exponent(rng)));
    a.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng()))), b.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng())));
  }
  std::vector<float> y(a.size());
  strip_fn(HostIsa::kAvx2, ScalarOp::kPower, Lane::kF32, kStripAll, DType::kF32)(y.data(), a.data(), b.data(), nullptr,
                                                                                static_cast<int64_t>(a.size()), nullptr);
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double e = error_in_ulps(y[i], std::pow(static_cast<double>(a[i]), static_cast<double>(b[i])));
    if (e > 0.51) FAIL("pow(" << a[i] << ", " << b[i] << ") = " << y[i]);
    worst = std::max(worst, e);
  }
  CHECK(worst > 0);
}

template <class T>
std::vector<T> run2(ScalarOp op, Lane lane, DType out, std::vector<T> a, std::vector<T> b, uint8_t* errors) {
  std::vector<T> y(a.size());
  for (HostIsa isa : {HostIsa::kAvx2}) {
    const StripFn fn = strip_fn(isa, op, lane, kStripAll, out);
    REQUIRE((fn != nullptr));
    fn(y.data(), a.data(), b.data(), nullptr, static_cast<int64_t>(a.size()), errors);
  }
  return y;
}

TEST_CASE("integer functions: C and Python signs, wrap-around, division by zero") {
  uint8_t errors = 0;
  using V = std::vector<int32_t>;
  const V a = {-7, 7, -8, 8, INT32_MIN, 5}, b = {2, -2, 3, 3, -1, 7};
  const Lane k = Lane::kI32;
  CHECK(run2(ScalarOp::kFloorDivide, k, DType::kI32, a, b, &errors) == V{-4, -4, -3, 2, INT32_MIN, 0});
  CHECK(run2(ScalarOp::kTruncDivide, k, DType::kI32, a, b, &errors) == V{-3, -3, -2, 2, INT32_MIN, 0});
  CHECK(run2(ScalarOp::kRemainder, k, DType::kI32, a, b, &errors) == V{1, -1, 1, 2, 0, 5});
  CHECK(run2(ScalarOp::kFmod, k, DType::kI32, a, b, &errors) == V{-1, 1, -2, 2, 0, 5});
  CHECK(errors == 0);
  for (ScalarOp op : {ScalarOp::kFloorDivide, ScalarOp::kTruncDivide, ScalarOp::kRemainder, ScalarOp::kFmod}) {
    errors = 0;
    CHECK(run2(op, k, DType::kI32, V{3, 4}, V{0, 2}, &errors)[0] == 0);
    CHECK(errors == kOpIntegerDivideByZero);
  }
  errors = 0;
  CHECK(run2(ScalarOp::kPower, k, DType::kI32, V{2, -2, 0, 1, -1, -1, 3}, V{-1, 3, -2, -3, -3, -2, 40}, &errors) ==
        V{0, -8, 0, 1, -1, 1, static_cast<int32_t>(12157665459056928801ull)});
  CHECK(run2(ScalarOp::kLeftShift, k, DType::kI32, V{1, 1, 1, -1}, V{31, 32, -1, 40}, &errors) == V{INT32_MIN, 0, 0, 0});
  CHECK(run2(ScalarOp::kRightShift, k, DType::kI32, V{-8, 8, -8, -8}, V{1, 32, -1, 99}, &errors) == V{-4, 0, -1, -1});
  CHECK(run2(ScalarOp::kAdd, k, DType::kI8, V{127, -128}, V{1, -1}, &errors) == V{-128, 127});
  CHECK(run2(ScalarOp::kMultiply, k, DType::kU8, V{200, 16}, V{2, 16}, &errors) == V{144, 0});
  CHECK(run2(ScalarOp::kAdd, k, DType::kBool, V{1, 0}, V{1, 0}, &errors) == V{1, 0});
  using W = std::vector<int64_t>;
  CHECK(run2(ScalarOp::kMultiply, Lane::kI64, DType::kI64, W{INT64_MAX}, W{2}, &errors) == W{-2});
  CHECK(run2(ScalarOp::kFloorDivide, Lane::kI64, DType::kI64, W{INT64_MIN, -7}, W{-1, 2}, &errors) == W{INT64_MIN, -4});
}

TEST_CASE("floating remainder and floor_divide follow Python") {
  uint8_t errors = 0;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  using V = std::vector<float>;
  auto same = [](const V& x, const V& y) {
    for (size_t i = 0; i < x.size(); ++i)
      if (!test::same_bits_or_nan(x[i], y[i])) return false;
    return true;
  };
  CHECK(same(run2(ScalarOp::kRemainder, Lane::kF32, DType::kF32, V{5, -5, inf, 1, 0, -0.0f}, V{inf, inf, 2, 0, -2, 3}, &errors),
             V{5, inf, nan, nan, 0, -0.0f}));
  CHECK(same(run2(ScalarOp::kFloorDivide, Lane::kF32, DType::kF32, V{5, -5, inf, 1, 0, -0.0f, nan}, V{inf, inf, 2, 0, -2, 3, 1}, &errors),
             V{0, -1, nan, inf, -0.0f, -0.0f, nan}));
  CHECK(errors == 0);
}

TEST_CASE("comparison, selection and NaN") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a = {1, nan, 2, nan, -inf}, b = {2, 1, nan, nan, 3};
  uint8_t errors = 0;
  auto f = [&](ScalarOp op) { return run2(op, Lane::kF32, DType::kF32, a, b, &errors); };
  for (ScalarOp op : {ScalarOp::kMaximum, ScalarOp::kMinimum}) {
    const auto y = f(op);
    CHECK((std::isnan(y[1]) && std::isnan(y[2]) && std::isnan(y[3])));
  }
  CHECK(f(ScalarOp::kMaximum)[0] == 2);
  CHECK(f(ScalarOp::kMinimum)[4] == -inf);
  CHECK(f(ScalarOp::kFmax)[1] == 1);
  CHECK(f(ScalarOp::kFmin)[2] == 2);
  CHECK(std::isnan(f(ScalarOp::kFmax)[3]));
  std::vector<int32_t> m(a.size());
  auto compare = [&](ScalarOp op) {
    strip_fn(HostIsa::kAvx2, op, Lane::kF32, kStripAll, DType::kBool)(m.data(), a.data(), b.data(), nullptr, 5, &errors);
    return m;
  };
  using M = std::vector<int32_t>;
  CHECK(compare(ScalarOp::kEqual) == M{0, 0, 0, 0, 0});
  CHECK(compare(ScalarOp::kNotEqual) == M{1, 1, 1, 1, 1});
  CHECK(compare(ScalarOp::kLess) == M{1, 0, 0, 0, 1});
  CHECK(compare(ScalarOp::kGreaterEqual) == M{0, 0, 0, 0, 0});
  CHECK(compare(ScalarOp::kLogicalAnd) == M{1, 1, 1, 1, 1});
  std::vector<float> y(5);
  const std::vector<int32_t> condition = {1, 0, 7, 0, -1};
  strip_fn(HostIsa::kAvx2, ScalarOp::kSelect, Lane::kF32, kStripAll, DType::kF32)(y.data(), condition.data(), a.data(), b.data(),
                                                                                  5, &errors);
  CHECK((y[0] == 1 && y[1] == 1 && y[2] == 2 && std::isnan(y[3]) && y[4] == -inf));
}

}  // namespace
}  // namespace nax
