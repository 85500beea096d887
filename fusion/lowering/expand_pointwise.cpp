// Scalar expressions of pointwise ops, in ATen's order of operations.
#include <cmath>

#include "fusion/lowering/expand.h"
#include "fusion/lowering/op_builder.h"

namespace nax {
namespace {

constexpr auto kAdd = ScalarOp::kAdd, kSub = ScalarOp::kSubtract, kMul = ScalarOp::kMultiply,
               kDiv = ScalarOp::kDivide;
constexpr double kSqrtHalf = 0.70710678118654752440, kTwoOverSqrtPi = 1.12837916709551257390,
                 kSqrtTwoOverPi = 0.79788456080286535588;

// The condition of where and masked_fill.
Ref condition(OpBuilder& b, int i) { return b.in_as(i, DType::kBool); }

// a + s * b (or minus), s optional.
void expand_scaled(OpBuilder& b, ScalarOp fn) {
  Ref t = b.in(1);
  if (!b.absent(2)) t = b.apply(kMul, t, b.in(2));
  b.out(0, b.apply(fn, b.in(0), t));
}

// out = x where (column - row <= diagonal) is `lower`, else 0.
void expand_triangle(OpBuilder& b, bool lower) {
  const int rank = b.graph().output(b.op(), 0).view.rank;
  const Ref x = b.in(0);
  const Ref zero = b.constant_int(0), one = b.constant_int(1);
  // column - diagonal <= row keeps the lower triangle; column - diagonal >= row the upper one.
  const Ref column = b.iota(rank - 1, b.constant_int(-b.attr(0)), one, DType::kI64);
  const Ref row = b.iota(rank - 2, zero, one, DType::kI64);
  const Ref keep = b.apply(lower ? ScalarOp::kLessEqual : ScalarOp::kGreaterEqual, column, row);
  b.out(0, b.select(keep, x, b.constant(0)));
}

}  // namespace

void expand_function(OpBuilder& b) {
  const int n = scalar_op_info(b.info().fn).arity;
  b.out(0, b.apply(b.info().fn, b.in(0), n > 1 ? b.in(1) : Ref{}, n > 2 ? b.in(2) : Ref{}));
}

void expand_copy(OpBuilder& b) { b.out_raw(0, b.in_as(0, DType::kInvalid)); }

void expand_bitwise_not(OpBuilder& b) {
  b.out(0,
        b.apply(b.compute() == DType::kBool ? ScalarOp::kLogicalNot : ScalarOp::kInvert, b.in(0)));
}

void expand_softplus(OpBuilder& b) {
  const Ref x = b.in(0), beta = b.in(1), threshold = b.in(2);
  const Ref scaled = b.apply(kMul, x, beta);
  const Ref soft = b.apply(kDiv, b.apply(ScalarOp::kLog1p, b.apply(ScalarOp::kExp, scaled)), beta);
  b.out(0, b.select(b.apply(ScalarOp::kGreater, scaled, threshold), x, soft));
}

void expand_add(OpBuilder& b) {
  if (b.compute() != DType::kBool) return expand_scaled(b, kAdd);
  Ref t = b.in(1);
  if (!b.absent(2)) t = b.apply(ScalarOp::kLogicalAnd, t, b.in(2));
  b.out(0, b.apply(ScalarOp::kLogicalOr, b.in(0), t));
}

void expand_sub(OpBuilder& b) { expand_scaled(b, kSub); }

void expand_mul(OpBuilder& b) {
  b.out(0, b.apply(b.compute() == DType::kBool ? ScalarOp::kLogicalAnd : kMul, b.in(0), b.in(1)));
}

void expand_where(OpBuilder& b) { b.out(0, b.select(condition(b, 0), b.in(1), b.in(2))); }

void expand_masked_fill(OpBuilder& b) { b.out(0, b.select(condition(b, 1), b.in(2), b.in(0))); }

void expand_clamp(OpBuilder& b) {
  Ref v = b.in(0);
  if (!b.absent(1)) v = b.apply(ScalarOp::kMaximum, v, b.in(1));
  if (!b.absent(2)) v = b.apply(ScalarOp::kMinimum, v, b.in(2));
  b.out(0, v);
}

// |w| < 0.5: a + w * (b - a); else b - (b - a) * (1 - w).
void expand_lerp(OpBuilder& b) {
  const Ref x = b.in(0), y = b.in(1), w = b.in(2);
  const Ref d = b.apply(kSub, y, x);
  const Ref near = b.apply(kAdd, x, b.apply(kMul, w, d));
  const Ref far = b.apply(kSub, y, b.apply(kMul, d, b.apply(kSub, b.constant(1), w)));
  b.out(0,
        b.select(b.apply(ScalarOp::kLess, b.apply(ScalarOp::kAbs, w), b.constant(0.5)), near, far));
}

void expand_addcmul(OpBuilder& b) {
  Ref t = b.in(1);
  if (!b.absent(3)) t = b.apply(kMul, b.in(3), t);
  b.out(0, b.apply(kAdd, b.in(0), b.apply(kMul, t, b.in(2))));
}

void expand_addcdiv(OpBuilder& b) {
  Ref t = b.in(1);
  if (!b.absent(3)) t = b.apply(kMul, b.in(3), t);
  b.out(0, b.apply(kAdd, b.in(0), b.apply(kDiv, t, b.in(2))));
}

void expand_tril(OpBuilder& b) { expand_triangle(b, true); }
void expand_triu(OpBuilder& b) { expand_triangle(b, false); }

void expand_threshold_backward(OpBuilder& b) {
  b.out(0, b.select(b.apply(ScalarOp::kLessEqual, b.in(1), b.in(2)), b.constant(0), b.in(0)));
}

void expand_sigmoid_backward(OpBuilder& b) {
  const Ref y = b.in(1);
  b.out(0, b.apply(kMul, b.apply(kMul, b.in(0), b.apply(kSub, b.constant(1), y)), y));
}

void expand_tanh_backward(OpBuilder& b) {
  const Ref y = b.in(1);
  b.out(0, b.apply(kMul, b.in(0), b.apply(kSub, b.constant(1), b.apply(kMul, y, y))));
}

void expand_silu_backward(OpBuilder& b) {
  const Ref x = b.in(1), one = b.constant(1);
  const Ref s = b.apply(ScalarOp::kSigmoid, x);
  const Ref slope = b.apply(kAdd, one, b.apply(kMul, x, b.apply(kSub, one, s)));
  b.out(0, b.apply(kMul, b.apply(kMul, b.in(0), s), slope));
}

void expand_gelu_backward(OpBuilder& b) {
  const Ref x = b.in(1), half = b.constant(0.5);
  const Ref cdf =
      b.apply(kMul, half,
              b.apply(kAdd, b.constant(1),
                      b.apply(ScalarOp::kErf, b.apply(kMul, x, b.constant(kSqrtHalf)))));
  const Ref bell = b.apply(ScalarOp::kExp, b.apply(kMul, b.apply(kMul, x, x), b.constant(-0.5)));
  const Ref pdf = b.apply(kMul, bell, b.constant(kTwoOverSqrtPi * kSqrtHalf * 0.5));
  b.out(0, b.apply(kMul, b.in(0), b.apply(kAdd, cdf, b.apply(kMul, x, pdf))));
}

void expand_gelu_tanh_backward(OpBuilder& b) {
  constexpr double kKappa = 0.044715;
  const Ref x = b.in(1), one = b.constant(1), half = b.constant(0.5),
            beta = b.constant(kSqrtTwoOverPi);
  const Ref square = b.apply(kMul, x, x);
  const Ref inner = b.apply(
      kMul, beta, b.apply(kAdd, x, b.apply(kMul, b.constant(kKappa), b.apply(kMul, square, x))));
  const Ref t = b.apply(ScalarOp::kTanh, inner);
  const Ref left = b.apply(kMul, half, x), right = b.apply(kAdd, one, t);
  const Ref slope_left = b.apply(kMul, half, right);
  const Ref slope_tanh = b.apply(kSub, one, b.apply(kMul, t, t));
  const Ref slope_inner =
      b.apply(kMul, beta, b.apply(kAdd, one, b.apply(kMul, b.constant(3 * kKappa), square)));
  const Ref slope_right = b.apply(kMul, b.apply(kMul, left, slope_tanh), slope_inner);
  b.out(0, b.apply(kMul, b.in(0), b.apply(kAdd, slope_left, slope_right)));
}

void expand_fill(OpBuilder& b) { b.out(0, b.in(0)); }

// In f64 (integers: i64), as ATen accumulates; rounds once.
void expand_arange(OpBuilder& b) {
  const DType wide = is_floating(b.compute()) ? DType::kF64 : DType::kI64;
  b.out(0, b.iota(0, b.in_as(0, wide), b.in_as(1, wide), b.compute()));
}

}  // namespace nax
