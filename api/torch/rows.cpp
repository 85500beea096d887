// Ops along rows: softmax, layer norm, cumulative sum.
#include "api/torch/pointwise.h"

#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_meta.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/_softmax_backward_data_meta.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/cumsum_meta.h>
#include <ATen/ops/cumsum_ops.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_layer_norm_backward_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

namespace nax::binding {
namespace {

using at::Tensor;

bool has_rows(const Tensor& t) { return t.is_floating_point() && t.dim() > 0 && t.dim() <= NAX_MAX_RANK; }

template <nax_op_id kId, class Meta, class AtenOut>
struct Softmax {
  static Tensor& out(const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
    Shaped<Meta> meta(out);
    meta.meta(self, dim, half_to_float);
    out = meta.out();
    if (out.numel() == 0) return out;
    if (has_rows(self) && out.scalar_type() == self.scalar_type() &&
        Op(kId, self.scalar_type()).in(self).attr(c10::maybe_wrap_dim(dim, self.dim())).out(out).record()) {
      return out;
    }
    return fall_back<AtenOut>(self, dim, half_to_float, out);
  }
  static Tensor functional(const Tensor& self, int64_t dim, bool half_to_float) {
    Tensor result;
    return out(self, dim, half_to_float, result);
  }
};

template <nax_op_id kId, class Meta, class AtenOut>
struct SoftmaxBackward {
  static Tensor& out(const Tensor& grad, const Tensor& output, int64_t dim, c10::ScalarType type, Tensor& out) {
    Shaped<Meta> meta(out);
    meta.meta(grad, output, dim, type);
    out = meta.out();
    if (out.numel() == 0) return out;
    if (has_rows(output) && grad.scalar_type() == output.scalar_type() && out.scalar_type() == output.scalar_type() &&
        Op(kId, output.scalar_type()).in(grad).in(output).attr(c10::maybe_wrap_dim(dim, output.dim())).out(out).record()) {
      return out;
    }
    return fall_back<AtenOut>(grad, output, dim, type, out);
  }
  static Tensor functional(const Tensor& grad, const Tensor& output, int64_t dim, c10::ScalarType type) {
    Tensor result;
    return out(grad, output, dim, type, result);
  }
};

Tensor& cumsum_out(const Tensor& self, int64_t dim, std::optional<c10::ScalarType> type, Tensor& out) {
  Shaped<at::meta::structured_cumsum> meta(out);
  meta.meta(self, dim, type);
  out = meta.out();
  if (out.numel() == 0) return out;
  if (self.dim() > 0 && Op(NAX_OP_CUMSUM, out.scalar_type())
                            .in(self)
                            .attr(c10::maybe_wrap_dim(dim, self.dim()))
                            .out(out)
                            .record()) {
    return out;
  }
  return fall_back<at::_ops::cumsum_out>(self, dim, type, out);
}

Tensor cumsum(const Tensor& self, int64_t dim, std::optional<c10::ScalarType> type) {
  Tensor result;
  return binding::cumsum_out(self, dim, type, result);
}

// ---- layer norm

using MaybeTensor = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

const Tensor& value(const MaybeTensor& t) {
  static const Tensor none;
  return t.has_value() ? *t : none;
}

bool same_dtype(const Tensor& x, const Tensor& parameter) {
  return !parameter.defined() || (parameter.scalar_type() == x.scalar_type() && parameter.device() == x.device());
}

// The shape of x with the normalized dimensions as 1.
c10::SmallVector<int64_t, NAX_MAX_RANK> row_shape(const Tensor& x, size_t normalized) {
  c10::SmallVector<int64_t, NAX_MAX_RANK> shape(x.sizes().begin(), x.sizes().end());
  for (size_t i = shape.size() - normalized; i < shape.size(); ++i) shape[i] = 1;
  return shape;
}

Three layer_norm(const Tensor& x, c10::IntArrayRef shape, const MaybeTensor& weight, const MaybeTensor& bias,
                 double eps) {
  at::native::_check_layer_norm_inputs(x, shape, value(weight), value(bias));
  if (is_neuron(x) && has_rows(x) && x.numel() > 0 && same_dtype(x, value(weight)) && same_dtype(x, value(bias))) {
    const c10::DeviceIndex device = x.device().index();
    Tensor y = empty_tensor(x.sizes(), x.scalar_type(), device);
    const auto rows = row_shape(x, shape.size());
    Tensor mean = empty_tensor(rows, x.scalar_type(), device);
    Tensor rstd = empty_tensor(rows, x.scalar_type(), device);
    if (Op(NAX_OP_LAYER_NORM, x.scalar_type())
            .in(x)
            .optional(value(weight))
            .optional(value(bias))
            .in(c10::Scalar(eps))
            .attr(static_cast<int64_t>(shape.size()))
            .out(y)
            .out(mean)
            .out(rstd)
            .record()) {
      return {y, mean, rstd};
    }
  }
  return fall_back<at::_ops::native_layer_norm>(x, c10::fromIntArrayRefSlow(shape), weight, bias, eps);
}

// dw and db are sums over the rows: sum(grad * (x - mean) * rstd) and sum(grad).
Tensor sum_rows(const Tensor& t, c10::IntArrayRef shape) {
  const int64_t lead = t.dim() - static_cast<int64_t>(shape.size());
  if (lead == 0) return t.clone();
  c10::SmallVector<int64_t, NAX_MAX_RANK> dims;
  for (int64_t d = 0; d < lead; ++d) dims.push_back(d);
  return at::sum(t, dims);
}

Three layer_norm_backward(const Tensor& grad, const Tensor& x, c10::IntArrayRef shape, const Tensor& mean,
                          const Tensor& rstd, const MaybeTensor& weight, const MaybeTensor& bias,
                          std::array<bool, 3> mask) {
  const bool fits = is_neuron(x) && has_rows(x) && x.numel() > 0 && same_dtype(x, grad) && same_dtype(x, mean) &&
                    same_dtype(x, rstd) && same_dtype(x, value(weight)) && mean.dim() == x.dim();
  Tensor dx, dw, db;
  if (fits && mask[0]) {
    dx = empty_tensor(x.sizes(), x.scalar_type(), x.device().index());
    if (!Op(NAX_OP_LAYER_NORM_BACKWARD, x.scalar_type())
             .in(grad)
             .in(x)
             .in(mean)
             .in(rstd)
             .optional(value(weight))
             .attr(static_cast<int64_t>(shape.size()))
             .out(dx)
             .record()) {
      dx = Tensor();
    }
  }
  if (!fits || (mask[0] && !dx.defined())) {
    return fall_back<at::_ops::native_layer_norm_backward>(grad, x, c10::fromIntArrayRefSlow(shape), mean, rstd,
                                                           weight, bias, mask);
  }
  if (mask[1]) dw = sum_rows(at::mul(grad, at::mul(at::sub(x, mean), rstd)), shape);
  if (mask[2]) db = sum_rows(grad, shape);
  return {dx, dw, db};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define NAX_IMPL(Kind, name, id, functional_name, out_name, out_op)                                \
  {                                                                                                \
    using Kernel = Kind<NAX_OP_##id, at::meta::structured_##name, at::_ops::out_op>;               \
    m.impl(functional_name, &Kernel::functional);                                                  \
    m.impl(out_name, &Kernel::out);                                                                \
  }
  NAX_IMPL(Softmax, _softmax, SOFTMAX, "_softmax", "_softmax.out", _softmax_out)
  NAX_IMPL(Softmax, _log_softmax, LOG_SOFTMAX, "_log_softmax", "_log_softmax.out", _log_softmax_out)
  NAX_IMPL(SoftmaxBackward, _softmax_backward_data, SOFTMAX_BACKWARD, "_softmax_backward_data",
           "_softmax_backward_data.out", _softmax_backward_data_out)
  NAX_IMPL(SoftmaxBackward, _log_softmax_backward_data, LOG_SOFTMAX_BACKWARD, "_log_softmax_backward_data",
           "_log_softmax_backward_data.out", _log_softmax_backward_data_out)
#undef NAX_IMPL
  m.impl("cumsum", &cumsum);
  m.impl("cumsum.out", &cumsum_out);
  m.impl("native_layer_norm", &layer_norm);
  m.impl("native_layer_norm_backward", &layer_norm_backward);
}

}  // namespace
}  // namespace nax::binding
