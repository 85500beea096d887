// Pointwise ops of one tensor.
#include "api/torch/pointwise.h"

#include <ATen/native/Activation.h>
#include <ATen/ops/bitwise_not_meta.h>
#include <ATen/ops/bitwise_not_ops.h>
#include <ATen/ops/ceil_meta.h>
#include <ATen/ops/ceil_ops.h>
#include <ATen/ops/cos_meta.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/erf_meta.h>
#include <ATen/ops/erf_ops.h>
#include <ATen/ops/erfc_meta.h>
#include <ATen/ops/erfc_ops.h>
#include <ATen/ops/exp_meta.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/exp2_meta.h>
#include <ATen/ops/exp2_ops.h>
#include <ATen/ops/expm1_meta.h>
#include <ATen/ops/expm1_ops.h>
#include <ATen/ops/floor_meta.h>
#include <ATen/ops/floor_ops.h>
#include <ATen/ops/gelu_meta.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/isneginf_meta.h>
#include <ATen/ops/isneginf_ops.h>
#include <ATen/ops/isposinf_meta.h>
#include <ATen/ops/isposinf_ops.h>
#include <ATen/ops/log_meta.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/log10_meta.h>
#include <ATen/ops/log10_ops.h>
#include <ATen/ops/log1p_meta.h>
#include <ATen/ops/log1p_ops.h>
#include <ATen/ops/log2_meta.h>
#include <ATen/ops/log2_ops.h>
#include <ATen/ops/neg_meta.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/reciprocal_meta.h>
#include <ATen/ops/reciprocal_ops.h>
#include <ATen/ops/round_meta.h>
#include <ATen/ops/round_ops.h>
#include <ATen/ops/rsqrt_meta.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/sgn_meta.h>
#include <ATen/ops/sgn_ops.h>
#include <ATen/ops/sigmoid_meta.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/sign_meta.h>
#include <ATen/ops/sign_ops.h>
#include <ATen/ops/silu_meta.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/sin_meta.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/softplus_meta.h>
#include <ATen/ops/softplus_ops.h>
#include <ATen/ops/sqrt_meta.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/tan_meta.h>
#include <ATen/ops/tan_ops.h>
#include <ATen/ops/tanh_meta.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/trunc_meta.h>
#include <ATen/ops/trunc_ops.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/abs_ops.h>
#include <ATen/ops/isnan_ops.h>
#include <ATen/ops/logical_not_ops.h>
#include <ATen/ops/relu_ops.h>
#include <torch/library.h>

#include <limits>

namespace nax::binding {
namespace {

using at::Tensor;

template <nax_op_id kId, class Meta, class AtenOut>
struct Unary {
  static void general(const Tensor& self, Tensor& out) {
    run_shaped<Meta, AtenOut>(
        kId, out, false, [&](auto& meta) { meta.meta(self); }, [&](Op& op) { op.in(self); }, self);
  }
  static void same_shape(const Tensor& self, Tensor& out) {
    Op op(kId, self.scalar_type());
    op.in(self);
    run<AtenOut>(op, out, self);
  }

  static Tensor functional(const Tensor& self) {
    Tensor out;
    if (is_plain_float(self)) {
      out = empty_like_tensor(self, self.scalar_type());
      same_shape(self, out);
    } else {
      general(self, out);
    }
    return out;
  }
  static Tensor& in_place(Tensor& self) {
    is_plain_float(self) ? same_shape(self, self) : general(self, self);
    return self;
  }
  static Tensor& out(const Tensor& self, Tensor& out) {
    general(self, out);
    return out;
  }
};

// name, op
#define NAX_UNARY_OPS(X)                                                                           \
  X(bitwise_not, BITWISE_NOT) X(ceil, CEIL) X(cos, COS) X(erf, ERF) X(erfc, ERFC) X(exp, EXP)      \
  X(exp2, EXP2) X(expm1, EXPM1) X(floor, FLOOR) X(log, LOG) X(log10, LOG10) X(log1p, LOG1P)        \
  X(log2, LOG2) X(neg, NEG) X(reciprocal, RECIPROCAL) X(round, ROUND) X(rsqrt, RSQRT)              \
  X(sgn, SIGN) X(sigmoid, SIGMOID) X(sign, SIGN) X(silu, SILU) X(sin, SIN) X(sqrt, SQRT)           \
  X(tan, TAN) X(tanh, TANH) X(trunc, TRUNC)

// Ops with a result of self's dtype that PyTorch has no structured form of.
bool is_real(const Tensor& self) { return !self.is_complex(); }

Tensor& abs_out(const Tensor& self, Tensor& out) {
  if (is_real(self) && out.scalar_type() == self.scalar_type()) {
    at::native::resize_output(out, self.sizes());
    at::assert_no_internal_overlap(out);
    at::assert_no_partial_overlap(out, self);
    Op op(NAX_OP_ABS, self.scalar_type());
    op.in(self);
    run<at::_ops::abs_out>(op, out, self);
    return out;
  }
  return fall_back<at::_ops::abs_out>(self, out);
}

Tensor abs(const Tensor& self) {
  if (!is_plain(self) || !is_real(self)) {
    Tensor out = empty_tensor(
        {0}, c10::toRealValueType(self.scalar_type()), self.device().index());
    return binding::abs_out(self, out);
  }
  Tensor out = empty_like_tensor(self, self.scalar_type());
  return binding::abs_out(self, out);
}

Tensor& abs_(Tensor& self) { return is_real(self) ? binding::abs_out(self, self) : fall_back<at::_ops::abs_>(self); }

Tensor relu(const Tensor& self) {
  if (!is_plain_float(self)) return fall_back<at::_ops::relu>(self);
  Tensor out = empty_like_tensor(self, self.scalar_type());
  if (out.numel() == 0 || Op(NAX_OP_RELU, self.scalar_type()).in(self).out(out).record()) return out;
  return fall_back<at::_ops::relu>(self);
}

Tensor& relu_(Tensor& self) {
  if (is_plain_float(self) &&
      (self.numel() == 0 || Op(NAX_OP_RELU, self.scalar_type()).in(self).out(self).record())) {
    return self;
  }
  return fall_back<at::_ops::relu_>(self);
}

Tensor isnan(const Tensor& self) {
  if (!is_plain_float(self)) return fall_back<at::_ops::isnan>(self);
  Tensor out = empty_like_tensor(self, c10::ScalarType::Bool);
  if (out.numel() == 0 || Op(NAX_OP_ISNAN, self.scalar_type()).in(self).out(out).record()) return out;
  return fall_back<at::_ops::isnan>(self);
}

Tensor& logical_not_out(const Tensor& self, Tensor& out) {
  if (!is_neuron(self) || !is_neuron(out) || out.scalar_type() != c10::ScalarType::Bool) {
    return fall_back<at::_ops::logical_not_out>(self, out);
  }
  at::native::resize_output(out, self.sizes());
  at::assert_no_internal_overlap(out);
  at::assert_no_partial_overlap(out, self);
  Op op(NAX_OP_LOGICAL_NOT, self.scalar_type());
  op.in(self);
  run<at::_ops::logical_not_out>(op, out, self);
  return out;
}

template <class Meta, class AtenOut>
Tensor& is_infinity_out(const Tensor& self, Tensor& out, double infinity) {
  const bool real = self.is_floating_point();
  run_shaped<Meta, AtenOut>(
      NAX_OP_EQ, out, true, [&](auto& meta) { meta.meta(self); },
      [&](Op& op) { real ? op.in(self).in(c10::Scalar(infinity)) : op.in(self).absent(); }, self);
  return out;
}

Tensor& isneginf_out(const Tensor& self, Tensor& out) {
  if (!self.is_floating_point()) return fall_back<at::_ops::isneginf_out>(self, out);
  return is_infinity_out<at::meta::structured_isneginf, at::_ops::isneginf_out>(
      self, out, -std::numeric_limits<double>::infinity());
}

Tensor& isposinf_out(const Tensor& self, Tensor& out) {
  if (!self.is_floating_point()) return fall_back<at::_ops::isposinf_out>(self, out);
  return is_infinity_out<at::meta::structured_isposinf, at::_ops::isposinf_out>(
      self, out, std::numeric_limits<double>::infinity());
}

nax_op_id gelu_id(c10::string_view approximate) {
  return at::native::get_gelutype_enum(approximate) == at::native::GeluType::Tanh ? NAX_OP_GELU_TANH : NAX_OP_GELU;  // raises for others
}

Tensor& gelu_out(const Tensor& self, c10::string_view approximate, Tensor& out) {
  run_shaped<at::meta::structured_gelu, at::_ops::gelu_out>(
      gelu_id(approximate), out, false, [&](auto& meta) { meta.meta(self, approximate); },
      [&](Op& op) { op.in(self); }, self, approximate);
  return out;
}

Tensor gelu(const Tensor& self, c10::string_view approximate) {
  Tensor out;
  if (!is_plain_float(self) || (approximate != "none" && approximate != "tanh")) {
    gelu_out(self, approximate, out);
    return out;
  }
  out = empty_like_tensor(self, self.scalar_type());
  Op op(gelu_id(approximate), self.scalar_type());
  op.in(self);
  run<at::_ops::gelu_out>(op, out, self, approximate);
  return out;
}

Tensor& softplus_out(const Tensor& self, const at::Scalar& beta, const at::Scalar& threshold, Tensor& out) {
  run_shaped<at::meta::structured_softplus, at::_ops::softplus_out>(
      NAX_OP_SOFTPLUS, out, false, [&](auto& meta) { meta.meta(self, beta, threshold); },
      [&](Op& op) { op.in(self).in(beta).in(threshold); }, self, beta, threshold);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define NAX_IMPL(name, id)                                                                         \
  {                                                                                                \
    using Kernel = Unary<NAX_OP_##id, at::meta::structured_##name, at::_ops::name##_out>;          \
    m.impl(#name, &Kernel::functional);                                                            \
    m.impl(#name "_", &Kernel::in_place);                                                          \
    m.impl(#name ".out", &Kernel::out);                                                            \
  }
  NAX_UNARY_OPS(NAX_IMPL)
#undef NAX_IMPL
  m.impl("abs", &abs);
  m.impl("abs_", &abs_);
  m.impl("abs.out", &abs_out);
  m.impl("relu", &relu);
  m.impl("relu_", &relu_);
  m.impl("isnan", &isnan);
  m.impl("logical_not.out", &logical_not_out);
  m.impl("isneginf.out", &isneginf_out);
  m.impl("isposinf.out", &isposinf_out);
  m.impl("gelu", &gelu);
  m.impl("gelu.out", &gelu_out);
  m.impl("softplus.out", &softplus_out);
}

}  // namespace
}  // namespace nax::binding
