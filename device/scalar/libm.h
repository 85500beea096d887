// Functions that are computed one element at a time, through the C library's double functions or exactly: those that no
// common program waits for. fp32 results are the double result rounded once, so they do not depend on the C library's
// fp32 code. In an unnamed namespace: see strip_kernels.h. The JIT calls the strip functions made of these.
#pragma once

#include <math.h>
#include <string.h>

#include <cstdint>
#include <type_traits>

#include "device/isa/program.h"
#include "device/isa/scalar_op.h"
#include "device/scalar/value.h"

namespace nax {
namespace {

constexpr bool is_called(ScalarOp op, Lane lane) {
  using enum ScalarOp;
  switch (op) {
    case kExp2: case kLog2: case kLog10: case kTan: case kAsin: case kAcos: case kAtan: case kSinh: case kCosh: case kAsinh:
    case kAcosh: case kAtanh: case kErfc: case kLgamma: case kAtan2: case kHypot: case kNextafter: case kSin: case kCos:
      return lane == Lane::kF32 || lane == Lane::kF64;
    case kExp: case kExpm1: case kLog: case kLog1p: case kTanh: case kErf: case kSigmoid: case kSilu: case kGelu:
    case kGeluTanh:
      return lane == Lane::kF64;
    case kPower: case kFmod: case kRemainder: case kFloorDivide: return true;
    case kTruncDivide: return lane == Lane::kI64 || lane == Lane::kI32;
    default: return false;
  }
}

template <ScalarOp Op>
inline double libm1(double x) {
  using enum ScalarOp;
  if constexpr (Op == kExp) return ::exp(x);
  else if constexpr (Op == kExp2) return ::exp2(x);
  else if constexpr (Op == kExpm1) return ::expm1(x);
  else if constexpr (Op == kLog) return ::log(x);
  else if constexpr (Op == kLog2) return ::log2(x);
  else if constexpr (Op == kLog10) return ::log10(x);
  else if constexpr (Op == kLog1p) return ::log1p(x);
  else if constexpr (Op == kSin) return ::sin(x);
  else if constexpr (Op == kCos) return ::cos(x);
  else if constexpr (Op == kTan) return ::tan(x);
  else if constexpr (Op == kAsin) return ::asin(x);
  else if constexpr (Op == kAcos) return ::acos(x);
  else if constexpr (Op == kAtan) return ::atan(x);
  else if constexpr (Op == kSinh) return ::sinh(x);
  else if constexpr (Op == kCosh) return ::cosh(x);
  else if constexpr (Op == kTanh) return ::tanh(x);
  else if constexpr (Op == kAsinh) return ::asinh(x);
  else if constexpr (Op == kAcosh) return ::acosh(x);
  else if constexpr (Op == kAtanh) return ::atanh(x);
  else if constexpr (Op == kErf) return ::erf(x);
  else if constexpr (Op == kErfc) return ::erfc(x);
  else if constexpr (Op == kLgamma) {
    int sign = 0;
    return ::lgamma_r(x, &sign);
  } else if constexpr (Op == kSigmoid) return 1.0 / (1.0 + ::exp(-x));
  else if constexpr (Op == kSilu) return x / (1.0 + ::exp(-x));
  else if constexpr (Op == kGelu) return (x * 0.5) * (1.0 + ::erf(x * 0.70710678118654752440));
  else {
    static_assert(Op == kGeluTanh);
    const double inner = 0.79788456080286535588 * (x + 0.044715 * (x * x * x));
    return (0.5 * x) * (1.0 + ::tanh(inner));
  }
}

template <class To>
inline To bit_copy_f64(auto x) {
  static_assert(sizeof(To) == 8 && sizeof(x) == 8);
  To y;
  memcpy(&y, &x, 8);
  return y;
}

// x^y in double: log2 by the series of atanh, exp2 by Taylor's, both beyond 2^-37. Branch-free, and without conversions
// between 64-bit integers and doubles (1.5 * 2^52 does them), so that the loop around it is vectorised.
inline float power_f32(float base, float exponent) {
  constexpr double kToInt = 6755399441055744.0;  // 1.5 * 2^52
  constexpr double kInf = HUGE_VAL;
  const double b = base, y = exponent, x = __builtin_fabs(b);
  const uint64_t i = bit_copy_f64<uint64_t>(x);
  const uint64_t k = (i - 0x3fe6a09e667f3bcd + (uint64_t{1023} << 52)) >> 52;  // m in [sqrt(1/2), sqrt(2)); biased by 1023
  const double m = bit_copy_f64<double>(i - ((k - 1023) << 52));
  const double e = bit_copy_f64<double>(k + bit_copy_f64<uint64_t>(kToInt)) - (kToInt + 1023);
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 17;
  p = __builtin_fma(p, z, 1.0 / 15);
  p = __builtin_fma(p, z, 1.0 / 13);
  p = __builtin_fma(p, z, 1.0 / 11);
  p = __builtin_fma(p, z, 1.0 / 9);
  p = __builtin_fma(p, z, 1.0 / 7);
  p = __builtin_fma(p, z, 1.0 / 5);
  p = __builtin_fma(p, z, 1.0 / 3);
  p = __builtin_fma(p, z, 1.0);
  double t = y * __builtin_fma(s * 2.8853900817779268147, p, e);
  t = t > 200.0 ? 200.0 : t;
  t = t < -200.0 ? -200.0 : t;
  const double shifted = t + kToInt;
  const double r = (t - (shifted - kToInt)) * 0.69314718055994530942;
  double q = 1.0 / 3628800;
  q = __builtin_fma(q, r, 1.0 / 362880);
  q = __builtin_fma(q, r, 1.0 / 40320);
  q = __builtin_fma(q, r, 1.0 / 5040);
  q = __builtin_fma(q, r, 1.0 / 720);
  q = __builtin_fma(q, r, 1.0 / 120);
  q = __builtin_fma(q, r, 1.0 / 24);
  q = __builtin_fma(q, r, 1.0 / 6);
  q = __builtin_fma(q, r, 0.5);
  q = __builtin_fma(q, r, 1.0);
  q = __builtin_fma(q, r, 1.0);
  double result = bit_copy_f64<double>(bit_copy_f64<uint64_t>(q) + (bit_copy_f64<uint64_t>(shifted) << 52));
  const double grows = y > 0.0 ? kInf : 0.0, shrinks = y > 0.0 ? 0.0 : kInf;
  result = x == kInf ? grows : result;
  result = x == 0.0 ? shrinks : result;
  result = x == 1.0 ? 1.0 : result;
  const double half = y * 0.5;
  const double whole_sign = __builtin_floor(half) != half ? __builtin_copysign(1.0, b) : 1.0;  // odd exponents keep the sign
  const bool integral = __builtin_floor(y) == y;
  result = integral ? result * whole_sign : result;
  result = (b < 0.0) & (x < kInf) & !integral ? __builtin_nan("") : result;
  result = (b != b) | (y != y) ? b + y : result;
  result = (y == 0.0) | (b == 1.0) ? 1.0 : result;
  return static_cast<float>(result);
}

template <class T>
inline T power_int(T base, T exponent) {
  using U = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? ((exponent & 1) ? -1 : 1) : 0;
  U result = 1, factor = static_cast<U>(base);
  for (; exponent != 0; exponent >>= 1, factor *= factor)
    if (exponent & 1) result *= factor;
  return static_cast<T>(result);
}

inline float fmod_of(float a, float b) { return ::fmodf(a, b); }
inline double fmod_of(double a, double b) { return ::fmod(a, b); }

// ATen's remainder and floor_divide (div_floor_floating).
template <class T>
inline T remainder_float(T a, T b) {
  const T mod = fmod_of(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}
template <class T>
inline T floor_divide_float(T a, T b) {
  if (b == 0) return a / b;
  const T mod = fmod_of(a, b);
  T div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return static_cast<T>(__builtin_copysign(0.0, static_cast<double>(a / b)));
  T low = static_cast<T>(__builtin_floor(div));
  return div - low > T(0.5) ? low + 1 : low;
}

template <ScalarOp Op, class T>
inline T divide_int(T a, T b, uint8_t* errors) {
  using enum ScalarOp;
  if (b == 0) {
    *errors |= kOpIntegerDivideByZero;
    return 0;
  }
  if (b == -1) {  // the quotient of the lowest value wraps
    if constexpr (Op == kFmod || Op == kRemainder) return 0;
    else return (Scalar<T>{0} - Scalar<T>{a}).v;
  }
  const T quotient = a / b, rest = a % b;
  const bool adjust = rest != 0 && (rest < 0) != (b < 0);
  if constexpr (Op == kFmod) return rest;
  else if constexpr (Op == kRemainder) return adjust ? rest + b : rest;
  else if constexpr (Op == kFloorDivide) return adjust ? quotient - 1 : quotient;
  else {
    static_assert(Op == kTruncDivide);
    return quotient;
  }
}

template <ScalarOp Op, class T>
inline T libm2(T a, T b, uint8_t* errors) {
  using enum ScalarOp;
  constexpr bool kFloat = Scalar<T>::kIsFloat;
  if constexpr (kFloat) {
    const double x = a, y = b;
    if constexpr (Op == kPower && sizeof(T) == 4) return power_f32(a, b);
    else if constexpr (Op == kPower) return ::pow(x, y);
    else if constexpr (Op == kFmod) return fmod_of(a, b);
    else if constexpr (Op == kRemainder) return remainder_float(a, b);
    else if constexpr (Op == kFloorDivide) return floor_divide_float(a, b);
    else if constexpr (Op == kAtan2) return static_cast<T>(::atan2(x, y));
    else if constexpr (Op == kHypot) return static_cast<T>(::hypot(x, y));
    else {
      static_assert(Op == kNextafter);
      if constexpr (sizeof(T) == 4) return ::nextafterf(a, b);
      else return ::nextafter(a, b);
    }
  } else if constexpr (Op == kPower) {
    return power_int(a, b);
  } else {
    return divide_int<Op>(a, b, errors);
  }
}

}  // namespace
}  // namespace nax
