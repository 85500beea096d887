// Pointwise arithmetic of two tensors.
#include "api/torch/pointwise.h"

#include <ATen/ops/add_meta.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/atan2_meta.h>
#include <ATen/ops/atan2_ops.h>
#include <ATen/ops/bitwise_and_meta.h>
#include <ATen/ops/bitwise_and_ops.h>
#include <ATen/ops/bitwise_or_meta.h>
#include <ATen/ops/bitwise_or_ops.h>
#include <ATen/ops/bitwise_xor_meta.h>
#include <ATen/ops/bitwise_xor_ops.h>
#include <ATen/ops/div_meta.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/fmod_meta.h>
#include <ATen/ops/fmod_ops.h>
#include <ATen/ops/maximum_meta.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/minimum_meta.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/mul_meta.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/pow_meta.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/remainder_meta.h>
#include <ATen/ops/remainder_ops.h>
#include <ATen/ops/sub_meta.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/floor_divide_ops.h>
#include <torch/library.h>

namespace nax::binding {
namespace {

using at::Scalar;
using at::Tensor;

// add and sub: a third operand scales `other`.
template <nax_op_id kId, class Meta, class AtenOut>
struct Scaled {
  static void general(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
    run_shaped<Meta, AtenOut>(
        kId, out, false, [&](auto& meta) { meta.meta(self, other, alpha); },
        [&](Op& op) { op.in(self).in(other).in_factor(alpha); }, self, other, alpha);
  }
  static void same_shape(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
    Op op(kId, self.scalar_type());
    op.in(self).in(other).in_factor(alpha);
    run<AtenOut>(op, out, self, other, alpha);
  }

  // PyTorch refuses some bools, in the structured meta function.
  static bool plain(const Tensor& other, const Scalar& alpha) {
    return !alpha.isComplex() && !alpha.isBoolean() &&
           (kId != NAX_OP_SUB || other.scalar_type() != c10::ScalarType::Bool);
  }

  static Tensor functional(const Tensor& self, const Tensor& other, const Scalar& alpha) {
    Tensor out;
    if (is_plain_float(self) && joins(self, other) && plain(other, alpha)) {
      out = empty_like_tensor(self, self.scalar_type());
      same_shape(self, other, alpha, out);
    } else {
      general(self, other, alpha, out);
    }
    return out;
  }
  static Tensor& in_place(Tensor& self, const Tensor& other, const Scalar& alpha) {
    if (is_plain_float(self) && joins_in_place(self, other) && plain(other, alpha)) {
      same_shape(self, other, alpha, self);
    } else {
      general(self, other, alpha, self);
    }
    return self;
  }
  static Tensor& out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
    general(self, other, alpha, out);
    return out;
  }
};

template <nax_op_id kId, class Meta, class AtenOut>
struct Binary {
  static void general(const Tensor& self, const Tensor& other, Tensor& out) {
    run_shaped<Meta, AtenOut>(
        kId, out, false, [&](auto& meta) { meta.meta(self, other); },
        [&](Op& op) { op.in(self).in(other); }, self, other);
  }
  static void same_shape(const Tensor& self, const Tensor& other, Tensor& out) {
    Op op(kId, self.scalar_type());
    op.in(self).in(other);
    run<AtenOut>(op, out, self, other);
  }

  static Tensor functional(const Tensor& self, const Tensor& other) {
    Tensor out;
    if (is_plain_float(self) && joins(self, other)) {
      out = empty_like_tensor(self, self.scalar_type());
      same_shape(self, other, out);
    } else if (is_plain_float(other) && joins(other, self)) {
      out = empty_like_tensor(other, other.scalar_type());
      Op op(kId, other.scalar_type());
      op.in(self).in(other);
      run<AtenOut>(op, out, self, other);
    } else {
      general(self, other, out);
    }
    return out;
  }
  static Tensor& in_place(Tensor& self, const Tensor& other) {
    if (is_plain_float(self) && joins_in_place(self, other)) {
      same_shape(self, other, self);
    } else {
      general(self, other, self);
    }
    return self;
  }
  static Tensor& out(const Tensor& self, const Tensor& other, Tensor& out) {
    general(self, other, out);
    return out;
  }
};

// name in ATen, overload of the functional form, its structured class, out overload, op
#define NAX_BINARY_OPS(X)                                                                          \
  X(mul, ".Tensor", mul_Tensor, ".out", mul_out, MUL)                                              \
  X(div, ".Tensor", div_Tensor, ".out", div_out, DIV)                                              \
  X(remainder, ".Tensor", remainder_Tensor, ".Tensor_out", remainder_Tensor_out, REMAINDER)        \
  X(fmod, ".Tensor", fmod_Tensor, ".Tensor_out", fmod_Tensor_out, FMOD)                            \
  X(pow, ".Tensor_Tensor", pow_Tensor_Tensor, ".Tensor_Tensor_out", pow_Tensor_Tensor_out, POW)    \
  X(maximum, "", maximum, ".out", maximum_out, MAXIMUM)                                            \
  X(minimum, "", minimum, ".out", minimum_out, MINIMUM)                                            \
  X(atan2, "", atan2, ".out", atan2_out, ATAN2)                                                    \
  X(bitwise_and, ".Tensor", bitwise_and_Tensor, ".Tensor_out", bitwise_and_Tensor_out, BITWISE_AND) \
  X(bitwise_or, ".Tensor", bitwise_or_Tensor, ".Tensor_out", bitwise_or_Tensor_out, BITWISE_OR)    \
  X(bitwise_xor, ".Tensor", bitwise_xor_Tensor, ".Tensor_out", bitwise_xor_Tensor_out, BITWISE_XOR)

// div with rounding.
std::optional<nax_op_id> division(std::optional<c10::string_view> rounding) {
  if (!rounding.has_value()) return NAX_OP_DIV;
  if (*rounding == "floor") return NAX_OP_DIV_FLOOR;
  if (*rounding == "trunc") return NAX_OP_DIV_TRUNC;
  return std::nullopt;
}

Tensor& div_out_mode(const Tensor& self, const Tensor& other, std::optional<c10::string_view> rounding,
                     Tensor& out) {
  const auto id = division(rounding);
  if (!id.has_value()) return fall_back<at::_ops::div_out_mode>(self, other, rounding, out);
  run_shaped<at::meta::structured_div_Tensor_mode, at::_ops::div_out_mode>(
      *id, out, false, [&](auto& meta) { meta.meta(self, other, rounding); },
      [&](Op& op) { op.in(self).in(other); }, self, other, rounding);
  return out;
}

Tensor floor_divide(const Tensor& self, const Tensor& other) {
  Tensor out;
  return div_out_mode(self, other, "floor", out);
}

Tensor& floor_divide_(Tensor& self, const Tensor& other) {
  return div_out_mode(self, other, "floor", self);
}

// Exponents with an algorithm of their own, as on the CPU: op and whether the base goes in at all.
struct PowerForm {
  nax_op_id id;
  enum { kOfBase, kOne, kGeneral } kind;
};

PowerForm power_form(const Scalar& exponent) {
  const double e = exponent.toDouble();
  if (e == 0.0) return {NAX_OP_FILL, PowerForm::kOne};
  if (e == 1.0) return {NAX_OP_COPY, PowerForm::kOfBase};
  if (e == 0.5) return {NAX_OP_SQRT, PowerForm::kOfBase};
  if (e == 2.0) return {NAX_OP_SQUARE, PowerForm::kOfBase};
  if (e == 3.0) return {NAX_OP_CUBE, PowerForm::kOfBase};
  if (e == -0.5) return {NAX_OP_RSQRT, PowerForm::kOfBase};
  if (e == -1.0) return {NAX_OP_RECIPROCAL, PowerForm::kOfBase};
  if (e == -2.0) return {NAX_OP_RECIP_SQUARE, PowerForm::kOfBase};
  return {NAX_OP_POW, PowerForm::kGeneral};
}

void add_power_inputs(Op& op, const PowerForm& form, const Tensor& self, const Scalar& exponent) {
  if (form.kind == PowerForm::kOne) {
    op.in(Scalar(1.0));
    return;
  }
  op.in(self);
  if (form.kind == PowerForm::kGeneral) op.in(exponent);
}

Tensor& pow_scalar_out(const Tensor& self, const Scalar& exponent, Tensor& out) {
  if (exponent.isComplex() || !self.is_floating_point()) {
    if (!out.defined()) {
      Shaped<at::meta::structured_pow_Tensor_Scalar> meta;
      meta.meta(self, exponent);
      out = meta.out();
    }
    return fall_back<at::_ops::pow_Tensor_Scalar_out>(self, exponent, out);
  }
  const PowerForm form = power_form(exponent);
  run_shaped<at::meta::structured_pow_Tensor_Scalar, at::_ops::pow_Tensor_Scalar_out>(
      form.id, out, false, [&](auto& meta) { meta.meta(self, exponent); },
      [&](Op& op) { add_power_inputs(op, form, self, exponent); }, self, exponent);
  return out;
}

void pow_same_shape(const Tensor& self, const Scalar& exponent, Tensor& out) {
  const PowerForm form = power_form(exponent);
  Op op(form.id, self.scalar_type());
  add_power_inputs(op, form, self, exponent);
  run<at::_ops::pow_Tensor_Scalar_out>(op, out, self, exponent);
}

Tensor pow_scalar(const Tensor& self, const Scalar& exponent) {
  Tensor out;
  if (is_plain_float(self) && joins(self, exponent)) {
    out = empty_like_tensor(self, self.scalar_type());
    pow_same_shape(self, exponent, out);
  } else {
    pow_scalar_out(self, exponent, out);
  }
  return out;
}

Tensor& pow_scalar_(Tensor& self, const Scalar& exponent) {
  if (is_plain_float(self) && joins(self, exponent)) {
    pow_same_shape(self, exponent, self);
    return self;
  }
  return pow_scalar_out(self, exponent, self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Add = Scaled<NAX_OP_ADD, at::meta::structured_add_Tensor, at::_ops::add_out>;
  using Sub = Scaled<NAX_OP_SUB, at::meta::structured_sub_Tensor, at::_ops::sub_out>;
  m.impl("add.Tensor", &Add::functional);
  m.impl("add_.Tensor", &Add::in_place);
  m.impl("add.out", &Add::out);
  m.impl("sub.Tensor", &Sub::functional);
  m.impl("sub_.Tensor", &Sub::in_place);
  m.impl("sub.out", &Sub::out);
#define NAX_IMPL(name, overload, structured, out_overload, out_op, id)                             \
  {                                                                                                \
    using Kernel = Binary<NAX_OP_##id, at::meta::structured_##structured, at::_ops::out_op>;       \
    m.impl(#name overload, &Kernel::functional);                                                   \
    m.impl(#name out_overload, &Kernel::out);                                                      \
  }
  NAX_BINARY_OPS(NAX_IMPL)
#undef NAX_IMPL
#define NAX_IMPL(name, structured, out_op, id)                                                     \
  m.impl(#name, &Binary<NAX_OP_##id, at::meta::structured_##structured, at::_ops::out_op>::in_place);
  NAX_IMPL(mul_.Tensor, mul_Tensor, mul_out, MUL)
  NAX_IMPL(div_.Tensor, div_Tensor, div_out, DIV)
  NAX_IMPL(remainder_.Tensor, remainder_Tensor, remainder_Tensor_out, REMAINDER)
  NAX_IMPL(fmod_.Tensor, fmod_Tensor, fmod_Tensor_out, FMOD)
  NAX_IMPL(pow_.Tensor, pow_Tensor_Tensor, pow_Tensor_Tensor_out, POW)
#undef NAX_IMPL
  m.impl("div.out_mode", &div_out_mode);
  m.impl("floor_divide", &floor_divide);
  m.impl("floor_divide_.Tensor", &floor_divide_);
  m.impl("pow.Tensor_Scalar", &pow_scalar);
  m.impl("pow_.Scalar", &pow_scalar_);
  m.impl("pow.Tensor_Scalar_out", &pow_scalar_out);
}

}  // namespace
}  // namespace nax::binding
