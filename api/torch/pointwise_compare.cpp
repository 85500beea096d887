// Comparisons and logic: results are bool, computed in the operands' common dtype.
#include "api/torch/pointwise.h"

#include <ATen/ops/eq_meta.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/ge_meta.h>
#include <ATen/ops/ge_ops.h>
#include <ATen/ops/gt_meta.h>
#include <ATen/ops/gt_ops.h>
#include <ATen/ops/le_meta.h>
#include <ATen/ops/le_ops.h>
#include <ATen/ops/lt_meta.h>
#include <ATen/ops/lt_ops.h>
#include <ATen/ops/ne_meta.h>
#include <ATen/ops/ne_ops.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/logical_and_ops.h>
#include <ATen/ops/logical_or_ops.h>
#include <ATen/ops/logical_xor_ops.h>
#include <torch/library.h>

namespace nax::binding {
namespace {

using at::Scalar;
using at::Tensor;

// Other is Tensor or Scalar.
template <nax_op_id kId, class Meta, class AtenOut, class Other>
struct Comparison {
  static Tensor functional(const Tensor& self, const Other& other) {
    Tensor out;
    if (is_plain_float(self) && joins(self, other)) {
      out = empty_like_tensor(self, c10::ScalarType::Bool);
      Op op(kId, self.scalar_type());
      op.in(self).in(other);
      run<AtenOut>(op, out, self, other);
      return out;
    }
    return Comparison::out(self, other, out);
  }
  static Tensor& out(const Tensor& self, const Other& other, Tensor& out) {
    run_shaped<Meta, AtenOut>(
        kId, out, true, [&](auto& meta) { meta.meta(self, other); },
        [&](Op& op) { op.in(self).in(other); }, self, other);
    return out;
  }
};

#define NAX_COMPARISONS(X) X(eq, EQ) X(ne, NE) X(lt, LT) X(le, LE) X(gt, GT) X(ge, GE)

template <nax_op_id kId, class AtenOut>
Tensor& logical_out(const Tensor& self, const Tensor& other, Tensor& out) {
  at::TensorIterator iterator = at::TensorIterator::comparison_op(out, self, other);
  if (out.numel() == 0) return out;
  if (out.scalar_type() == c10::ScalarType::Bool &&
      Op(kId, iterator.common_dtype()).in(self).in(other).out(out).record()) {
    return out;
  }
  return fall_back<AtenOut>(self, other, out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define NAX_IMPL(name, id)                                                                         \
  {                                                                                                \
    using OfTensor = Comparison<NAX_OP_##id, at::meta::structured_##name##_Tensor,                 \
                                at::_ops::name##_Tensor_out, Tensor>;                              \
    using OfScalar = Comparison<NAX_OP_##id, at::meta::structured_##name##_Scalar,                 \
                                at::_ops::name##_Scalar_out, Scalar>;                              \
    m.impl(#name ".Tensor", &OfTensor::functional);                                                \
    m.impl(#name ".Tensor_out", &OfTensor::out);                                                   \
    m.impl(#name ".Scalar", &OfScalar::functional);                                                \
    m.impl(#name ".Scalar_out", &OfScalar::out);                                                   \
  }
  NAX_COMPARISONS(NAX_IMPL)
#undef NAX_IMPL
  m.impl("logical_and.out", &logical_out<NAX_OP_LOGICAL_AND, at::_ops::logical_and_out>);
  m.impl("logical_or.out", &logical_out<NAX_OP_LOGICAL_OR, at::_ops::logical_or_out>);
  m.impl("logical_xor.out", &logical_out<NAX_OP_LOGICAL_XOR, at::_ops::logical_xor_out>);
}

}  // namespace
}  // namespace nax::binding
