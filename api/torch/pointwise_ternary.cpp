// Pointwise ops of three operands: where, clamp, lerp, addcmul, addcdiv, masked_fill.
#include "api/torch/pointwise.h"

#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/Dispatch.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_max_ops.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/clamp_min_ops.h>
#include <ATen/ops/lerp_meta.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/masked_fill_ops.h>
#include <ATen/ops/where_ops.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

namespace nax::binding {
namespace {

using at::Scalar;
using at::Tensor;

// ---- where

bool where_fast(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return is_plain(a) && is_neuron(condition) && condition.scalar_type() == c10::ScalarType::Bool &&
         condition.sizes() == a.sizes() && condition.strides() == a.strides() && joins(a, b) &&
         a.is_floating_point();
}

Tensor& where_out(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  if (condition.scalar_type() != c10::ScalarType::Bool || self.scalar_type() != other.scalar_type() ||
      self.scalar_type() != out.scalar_type() || !is_neuron(out)) {
    return fall_back<at::_ops::where_self_out>(condition, self, other, out);
  }
  at::TensorIterator iterator = at::TensorIteratorConfig()
                                    .check_all_same_dtype(false)
                                    .add_output(out)
                                    .add_const_input(condition)
                                    .add_const_input(self)
                                    .add_const_input(other)
                                    .build();
  if (out.numel() == 0 ||
      Op(NAX_OP_WHERE, self.scalar_type()).in(condition).in(self).in(other).out(out).record()) {
    return out;
  }
  return fall_back<at::_ops::where_self_out>(condition, self, other, out);
}

Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  if (where_fast(condition, self, other)) {
    Tensor out = empty_like_tensor(self, self.scalar_type());
    Op op(NAX_OP_WHERE, self.scalar_type());
    op.in(condition).in(self).in(other);
    run<at::_ops::where_self_out>(op, out, condition, self, other);
    return out;
  }
  if (condition.scalar_type() != c10::ScalarType::Bool || self.scalar_type() != other.scalar_type() ||
      !is_neuron(condition)) {
    return fall_back<at::_ops::where_self>(condition, self, other);
  }
  Tensor out;
  at::TensorIterator iterator = at::TensorIteratorConfig()
                                    .check_all_same_dtype(false)
                                    .declare_static_dtype_and_device(self.scalar_type(), condition.device())
                                    .add_output(out)
                                    .add_const_input(condition)
                                    .add_const_input(self)
                                    .add_const_input(other)
                                    .build();
  out = iterator.output();
  if (out.numel() == 0 ||
      Op(NAX_OP_WHERE, self.scalar_type()).in(condition).in(self).in(other).out(out).record()) {
    return out;
  }
  fall_back<at::_ops::where_self_out>(condition, self, other, out);
  return out;
}

// ---- masked_fill_

bool can_mask(const Tensor& self, const Tensor& mask) {
  return is_plain(self) && is_neuron(mask) && mask.device() == self.device() &&
         mask.scalar_type() == c10::ScalarType::Bool && joins_mask(self, mask);
}

Tensor& masked_fill_scalar_(Tensor& self, const Tensor& mask, const Scalar& value) {
  if (can_mask(self, mask) && !value.isComplex() && (self.is_floating_point() || value.isIntegral(true)) &&
      (self.numel() == 0 ||
       Op(NAX_OP_MASKED_FILL, self.scalar_type()).in(self).in(mask).in(value).out(self).record())) {
    return self;
  }
  return fall_back<at::_ops::masked_fill__Scalar>(self, mask, value);
}

Tensor& masked_fill_tensor_(Tensor& self, const Tensor& mask, const Tensor& value) {
  if (value.dim() == 0 && is_host_scalar(value) && !value.is_complex()) {
    return masked_fill_scalar_(self, mask, host_scalar(value));
  }
  if (value.dim() == 0 && can_mask(self, mask) && value.scalar_type() == self.scalar_type() &&
      (self.numel() == 0 || Op(NAX_OP_WHERE, self.scalar_type()).in(mask).in(value).in(self).out(self).record())) {
    return self;
  }
  return fall_back<at::_ops::masked_fill__Tensor>(self, mask, value);
}

// ---- addcmul, addcdiv

template <nax_op_id kId, class Meta, class AtenOut>
struct Accumulate {
  static void general(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out) {
    run_shaped<Meta, AtenOut>(
        kId, out, false, [&](auto& meta) { meta.meta(self, a, b, value); },
        [&](Op& op) { op.in(self).in(a).in(b).in_factor(value); }, self, a, b, value);
  }
  static Tensor functional(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
    Tensor out;
    if (is_plain_float(self) && is_neuron(a) && is_neuron(b) && joins(self, a) && joins(self, b) && !value.isComplex()) {
      out = empty_like_tensor(self, self.scalar_type());
      Op op(kId, self.scalar_type());
      op.in(self).in(a).in(b).in_factor(value);
      run<AtenOut>(op, out, self, a, b, value);
    } else {
      general(self, a, b, value, out);
    }
    return out;
  }
  static Tensor& in_place(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
    if (is_plain_float(self) && is_neuron(a) && is_neuron(b) && joins_in_place(self, a) && joins_in_place(self, b) &&
        !value.isComplex()) {
      Op op(kId, self.scalar_type());
      op.in(self).in(a).in(b).in_factor(value);
      run<AtenOut>(op, self, self, a, b, value);
    } else {
      general(self, a, b, value, self);
    }
    return self;
  }
  static Tensor& out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out) {
    general(self, a, b, value, out);
    return out;
  }
};

// ---- lerp: the weight is a number or a tensor

template <class Meta, class AtenOut, class Weight>
struct Lerp {
  static bool fits(const Tensor& self, const Tensor& weight) { return joins_in_place(self, weight); }
  static bool fits(const Tensor&, const Scalar& weight) { return !weight.isComplex(); }

  static Tensor& out(const Tensor& self, const Tensor& end, const Weight& weight, Tensor& out) {
    run_shaped<Meta, AtenOut>(
        NAX_OP_LERP, out, false, [&](auto& meta) { meta.meta(self, end, weight); },
        [&](Op& op) { op.in(self).in(end).in(weight); }, self, end, weight);
    return out;
  }
  static Tensor functional(const Tensor& self, const Tensor& end, const Weight& weight) {
    Tensor out;
    return Lerp::out(self, end, weight, out);
  }
  static Tensor& in_place(Tensor& self, const Tensor& end, const Weight& weight) {
    if (is_plain_float(self) && joins_in_place(self, end) && is_neuron(end) && fits(self, weight)) {
      Op op(NAX_OP_LERP, self.scalar_type());
      op.in(self).in(end).in(weight);
      run<AtenOut>(op, self, self, end, weight);
      return self;
    }
    return Lerp::out(self, end, weight, self);
  }
};

// ---- clamp

using MaybeScalar = std::optional<Scalar>;
using MaybeTensor = std::optional<Tensor>;

void add_bound(Op& op, const MaybeScalar& bound) { bound.has_value() ? op.in(*bound) : op.absent(); }

void add_bound(Op& op, const MaybeTensor& bound) {
  bound.has_value() && bound->defined() ? op.in(*bound) : op.absent();
}

// Raises CPU's error where a bound has no value of the result's dtype.
void check_bound(c10::ScalarType type, const MaybeScalar& bound) {
  if (!bound.has_value() || type == c10::ScalarType::Bool || c10::isComplexType(type)) return;
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, type, "clamp", [&] { (void)bound->to<scalar_t>(); });
}

void check_bounds(const Tensor& self, const MaybeScalar& min, const MaybeScalar& max) {
  c10::ScalarType type = self.scalar_type();
  if (!c10::isFloatingType(type)) {
    for (const MaybeScalar& bound : {min, max})
      if (bound.has_value()) type = c10::promoteTypes(type, at::result_type(self, *bound));
  }
  check_bound(type, min);
  check_bound(type, max);
}

bool real(const MaybeScalar& s) { return !s.has_value() || !s->isComplex(); }

at::OptionalScalarRef scalar_ref(const MaybeScalar& s) {
  return s.has_value() ? at::OptionalScalarRef(*s) : at::OptionalScalarRef();
}

at::OptionalTensorRef tensor_ref(const MaybeTensor& t) {
  return t.has_value() && t->defined() ? at::OptionalTensorRef(*t) : at::OptionalTensorRef();
}

Tensor& clamp_out(const Tensor& self, const MaybeScalar& min, const MaybeScalar& max, Tensor& out) {
  if (real(min) && real(max)) check_bounds(self, min, max);
  run_shaped<at::meta::structured_clamp, at::_ops::clamp_out>(
      NAX_OP_CLAMP, out, false, [&](auto& meta) { meta.meta(self, scalar_ref(min), scalar_ref(max)); },
      [&](Op& op) {
        op.in(self);
        add_bound(op, min);
        add_bound(op, max);
      },
      self, min, max);
  return out;
}

bool clamp_fast(const Tensor& self, const MaybeScalar& min, const MaybeScalar& max) {
  return is_plain_float(self) && real(min) && real(max) && (min.has_value() || max.has_value());
}

void clamp_same_shape(const Tensor& self, const MaybeScalar& min, const MaybeScalar& max, Tensor& out) {
  check_bounds(self, min, max);
  Op op(NAX_OP_CLAMP, self.scalar_type());
  op.in(self);
  add_bound(op, min);
  add_bound(op, max);
  run<at::_ops::clamp_out>(op, out, self, min, max);
}

Tensor clamp(const Tensor& self, const MaybeScalar& min, const MaybeScalar& max) {
  Tensor out;
  if (!clamp_fast(self, min, max)) return binding::clamp_out(self, min, max, out);
  out = empty_like_tensor(self, self.scalar_type());
  clamp_same_shape(self, min, max, out);
  return out;
}

Tensor& clamp_(Tensor& self, const MaybeScalar& min, const MaybeScalar& max) {
  if (!clamp_fast(self, min, max)) return binding::clamp_out(self, min, max, self);
  clamp_same_shape(self, min, max, self);
  return self;
}

Tensor& clamp_min_out(const Tensor& self, const Scalar& min, Tensor& out) {
  run_shaped<at::meta::structured_clamp_min, at::_ops::clamp_min_out>(
      NAX_OP_CLAMP, out, false, [&](auto& meta) { meta.meta(self, min); },
      [&](Op& op) { op.in(self).in(min).absent(); }, self, min);
  return out;
}

Tensor& clamp_max_out(const Tensor& self, const Scalar& max, Tensor& out) {
  run_shaped<at::meta::structured_clamp_max, at::_ops::clamp_max_out>(
      NAX_OP_CLAMP, out, false, [&](auto& meta) { meta.meta(self, max); },
      [&](Op& op) { op.in(self).absent().in(max); }, self, max);
  return out;
}

Tensor& clamp_tensor_out(const Tensor& self, const MaybeTensor& min, const MaybeTensor& max, Tensor& out) {
  run_shaped<at::meta::structured_clamp_Tensor, at::_ops::clamp_Tensor_out>(
      NAX_OP_CLAMP, out, false, [&](auto& meta) { meta.meta(self, tensor_ref(min), tensor_ref(max)); },
      [&](Op& op) {
        op.in(self);
        add_bound(op, min);
        add_bound(op, max);
      },
      self, min, max);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("where.self", &where);
  m.impl("where.self_out", &where_out);
  m.impl("masked_fill_.Scalar", &masked_fill_scalar_);
  m.impl("masked_fill_.Tensor", &masked_fill_tensor_);

  using AddCMul = Accumulate<NAX_OP_ADDCMUL, at::meta::structured_addcmul, at::_ops::addcmul_out>;
  using AddCDiv = Accumulate<NAX_OP_ADDCDIV, at::meta::structured_addcdiv, at::_ops::addcdiv_out>;
  m.impl("addcmul", &AddCMul::functional);
  m.impl("addcmul_", &AddCMul::in_place);
  m.impl("addcmul.out", &AddCMul::out);
  m.impl("addcdiv", &AddCDiv::functional);
  m.impl("addcdiv_", &AddCDiv::in_place);
  m.impl("addcdiv.out", &AddCDiv::out);

  using LerpScalar = Lerp<at::meta::structured_lerp_Scalar, at::_ops::lerp_Scalar_out, Scalar>;
  using LerpTensor = Lerp<at::meta::structured_lerp_Tensor, at::_ops::lerp_Tensor_out, Tensor>;
  m.impl("lerp.Scalar", &LerpScalar::functional);
  m.impl("lerp_.Scalar", &LerpScalar::in_place);
  m.impl("lerp.Scalar_out", &LerpScalar::out);
  m.impl("lerp.Tensor", &LerpTensor::functional);
  m.impl("lerp_.Tensor", &LerpTensor::in_place);
  m.impl("lerp.Tensor_out", &LerpTensor::out);

  m.impl("clamp", &clamp);
  m.impl("clamp_", &clamp_);
  m.impl("clamp.out", &clamp_out);
  m.impl("clamp.Tensor_out", &clamp_tensor_out);
  m.impl("clamp_min.out", &clamp_min_out);
  m.impl("clamp_max.out", &clamp_max_out);
}

}  // namespace
}  // namespace nax::binding
