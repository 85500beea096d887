// Pointwise backwards.
#include "api/torch/pointwise.h"

#include <ATen/native/Activation.h>
#include <ATen/ops/gelu_backward_meta.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/sigmoid_backward_meta.h>
#include <ATen/ops/sigmoid_backward_ops.h>
#include <ATen/ops/silu_backward_meta.h>
#include <ATen/ops/silu_backward_ops.h>
#include <ATen/ops/tanh_backward_meta.h>
#include <ATen/ops/tanh_backward_ops.h>
#include <ATen/ops/threshold_backward_meta.h>
#include <ATen/ops/threshold_backward_ops.h>
#include <torch/library.h>

namespace nax::binding {
namespace {

using at::Tensor;

// The incoming gradient, and the forward's input or output.
template <nax_op_id kId, class Meta, class AtenOut>
struct Backward {
  static Tensor& out(const Tensor& grad, const Tensor& saved, Tensor& out) {
    run_shaped<Meta, AtenOut>(
        kId, out, false, [&](auto& meta) { meta.meta(grad, saved); },
        [&](Op& op) { op.in(grad).in(saved); }, grad, saved);
    return out;
  }
  static Tensor functional(const Tensor& grad, const Tensor& saved) {
    Tensor result;
    if (!is_plain_float(saved) || !joins(saved, grad) || !is_neuron(grad)) return out(grad, saved, result);
    result = empty_like_tensor(saved, saved.scalar_type());
    Op op(kId, saved.scalar_type());
    op.in(grad).in(saved);
    run<AtenOut>(op, result, grad, saved);
    return result;
  }
};

nax_op_id gelu_id(c10::string_view approximate) {
  return at::native::get_gelutype_enum(approximate) == at::native::GeluType::Tanh ? NAX_OP_GELU_TANH_BACKWARD : NAX_OP_GELU_BACKWARD;  // raises for others
}

Tensor& gelu_backward_out(const Tensor& grad, const Tensor& self, c10::string_view approximate, Tensor& out) {
  run_shaped<at::meta::structured_gelu_backward, at::_ops::gelu_backward_grad_input>(
      gelu_id(approximate), out, false, [&](auto& meta) { meta.meta(grad, self, approximate); },
      [&](Op& op) { op.in(grad).in(self); }, grad, self, approximate);
  return out;
}

Tensor& threshold_backward_out(const Tensor& grad, const Tensor& self, const at::Scalar& threshold, Tensor& out) {
  run_shaped<at::meta::structured_threshold_backward, at::_ops::threshold_backward_grad_input>(
      NAX_OP_THRESHOLD_BACKWARD, out, false, [&](auto& meta) { meta.meta(grad, self, threshold); },
      [&](Op& op) { op.in(grad).in(self).in(threshold); }, grad, self, threshold);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define NAX_IMPL(name, id)                                                                         \
  {                                                                                                \
    using Kernel = Backward<NAX_OP_##id, at::meta::structured_##name, at::_ops::name##_grad_input>; \
    m.impl(#name, &Kernel::functional);                                                            \
    m.impl(#name ".grad_input", &Kernel::out);                                                     \
  }
  NAX_IMPL(sigmoid_backward, SIGMOID_BACKWARD)
  NAX_IMPL(tanh_backward, TANH_BACKWARD)
  NAX_IMPL(silu_backward, SILU_BACKWARD)
#undef NAX_IMPL
  m.impl("gelu_backward.grad_input", &gelu_backward_out);
  m.impl("threshold_backward.grad_input", &threshold_backward_out);
}

}  // namespace
}  // namespace nax::binding
