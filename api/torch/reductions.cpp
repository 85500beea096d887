// Reductions.
#include "api/torch/pointwise.h"

#include <ATen/ops/all_meta.h>
#include <ATen/ops/all_ops.h>
#include <ATen/ops/amax_meta.h>
#include <ATen/ops/amax_ops.h>
#include <ATen/ops/amin_meta.h>
#include <ATen/ops/amin_ops.h>
#include <ATen/ops/any_meta.h>
#include <ATen/ops/any_ops.h>
#include <ATen/ops/argmax_meta.h>
#include <ATen/ops/argmax_ops.h>
#include <ATen/ops/argmin_meta.h>
#include <ATen/ops/argmin_ops.h>
#include <ATen/ops/linalg_vector_norm_meta.h>
#include <ATen/ops/linalg_vector_norm_ops.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/sum_meta.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/var_ops.h>
#include <torch/library.h>

namespace nax::binding {
namespace {

using at::Scalar;
using at::Tensor;

// Bit d: dimension d is reduced. No dimensions mean all of them.
int64_t dim_mask(at::OptionalIntArrayRef dims, int64_t rank) {
  if (!dims.has_value() || dims->empty()) return (int64_t(1) << rank) - 1;
  int64_t mask = 0;
  for (const int64_t d : *dims) mask |= int64_t(1) << c10::maybe_wrap_dim(d, rank);
  return mask;
}

// A reduction of x into `out`, of which the shape is settled. A 0-dim tensor reduces to itself.
bool record_reduction(nax_op_id id, c10::ScalarType compute, const Tensor& x, int64_t mask, bool keepdim,
                      const Tensor& out) {
  if (out.numel() == 0) return true;
  if (x.dim() == 0) return Op(NAX_OP_COPY, compute).in(x).out(out).record();
  return Op(id, compute).in(x).attr(mask).attr(keepdim).out(out).record();
}

// sum, mean
template <nax_op_id kId, class Meta, class AtenOut>
struct Summing {
  static Tensor& out(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
                     std::optional<c10::ScalarType> type, Tensor& out) {
    Shaped<Meta> meta(out);
    meta.meta(self, dims, keepdim, type);
    out = meta.out();
    if (is_neuron(self) && self.dim() <= NAX_MAX_RANK && !self.is_complex() &&
        record_reduction(kId, out.scalar_type(), self, dim_mask(dims, self.dim()), keepdim, out)) {
      return out;
    }
    return fall_back<AtenOut>(self, dims, keepdim, type, out);
  }
  static Tensor functional(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
                           std::optional<c10::ScalarType> type) {
    Tensor result;
    return out(self, dims, keepdim, type, result);
  }
};

// amax, amin
template <nax_op_id kId, class Meta, class AtenOut>
struct Extreme {
  static Tensor& out(const Tensor& self, c10::IntArrayRef dims, bool keepdim, Tensor& out) {
    Shaped<Meta> meta(out);
    meta.meta(self, dims, keepdim);
    out = meta.out();
    if (self.dim() <= NAX_MAX_RANK && out.scalar_type() == self.scalar_type() &&
        record_reduction(kId, self.scalar_type(), self, dim_mask(dims, self.dim()), keepdim, out)) {
      return out;
    }
    return fall_back<AtenOut>(self, dims, keepdim, out);
  }
  static Tensor functional(const Tensor& self, c10::IntArrayRef dims, bool keepdim) {
    Tensor result;
    return out(self, dims, keepdim, result);
  }
};

// any, all: over one dimension, several, or all
bool record_truth(nax_op_id id, const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, const Tensor& out) {
  return out.scalar_type() == c10::ScalarType::Bool && self.dim() <= NAX_MAX_RANK && self.dim() > 0 &&
         record_reduction(id, self.scalar_type(), self, dim_mask(dims, self.dim()), keepdim, out);
}

template <nax_op_id kId, class OfDim, class OfDims, class OfAll, class AtenDim, class AtenDims, class AtenAll>
struct Truth {
  static Tensor& dim(const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
    Shaped<OfDim> meta(out);
    meta.meta(self, dim, keepdim);
    if (self.dim() > 0 && record_truth(kId, self, c10::IntArrayRef(dim), keepdim, out)) return out;
    return fall_back<AtenDim>(self, dim, keepdim, out);
  }
  static Tensor& dims(const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim, Tensor& out) {
    Shaped<OfDims> meta(out);
    meta.meta(self, dims, keepdim);
    const bool all = !dims.has_value();
    if ((all || !dims->empty()) && record_truth(kId, self, dims, keepdim, out)) return out;
    return fall_back<AtenDims>(self, dims, keepdim, out);
  }
  static Tensor& all(const Tensor& self, Tensor& out) {
    Shaped<OfAll> meta(out);
    meta.meta(self);
    if (record_truth(kId, self, std::nullopt, false, out)) return out;
    return fall_back<AtenAll>(self, out);
  }
};

template <nax_op_id kId, class Meta, class AtenOut>
Tensor& arg_extreme_out(const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& out) {
  Shaped<Meta> meta(out);
  meta.meta(self, dim, keepdim);
  const auto dims = dim.has_value() ? at::OptionalIntArrayRef(*dim) : at::OptionalIntArrayRef();
  if (self.dim() > 0 && self.dim() <= NAX_MAX_RANK && out.numel() > 0 &&
      Op(kId, self.scalar_type()).in(self).attr(dim_mask(dims, self.dim())).attr(keepdim).out(out).record()) {
    return out;
  }
  return fall_back<AtenOut>(self, dim, keepdim, out);
}

Tensor& vector_norm_out(const Tensor& self, const Scalar& ord, at::OptionalIntArrayRef dims, bool keepdim,
                        std::optional<c10::ScalarType> type, Tensor& out) {
  Shaped<at::meta::structured_linalg_vector_norm> meta(out);
  meta.meta(self, ord, dims, keepdim, type);
  out = meta.out();
  if (!ord.isComplex() && ord.toDouble() == 2.0 && self.is_floating_point() && self.dim() > 0 &&
      self.dim() <= NAX_MAX_RANK &&
      record_reduction(NAX_OP_NORM2, out.scalar_type(), self, dim_mask(dims, self.dim()), keepdim, out)) {
    return out;
  }
  return fall_back<at::_ops::linalg_vector_norm_out>(self, ord, dims, keepdim, type, out);
}

Tensor vector_norm(const Tensor& self, const Scalar& ord, at::OptionalIntArrayRef dims, bool keepdim,
                   std::optional<c10::ScalarType> type) {
  Tensor out;
  return binding::vector_norm_out(self, ord, dims, keepdim, type, out);
}

Tensor var_correction(const Tensor& self, at::OptionalIntArrayRef dims, const std::optional<Scalar>& correction,
                      bool keepdim) {
  if (!self.is_floating_point() || self.dim() == 0 || self.dim() > NAX_MAX_RANK || self.numel() == 0) {
    return fall_back<at::_ops::var_correction>(self, dims, correction, keepdim);
  }
  const int64_t mask = dim_mask(dims, self.dim());
  c10::SmallVector<int64_t, NAX_MAX_RANK> sizes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!(mask >> d & 1)) {
      sizes.push_back(self.size(d));
    } else if (keepdim) {
      sizes.push_back(1);
    }
  }
  Tensor out = empty_tensor(sizes, self.scalar_type(), self.device().index());
  if (Op(NAX_OP_VAR, self.scalar_type())
          .in(self)
          .in(correction.value_or(Scalar(1)))
          .attr(mask)
          .attr(keepdim)
          .out(out)
          .record()) {
    return out;
  }
  return fall_back<at::_ops::var_correction>(self, dims, correction, keepdim);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Sum = Summing<NAX_OP_SUM, at::meta::structured_sum_dim_IntList, at::_ops::sum_IntList_out>;
  using Mean = Summing<NAX_OP_MEAN, at::meta::structured_mean_dim, at::_ops::mean_out>;
  m.impl("sum.dim_IntList", &Sum::functional);
  m.impl("sum.IntList_out", &Sum::out);
  m.impl("mean.dim", &Mean::functional);
  m.impl("mean.out", &Mean::out);
  using Amax = Extreme<NAX_OP_AMAX, at::meta::structured_amax, at::_ops::amax_out>;
  using Amin = Extreme<NAX_OP_AMIN, at::meta::structured_amin, at::_ops::amin_out>;
  m.impl("amax", &Amax::functional);
  m.impl("amax.out", &Amax::out);
  m.impl("amin", &Amin::functional);
  m.impl("amin.out", &Amin::out);
  using Any = Truth<NAX_OP_ANY, at::meta::structured_any_dim, at::meta::structured_any_dims,
                    at::meta::structured_any, at::_ops::any_out, at::_ops::any_dims_out, at::_ops::any_all_out>;
  using All = Truth<NAX_OP_ALL, at::meta::structured_all_dim, at::meta::structured_all_dims,
                    at::meta::structured_all, at::_ops::all_out, at::_ops::all_dims_out, at::_ops::all_all_out>;
  m.impl("any.out", &Any::dim);
  m.impl("any.dims_out", &Any::dims);
  m.impl("any.all_out", &Any::all);
  m.impl("all.out", &All::dim);
  m.impl("all.dims_out", &All::dims);
  m.impl("all.all_out", &All::all);
  m.impl("argmax.out", &arg_extreme_out<NAX_OP_ARGMAX, at::meta::structured_argmax, at::_ops::argmax_out>);
  m.impl("argmin.out", &arg_extreme_out<NAX_OP_ARGMIN, at::meta::structured_argmin, at::_ops::argmin_out>);
  m.impl("linalg_vector_norm", &vector_norm);
  m.impl("linalg_vector_norm.out", &vector_norm_out);
  m.impl("var.correction", &var_correction);
}

}  // namespace
}  // namespace nax::binding
