// mm, bmm and their forms with an addend: beta * c + alpha * (a @ b), fp32 without fma, one
// rounding.
#include "fusion/lowering/expand.h"
#include "fusion/lowering/op_builder.h"

namespace nax {

void expand_matmul(OpBuilder& b) {
  const bool addend = b.info().shape == ShapeRule::kAddmm || b.info().shape == ShapeRule::kBaddbmm;
  if (!addend) return b.out(0, b.matmul(0, 1));
  Ref product = b.matmul(1, 2);
  if (!b.absent(4)) product = b.apply(ScalarOp::kMultiply, product, b.in(4));
  Ref c = b.in(0);
  if (!b.absent(3)) c = b.apply(ScalarOp::kMultiply, c, b.in(3));
  b.out(0, b.apply(ScalarOp::kAdd, c, product));
}

}  // namespace nax
