// Indexing: reads through an index tile, and program-order scatters.
#include "fusion/lowering/expand.h"
#include "fusion/lowering/op_builder.h"

namespace nax {

void expand_index_select(OpBuilder& b) {
  const auto dim = static_cast<int>(b.attr(0));
  const Ref index = b.load_along(1, dim, DType::kInvalid);
  b.out_raw(0, b.load_indirect(0, dim, index, DType::kInvalid));
}

void expand_gather(OpBuilder& b) {
  const auto dim = static_cast<int>(b.attr(0));
  const Ref index = b.load_aligned(1, DType::kInvalid);
  b.out_raw(0, b.load_indirect(0, dim, index, DType::kInvalid));
}

void expand_scatter_add(OpBuilder& b) {
  const auto dim = static_cast<int>(b.attr(0));
  const Ref index = b.load_aligned(1, DType::kInvalid);
  b.store_indirect(0, dim, index, b.load_aligned(2, b.compute()));
}

void expand_index_add(OpBuilder& b) {
  const auto dim = static_cast<int>(b.attr(0));
  const Ref index = b.load_along(1, dim, DType::kInvalid);
  Ref value = b.load_aligned(2, b.compute());
  if (!b.absent(3)) value = b.apply(ScalarOp::kMultiply, value, b.in(3));
  b.store_indirect(0, dim, index, value);
}

}  // namespace nax
