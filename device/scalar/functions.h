// Every scalar function, once, as a template over a *value*: a C++ vector (strip_f32.h), a C++ scalar (value.h) or an LLVM
// value (device/jit). All values run the same sequence of IEEE operations, so bits are the same everywhere (DESIGN I2):
// nothing here may be reassociated or contracted; a fused multiply-add is written fma().
//
// A value type V has
//   kIsFloat                 floating lanes, or two's complement integer lanes
//   operators + - * / (unary -) and comparisons < <= > >= == != that give its mask type; masks have & | ~
//   x.lit(c)                 the constant c in x's lanes
//   select(m, a, b)          m ? a : b, lane by lane
//   sign_mask(x)             the sign bit as a mask
// floating values moreover
//   fma sqrt floor ceil trunc rint (half to even) abs copysign
//   scale2(p, n)             p * 2^n with one rounding; n integral, |n| <= 252
//   bits(x), from_bits(i)    fp32 only: to and from its integer value
//   to_float(i), to_int(x)   fp32 only: lane-wise conversions (to_int truncates)
// integer values moreover & | ^ ~, shl(x, k) shr(x, k) for constant k (shr is arithmetic), shl_by(x, y) shr_by(x, y) for
//   variable 0 <= y < width, kWidth.
// Coefficients are minimax fits (fit_coefficients.py) on the stated intervals: relative error of the result, before fp32
// rounding.
#pragma once

#include <limits>

#include "device/isa/program.h"
#include "device/isa/scalar_op.h"

namespace nax::scalar {

template <class V>
V exp_kernel(V n, V r) {  // e^r * 2^n for |r| <= ln2 / 2: 2^-28
  V p = r.lit(0x1.6a234ep-10f);
  p = fma(p, r, r.lit(0x1.123a6cp-7f));
  p = fma(p, r, r.lit(0x1.5558f4p-5f));
  p = fma(p, r, r.lit(0x1.55549p-3f));
  p = fma(p, r, r.lit(0x1.fffffcp-2f));
  p = fma(p, r, r.lit(1.0f));
  p = fma(p, r, r.lit(1.0f));
  return scale2(p, n);
}

// n = rint(x / ln2), r = x - n ln2 (ln2 in two parts).
template <class V>
V ln2_remainder(V x, V* n) {
  *n = rint(x * x.lit(0x1.715476p+0f));
  V r = fma(*n, x.lit(-0x1.62e4p-1f), x);
  return fma(*n, x.lit(-0x1.7f7d1cp-20f), r);
}

// Comparisons are written so that a NaN passes through to the arithmetic.
template <class V>
V exp(V x) {
  x = select(x > x.lit(89.0f), x.lit(89.0f), x);
  x = select(x < x.lit(-104.0f), x.lit(-104.0f), x);
  V n = x;
  V r = ln2_remainder(x, &n);
  return exp_kernel(n, r);
}

template <class V>
V expm1(V x) {
  V y = select(x > x.lit(89.0f), x.lit(89.0f), x);
  y = select(y < y.lit(-18.0f), y.lit(-18.0f), y);
  V n = y;
  V r = ln2_remainder(y, &n);
  V q = r.lit(0x1.a032c8p-13f);  // (e^r - 1 - r) / r^2: 2^-32
  q = fma(q, r, r.lit(0x1.6d7298p-10f));
  q = fma(q, r, r.lit(0x1.11118ap-7f));
  q = fma(q, r, r.lit(0x1.5554bp-5f));
  q = fma(q, r, r.lit(0x1.555554p-3f));
  q = fma(q, r, r.lit(0.5f));
  V p = fma(r * r, q, r);
  V s = scale2(y.lit(1.0f), n - y.lit(1.0f));  // half of 2^n, which may overflow
  V e = fma(s, p, s - y.lit(0.5f));
  return select(abs(x) < x.lit(0x1p-25f), x, e + e);
}

template <class V>
V log_positive(V x) {  // x > 0, finite
  auto tiny = x < x.lit(0x1p-126f);
  x = select(tiny, x * x.lit(0x1p23f), x);
  auto i = bits(x) - bits(x).lit(0x3f3504f3);  // m in [sqrt(1/2), sqrt(2))
  V e = to_float(shr(i, 23)) - select(tiny, x.lit(23.0f), x.lit(0.0f));
  V f = from_bits((i & i.lit(0x007fffff)) + i.lit(0x3f3504f3)) - x.lit(1.0f);
  V p = f.lit(-0x1.38b4ccp-4f);  // (log1p(f) - f + f^2 / 2) / f^3: 2^-27
  p = fma(p, f, f.lit(0x1.055b46p-3f));
  p = fma(p, f, f.lit(-0x1.0d8552p-3f));
  p = fma(p, f, f.lit(0x1.22da22p-3f));
  p = fma(p, f, f.lit(-0x1.547244p-3f));
  p = fma(p, f, f.lit(0x1.99a008p-3f));
  p = fma(p, f, f.lit(-0x1.000228p-2f));
  p = fma(p, f, f.lit(0x1.555554p-2f));
  V f2 = f * f;
  V y = fma(p * f, f2, e * e.lit(-0x1.bd0106p-13f));
  y = fma(f2, f.lit(-0.5f), y);
  return fma(e, e.lit(0x1.63p-1f), f + y);
}

template <class V>
V log(V x) {
  const float inf = std::numeric_limits<float>::infinity();
  V y = select(x < x.lit(inf), log_positive(x), x);  // inf and NaN stay
  y = select(x < x.lit(0.0f), x.lit(std::numeric_limits<float>::quiet_NaN()), y);
  return select(x == x.lit(0.0f), x.lit(-inf), y);
}

template <class V>
V log1p(V x) {
  V u = x.lit(1.0f) + x;
  V correction = (x - (u - x.lit(1.0f))) / u;  // what 1 + x has lost
  auto plain = (u > x.lit(0.0f)) & (u < x.lit(std::numeric_limits<float>::infinity()));
  V y = log(u) + select(plain, correction, x.lit(0.0f));
  return select(x == x.lit(0.0f), x, y);
}

template <class V>
V tanh(V x) {
  V a = abs(x);
  V s = a * a;
  V p = s.lit(-0x1.75624cp-8f);  // (tanh(a) - a) / a^3 for a < 0.626: 2^-27
  p = fma(p, s, s.lit(0x1.520b3p-6f));
  p = fma(p, s, s.lit(-0x1.b83856p-5f));
  p = fma(p, s, s.lit(0x1.11070ap-3f));
  p = fma(p, s, s.lit(-0x1.555532p-2f));
  V small = fma(a * s, p, a);
  V large = a.lit(1.0f) - a.lit(2.0f) / (exp(a + a) + a.lit(1.0f));
  return copysign(select(a < a.lit(0.625f), small, large), x);
}

template <class V>
V erf(V x) {
  V a = abs(x);
  V s = a * a;
  V p = s.lit(0x1.5cd622p-14f);  // erf(a) / a - 1 for a < 0.93: 2^-31
  p = fma(p, s, s.lit(-0x1.aa3fbp-11f));
  p = fma(p, s, s.lit(0x1.54c806p-8f));
  p = fma(p, s, s.lit(-0x1.b80e94p-6f));
  p = fma(p, s, s.lit(0x1.ce2e0ap-4f));
  p = fma(p, s, s.lit(-0x1.812742p-2f));
  p = fma(p, s, s.lit(0x1.06eba8p-3f));
  V small = fma(p, a, a);
  V t = select(a > a.lit(4.0f), a.lit(4.0f), a);
  V q = t.lit(-0x1.61ea64p-16f);  // log(erfc(a)) for 0.92 < a < 4: 2^-34 of erf
  q = fma(q, t, t.lit(0x1.c79111p-12f));
  q = fma(q, t, t.lit(-0x1.115accp-8f));
  q = fma(q, t, t.lit(0x1.9b8e7ep-6f));
  q = fma(q, t, t.lit(-0x1.bb83e6p-4f));
  q = fma(q, t, t.lit(-0x1.44460cp-1f));
  q = fma(q, t, t.lit(-0x1.2127e4p+0f));
  q = fma(q, t, t.lit(0x1.6e56b4p-13f));
  V n = q;
  V r = ln2_remainder(q, &n);
  V large = t.lit(1.0f) - exp_kernel(n, r);
  return copysign(select(a < a.lit(0.925f), small, large), x);
}

// Sine (cosine where `quarter` is 1) for |x| <= kTrigLimit; larger arguments are the caller's. pi/2 in three parts: the first
// difference is exact.
inline constexpr float kTrigLimit = 65536.0f;
template <class V>
V trig(V x, int quarter) {
  V n = rint(x * x.lit(0x1.45f306p-1f));
  V r = fma(n, x.lit(-0x1.921fb6p+0f), x);
  r = fma(n, x.lit(0x1.777a5cp-25f), r);
  r = fma(n, x.lit(0x1.ee59dap-50f), r);
  auto quadrant = to_int(n) + to_int(n).lit(quarter);
  V s = r * r;
  V p = s.lit(0x1.6cccd2p-19f);  // sin(r) on |r| <= pi/4: 2^-37
  p = fma(p, s, s.lit(-0x1.a00f6ap-13f));
  p = fma(p, s, s.lit(0x1.111108p-7f));
  p = fma(p, s, s.lit(-0x1.555556p-3f));
  V sine = fma(r * s, p, r);
  V q = s.lit(0x1.99e536p-16f);  // cos(r): 2^-33
  q = fma(q, s, s.lit(-0x1.6c0c1ep-10f));
  q = fma(q, s, s.lit(0x1.55554ap-5f));
  V h = fma(s, s.lit(-0.5f), s.lit(1.0f));
  V low = fma(s, s.lit(-0.5f), s.lit(1.0f) - h);  // what h has lost
  V cosine = h + fma(q, s * s, low);
  auto odd = (quadrant & quadrant.lit(1)) != quadrant.lit(0);
  auto minus = (quadrant & quadrant.lit(2)) != quadrant.lit(0);
  V y = select(odd, cosine, sine);
  y = select(minus, -y, y);
  return quarter == 0 ? select(x == x.lit(0.0f), x, y) : y;  // sin(-0) = -0
}

template <class V>
V maximum(V a, V b) {
  return select((a > b) | (a != a), a, b);
}
template <class V>
V minimum(V a, V b) {
  return select((a < b) | (a != a), a, b);
}
template <class V>
V sigmoid(V x) {
  return x.lit(1.0f) / (x.lit(1.0f) + exp(-x));
}

// |x| of integers wraps at the lowest value, as PyTorch's does.
template <class V>
V absolute(V x) {
  if constexpr (V::kIsFloat)
    return abs(x);
  else
    return select(x < x.lit(0), -x, x);
}

template <ScalarOp Op>
inline constexpr bool kUnsupported = false;

// Functions of one value. Results are V, or V's mask for kBool ops.
template <ScalarOp Op, class V>
auto apply1(V x) {
  using enum ScalarOp;
  constexpr bool kFloat = V::kIsFloat;
  if constexpr (Op == kCopy) return x;
  else if constexpr (Op == kNegative) return -x;
  else if constexpr (Op == kAbs) return absolute(x);
  else if constexpr (Op == kSign) return select(x > x.lit(0), x.lit(1), x.lit(0)) - select(x < x.lit(0), x.lit(1), x.lit(0));
  else if constexpr (Op == kSquare) return x * x;
  else if constexpr (Op == kCube) return x * x * x;
  else if constexpr (Op == kSqrt) return sqrt(x);
  else if constexpr (Op == kRsqrt) return x.lit(1) / sqrt(x);
  else if constexpr (Op == kReciprocal) return x.lit(1) / x;
  else if constexpr (Op == kReciprocalSquare) return x.lit(1) / (x * x);
  else if constexpr (Op == kExp) return exp(x);
  else if constexpr (Op == kExpm1) return expm1(x);
  else if constexpr (Op == kLog) return log(x);
  else if constexpr (Op == kLog1p) return log1p(x);
  else if constexpr (Op == kSin) return trig(x, 0);
  else if constexpr (Op == kCos) return trig(x, 1);
  else if constexpr (Op == kTanh) return tanh(x);
  else if constexpr (Op == kErf) return erf(x);
  else if constexpr (Op == kSigmoid) return sigmoid(x);
  else if constexpr (Op == kSilu) return x / (x.lit(1) + exp(-x));
  else if constexpr (Op == kGelu)
    return (x * x.lit(0.5)) * (x.lit(1) + erf(x * x.lit(0.70710678118654752440)));
  else if constexpr (Op == kGeluTanh) {
    V inner = x.lit(0.79788456080286535588) * (x + x.lit(0.044715) * (x * x * x));
    return (x.lit(0.5) * x) * (x.lit(1) + tanh(inner));
  } else if constexpr (Op == kRelu) return select(x < x.lit(0), x.lit(0), x);
  else if constexpr (Op == kFloor && kFloat) return floor(x);
  else if constexpr (Op == kCeil && kFloat) return ceil(x);
  else if constexpr (Op == kTrunc && kFloat) return trunc(x);
  else if constexpr (Op == kRound && kFloat) return rint(x);
  else if constexpr (Op == kFloor || Op == kCeil || Op == kTrunc || Op == kRound) return x;
  else if constexpr (Op == kIsNan) return x != x;
  else if constexpr (Op == kIsInf && kFloat) return abs(x) == x.lit(std::numeric_limits<double>::infinity());
  else if constexpr (Op == kIsInf) return x != x;
  else if constexpr (Op == kIsFinite && kFloat) return abs(x) < x.lit(std::numeric_limits<double>::infinity());
  else if constexpr (Op == kIsFinite) return x == x;
  else if constexpr (Op == kSignbit) return sign_mask(x);
  else if constexpr (Op == kLogicalNot) return x == x.lit(0);
  else if constexpr (Op == kInvert) return ~x;
  else static_assert(kUnsupported<Op>);
}

template <ScalarOp Op, class V>
auto apply2(V a, V b) {
  using enum ScalarOp;
  if constexpr (Op == kAdd) return a + b;
  else if constexpr (Op == kSubtract) return a - b;
  else if constexpr (Op == kMultiply) return a * b;
  else if constexpr (Op == kDivide) return a / b;
  else if constexpr (Op == kMaximum) return maximum(a, b);
  else if constexpr (Op == kMinimum) return minimum(a, b);
  else if constexpr (Op == kFmax) return select((a > b) | (b != b), a, b);
  else if constexpr (Op == kFmin) return select((a < b) | (b != b), a, b);
  else if constexpr (Op == kTruncDivide && V::kIsFloat) return trunc(a / b);
  else if constexpr (Op == kCopysign) return copysign(a, b);
  else if constexpr (Op == kEqual) return a == b;
  else if constexpr (Op == kNotEqual) return a != b;
  else if constexpr (Op == kLess) return a < b;
  else if constexpr (Op == kLessEqual) return a <= b;
  else if constexpr (Op == kGreater) return a > b;
  else if constexpr (Op == kGreaterEqual) return a >= b;
  else if constexpr (Op == kLogicalAnd) return (a != a.lit(0)) & (b != b.lit(0));
  else if constexpr (Op == kLogicalOr) return (a != a.lit(0)) | (b != b.lit(0));
  else if constexpr (Op == kLogicalXor)
    return ((a != a.lit(0)) | (b != b.lit(0))) & ((a == a.lit(0)) | (b == b.lit(0)));
  else if constexpr (Op == kBitwiseAnd) return a & b;
  else if constexpr (Op == kBitwiseOr) return a | b;
  else if constexpr (Op == kBitwiseXor) return a ^ b;
  else if constexpr (Op == kLeftShift) {  // a shift by the width or more, or by a negative count, gives 0
    auto fits = (b >= b.lit(0)) & (b < b.lit(V::kWidth));
    return select(fits, shl_by(a, b & b.lit(V::kWidth - 1)), a.lit(0));
  } else if constexpr (Op == kRightShift) {  // ... gives the sign
    auto fits = (b >= b.lit(0)) & (b < b.lit(V::kWidth));
    return shr_by(a, select(fits, b, b.lit(V::kWidth - 1)));
  } else static_assert(kUnsupported<Op>);
}

template <class V>
V clamp(V x, V low, V high) {
  return minimum(maximum(x, low), high);
}

// Round to nearest even in integer arithmetic: the hardware convert flushes subnormals. NaNs stay quiet NaNs.
template <class V>
V round_bf16(V x) {
  auto i = bits(x);
  auto odd = shr(i, 16) & i.lit(1);
  auto rounded = i + odd + i.lit(0x7fff);
  return from_bits(select(x != x, i | i.lit(0x00400000), rounded) & i.lit(static_cast<int>(0xffff0000)));
}

// One step of a reduction. The accumulator comes first.
template <ReduceFn Fn, class V>
V combine(V a, V b) {
  if constexpr (Fn == ReduceFn::kSum) return a + b;
  else if constexpr (Fn == ReduceFn::kProd) return a * b;
  else if constexpr (Fn == ReduceFn::kMax || Fn == ReduceFn::kAny) return maximum(a, b);
  else return minimum(a, b);
}

// The lanes in which an op is one of the templates above. Everything else is in libm.h (a loop over elements, called).
constexpr bool is_inline(ScalarOp op, Lane lane) {
  using enum ScalarOp;
  const bool is_float = lane == Lane::kF32 || lane == Lane::kF64;
  switch (op) {
    case kCopy: case kNegative: case kAbs: case kSign: case kSquare: case kCube: case kRelu: case kFloor: case kCeil:
    case kTrunc: case kRound: case kIsNan: case kIsInf: case kIsFinite: case kSignbit: case kLogicalNot: case kAdd:
    case kSubtract: case kMultiply: case kMaximum: case kMinimum: case kFmax: case kFmin: case kEqual: case kNotEqual:
    case kLess: case kLessEqual: case kGreater: case kGreaterEqual: case kLogicalAnd: case kLogicalOr: case kLogicalXor:
    case kSelect: case kClamp:
      return true;
    case kSqrt: case kRsqrt: case kReciprocal: case kReciprocalSquare: case kDivide: case kTruncDivide: case kCopysign:
      return is_float;
    case kExp: case kExpm1: case kLog: case kLog1p: case kTanh: case kErf: case kSigmoid: case kSilu: case kGelu:
    case kGeluTanh:
      return lane == Lane::kF32;
    case kInvert: case kBitwiseAnd: case kBitwiseOr: case kBitwiseXor: case kLeftShift: case kRightShift:
      return !is_float;
    default: return false;
  }
}

}  // namespace nax::scalar
