// Ops with indices. Shapes and dtypes are checked at the call; an index out of range is only known to the device, and is
// raised by the next synchronisation.
#include "api/torch/pointwise.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/gather_ops.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_add_ops.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_add_ops.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/reciprocal.h>
#include <torch/library.h>

#include "api/torch/copy.h"

namespace nax::binding {
namespace {

using at::Scalar;
using at::Tensor;

bool is_index(const Tensor& t) {
  return is_neuron(t) && (t.scalar_type() == c10::ScalarType::Long || t.scalar_type() == c10::ScalarType::Int);
}

bool can_select(const Tensor& self, int64_t dim, const Tensor& index) {
  return is_index(index) && index.dim() == 1 && self.dim() > 0 && self.dim() <= NAX_MAX_RANK && self.numel() > 0 &&
         dim >= -self.dim() && dim < self.dim() && index.device() == self.device();
}

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  if (!can_select(self, dim, index)) return fall_back<at::_ops::index_select>(self, dim, index);
  const int64_t d = c10::maybe_wrap_dim(dim, self.dim());
  c10::SmallVector<int64_t, NAX_MAX_RANK> sizes(self.sizes().begin(), self.sizes().end());
  sizes[static_cast<size_t>(d)] = index.numel();
  Tensor out = empty_tensor(sizes, self.scalar_type(), self.device().index());
  if (out.numel() == 0 ||
      Op(NAX_OP_INDEX_SELECT, c10::ScalarType::Undefined).in(self).in(index).attr(d).out(out).record()) {
    return out;
  }
  return fall_back<at::_ops::index_select>(self, dim, index);
}

Tensor& gather_out(const Tensor& self, int64_t dim, const Tensor& index, bool sparse_grad, Tensor& out) {
  Shaped<at::meta::structured_gather> meta(out);
  meta.meta(self, dim, index, sparse_grad);
  out = meta.out();
  if (out.numel() == 0) return out;
  if (is_index(index) && self.dim() > 0 && self.numel() > 0 && index.dim() == self.dim() &&
      Op(NAX_OP_GATHER, c10::ScalarType::Undefined)
          .in(self)
          .in(index)
          .attr(c10::maybe_wrap_dim(dim, self.dim()))
          .out(out)
          .record()) {
    return out;
  }
  return fall_back<at::_ops::gather_out>(self, dim, index, sparse_grad, out);
}

Tensor& scatter_add_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, Tensor& out) {
  Shaped<at::meta::structured_scatter_add> meta(out);
  meta.meta(self, dim, index, source);
  out = meta.out();
  if (!is_index(index) || self.dim() == 0 || index.dim() != self.dim() || index.numel() == 0 ||
      source.dim() != self.dim() || !is_neuron(source)) {
    return fall_back<at::_ops::scatter_add_out>(self, dim, index, source, out);
  }
  if (!out.is_same(self)) copy_into(self, out);
  if (Op(NAX_OP_SCATTER_ADD, out.scalar_type())
          .in(out)
          .in(index)
          .in(source)
          .attr(c10::maybe_wrap_dim(dim, self.dim()))
          .out(out)
          .record()) {
    return out;
  }
  return fall_back<at::_ops::scatter_add_out>(out, dim, index, source, out);
}

bool record_index_add(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  return Op(NAX_OP_INDEX_ADD, out.scalar_type()).in(out).in(index).in(source).in_factor(alpha).attr(dim).out(out).record();
}

Tensor& index_add_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha,
                      Tensor& out) {
  Shaped<at::meta::structured_index_add> meta(out);
  meta.meta(self, dim, index, source, alpha);
  out = meta.out();
  if (!is_index(index) || index.dim() != 1 || self.dim() == 0 || index.numel() == 0 || self.numel() == 0 ||
      source.dim() != self.dim() || !is_neuron(source) || alpha.isComplex()) {
    return fall_back<at::_ops::index_add_out>(self, dim, index, source, alpha, out);
  }
  if (!out.is_same(self)) copy_into(self, out);
  if (record_index_add(out, c10::maybe_wrap_dim(dim, self.dim()), index, source, alpha)) return out;
  return fall_back<at::_ops::index_add_out>(out, dim, index, source, alpha, out);
}

// The gradient's rows, added to the rows of a zeroed weight in program order. Rows of the padding index count as zeros.
Tensor embedding_dense_backward(const Tensor& grad, const Tensor& indices, int64_t weights, int64_t padding,
                                bool scale_by_frequency) {
  const auto on_host = [&] {
    return fall_back<at::_ops::embedding_dense_backward>(grad, indices, c10::SymInt(weights), c10::SymInt(padding),
                                                         scale_by_frequency);
  };
  if (!is_index(indices) || grad.dim() == 0 || !is_neuron(grad)) return on_host();
  const int64_t width = grad.size(-1);
  Tensor out = empty_tensor({weights, width}, grad.scalar_type(), grad.device().index());
  out.zero_();
  if (grad.numel() == 0) return out;
  const Tensor index = indices.reshape({-1});
  Tensor rows = grad.reshape({-1, width});
  if (padding >= 0) rows = rows.masked_fill(at::eq(index, padding).unsqueeze(1), 0);
  if (scale_by_frequency) {
    Tensor counts = empty_tensor({weights}, c10::ScalarType::Double, grad.device().index());
    counts.zero_();
    counts.index_add_(0, index, at::ones_like(index, counts.options()));
    const Tensor factors = at::reciprocal(counts).index_select(0, index).unsqueeze(1);
    rows = at::mul(rows, factors.to(at::toOpMathType(rows.scalar_type())));
    rows = rows.to(out.scalar_type());
  }
  if (record_index_add(out, 0, index, rows, Scalar(1))) return out;
  return on_host();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index_select", &index_select);
  m.impl("gather.out", &gather_out);
  m.impl("scatter_add.out", &scatter_add_out);
  m.impl("index_add.out", &index_add_out);
  m.impl("embedding_dense_backward", &embedding_dense_backward);
}

}  // namespace
}  // namespace nax::binding
