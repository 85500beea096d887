// What an expansion sees of its op: inputs as values of the compute dtype, primitive functions in
// the math type, outputs that round once. See expand.h for the expansions.
#pragma once

#include "fusion/lowering/region_ir.h"

namespace nax {

class RegionBuilder;

class OpBuilder {
 public:
  OpBuilder(RegionBuilder& region, uint32_t window_op, uint16_t region_op);

  const OpInfo& info() const { return *info_; }
  const Graph& graph() const;
  const GraphOp& op() const { return *op_; }
  const Frame& frame() const;
  int64_t attr(int i) const { return graph().attr(*op_, i); }
  bool absent(int input) const;
  bool is_tensor(int operand) const;
  DType compute() const { return op_->compute; }
  DType math() const;  // f16 and bf16 compute in f32

  // Input i converted to the compute dtype (tensors), or its scalar argument in the math type.
  Ref in(int i);
  // Input i in another dtype; kInvalid: as stored.
  Ref in_as(int i, DType dtype);
  Ref constant(double v);
  Ref constant_int(int64_t v);
  // fn(a, b, c) in the math type; comparisons and logic give bools.
  Ref apply(ScalarOp fn, Ref a, Ref b = {}, Ref c = {});
  Ref select(Ref condition, Ref a, Ref b) { return apply(ScalarOp::kSelect, condition, a, b); }
  // Over the row (or the reduced dims of a column region), in the math type; kAny and kAll on
  // bools.
  Ref reduce(ReduceFn fn, Ref a);
  Ref scan(ReduceFn fn, Ref a);  // of f32 in f64, of f16 and bf16 in f32, like PyTorch's CPU kernels; rounded once
  // Elements reduced to one, as a value of the math type (bound at launch).
  Ref count();
  // start + coordinate * step along a dim of the op's full shape.
  Ref iota(int shape_dim, Ref start, Ref step, DType dtype);
  // Rounds to the op's result dtype, then to output i's dtype; stores or forwards it.
  void out(int i, Ref value);
  // The same without the rounding to the result dtype (copies).
  void out_raw(int i, Ref value);

  // psum of inputs a, b as a value.
  Ref matmul(int a, int b);
  // x[..., index, ...]: input x read indirectly along its dim; other dims follow the frame.
  Ref load_indirect(int x, int dim, Ref index, DType dtype);
  // An operand whose dims are those of the full shape, one for one (indexing ops), or one frame dim
  // only.
  Ref load_aligned(int x, DType dtype);
  Ref load_along(int x, int shape_dim, DType dtype);
  void store_indirect(int output, int dim, Ref index, Ref value);

  void fail(Status status);

 private:
  Ref converted(Ref value, DType to);
  Ref rounded(Ref value, DType to);
  Ref as_node(Ref value, DType dtype);
  DType dtype_of(Ref value) const;

  RegionBuilder& region_;
  const GraphOp* op_;
  const OpInfo* info_;
  uint32_t window_op_;
  uint16_t index_;
  NodeId first_node_;  // of this op
};

}  // namespace nax
