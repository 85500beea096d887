// Expansions of reductions, softmax, norms and scans.
#include "fusion/lowering/expand.h"
#include "fusion/lowering/op_builder.h"

namespace nax {
namespace {

constexpr auto kAdd = ScalarOp::kAdd, kSub = ScalarOp::kSubtract, kMul = ScalarOp::kMultiply,
               kDiv = ScalarOp::kDivide;

Ref sum(OpBuilder& b, Ref v) { return b.reduce(ReduceFn::kSum, v); }
Ref mean(OpBuilder& b, Ref v) { return b.apply(kDiv, sum(b, v), b.count()); }
Ref exp(OpBuilder& b, Ref v) { return b.apply(ScalarOp::kExp, v); }

// Infinite maxima are replaced by 0, so that exp(x - max) is not exp(NaN).
Ref finite_max(OpBuilder& b, Ref x) {
  const Ref m = b.reduce(ReduceFn::kMax, x);
  return b.select(b.apply(ScalarOp::kIsInf, m), b.constant(0), m);
}

}  // namespace

void expand_sum(OpBuilder& b) { b.out(0, sum(b, b.in(0))); }
void expand_mean(OpBuilder& b) { b.out(0, mean(b, b.in(0))); }
void expand_amax(OpBuilder& b) { b.out(0, b.reduce(ReduceFn::kMax, b.in(0))); }
void expand_amin(OpBuilder& b) { b.out(0, b.reduce(ReduceFn::kMin, b.in(0))); }
void expand_prod(OpBuilder& b) { b.out(0, b.reduce(ReduceFn::kProd, b.in(0))); }
void expand_any(OpBuilder& b) { b.out(0, b.reduce(ReduceFn::kAny, b.in_as(0, DType::kBool))); }
void expand_all(OpBuilder& b) { b.out(0, b.reduce(ReduceFn::kAll, b.in_as(0, DType::kBool))); }

// sum((x - mean)^2) / (count - correction); the divisor is not below 0.
void expand_var(OpBuilder& b) {
  const Ref x = b.in(0);
  const Ref d = b.apply(kSub, x, mean(b, x));
  const Ref divisor = b.apply(ScalarOp::kMaximum, b.apply(kSub, b.count(), b.in(1)), b.constant(0));
  b.out(0, b.apply(kDiv, sum(b, b.apply(kMul, d, d)), divisor));
}

void expand_norm2(OpBuilder& b) {
  const Ref x = b.in(0);
  b.out(0, b.apply(ScalarOp::kSqrt, sum(b, b.apply(kMul, x, x))));
}

void expand_logsumexp(OpBuilder& b) {
  const Ref x = b.in(0);
  const Ref m = finite_max(b, x);
  b.out(0, b.apply(kAdd, b.apply(ScalarOp::kLog, sum(b, exp(b, b.apply(kSub, x, m)))), m));
}

void expand_softmax(OpBuilder& b) {
  const Ref x = b.in(0);
  const Ref e = exp(b, b.apply(kSub, x, b.reduce(ReduceFn::kMax, x)));
  b.out(0, b.apply(kDiv, e, sum(b, e)));
}

void expand_log_softmax(OpBuilder& b) {
  const Ref x = b.in(0);
  const Ref shifted = b.apply(kSub, x, b.reduce(ReduceFn::kMax, x));
  b.out(0, b.apply(kSub, shifted, b.apply(ScalarOp::kLog, sum(b, exp(b, shifted)))));
}

void expand_softmax_backward(OpBuilder& b) {
  const Ref g = b.in(0), y = b.in(1);
  b.out(0, b.apply(kMul, b.apply(kSub, g, sum(b, b.apply(kMul, g, y))), y));
}

void expand_log_softmax_backward(OpBuilder& b) {
  const Ref g = b.in(0), y = b.in(1);
  b.out(0, b.apply(kSub, g, b.apply(kMul, exp(b, y), sum(b, g))));
}

void expand_layer_norm(OpBuilder& b) {
  const Ref x = b.in(0);
  const Ref m = mean(b, x);
  const Ref d = b.apply(kSub, x, m);
  const Ref variance = mean(b, b.apply(kMul, d, d));
  const Ref rstd =
      b.apply(kDiv, b.constant(1), b.apply(ScalarOp::kSqrt, b.apply(kAdd, variance, b.in(3))));
  Ref y = b.apply(kMul, d, rstd);
  if (!b.absent(1)) y = b.apply(kMul, y, b.in(1));
  if (!b.absent(2)) y = b.apply(kAdd, y, b.in(2));
  b.out_raw(1, m);
  b.out_raw(2, rstd);
  b.out(0, y);
}

// dx = (g - mean(g) - xhat * mean(g * xhat)) * rstd, with g = grad * weight.
void expand_layer_norm_backward(OpBuilder& b) {
  Ref g = b.in(0);
  const DType math = b.math();
  const Ref m = b.in_as(2, math), rstd = b.in_as(3, math);
  const Ref xhat = b.apply(kMul, b.apply(kSub, b.in(1), m), rstd);
  if (!b.absent(4)) g = b.apply(kMul, g, b.in(4));
  const Ref mean_g = mean(b, g), mean_gx = mean(b, b.apply(kMul, g, xhat));
  b.out(0,
        b.apply(kMul, b.apply(kSub, b.apply(kSub, g, mean_g), b.apply(kMul, xhat, mean_gx)), rstd));
}

void expand_rms_norm(OpBuilder& b) {
  const Ref x = b.in(0);
  const Ref square = mean(b, b.apply(kMul, x, x));
  const Ref rstd =
      b.apply(kDiv, b.constant(1), b.apply(ScalarOp::kSqrt, b.apply(kAdd, square, b.in(2))));
  Ref y = b.apply(kMul, x, rstd);
  if (!b.absent(1)) y = b.apply(kMul, y, b.in(1));
  b.out_raw(1, rstd);
  b.out(0, y);
}

void expand_cumsum(OpBuilder& b) { b.out(0, b.scan(ReduceFn::kSum, b.in(0))); }

}  // namespace nax
