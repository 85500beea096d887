// Ops that need no tensor to read, and the triangles.
#include "api/torch/pointwise.h"

#include <ATen/ops/tril_meta.h>
#include <ATen/ops/tril_ops.h>
#include <ATen/ops/triu_meta.h>
#include <ATen/ops/triu_ops.h>
#include <ATen/ops/arange_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/zero_ops.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "api/torch/copy.h"

namespace nax::binding {
namespace {

using at::Scalar;
using at::Tensor;

// The value converts to the dtype without a check that may fail; other values take the CPU's path and its error.
bool fits(c10::ScalarType type, const Scalar& value) {
  if (value.isComplex() || c10::isComplexType(type)) return false;
  if (type == c10::ScalarType::Bool) return true;
  if (c10::isFloatingType(type)) {
    const double v = value.toDouble();
    const double limit = type == c10::ScalarType::Half ? 65504.0 : std::numeric_limits<float>::max();
    return type == c10::ScalarType::Double || !std::isfinite(v) || std::abs(v) <= limit;
  }
  if (!value.isIntegral(true)) return false;
  const int64_t v = value.toLong();
  switch (type) {
    case c10::ScalarType::Long: return true;
    case c10::ScalarType::Int: return v == static_cast<int32_t>(v);
    case c10::ScalarType::Short: return v == static_cast<int16_t>(v);
    case c10::ScalarType::Char: return v == static_cast<int8_t>(v);
    case c10::ScalarType::Byte: return v == static_cast<uint8_t>(v);
    default: return false;
  }
}

Tensor& fill_scalar_(Tensor& self, const Scalar& value) {
  if (self.numel() == 0) return self;
  if (fits(self.scalar_type(), value) && Op(NAX_OP_FILL, self.scalar_type()).in(value).out(self).record()) {
    return self;
  }
  return fall_back<at::_ops::fill__Scalar>(self, value);
}

Tensor& fill_tensor_(Tensor& self, const Tensor& value) {
  if (value.dim() != 0 || self.numel() == 0) return fall_back<at::_ops::fill__Tensor>(self, value);
  if (is_host_scalar(value) && !value.is_complex()) return fill_scalar_(self, host_scalar(value));
  if (value.device() != self.device()) return fall_back<at::_ops::fill__Tensor>(self, value);
  copy_into(value, self);
  return self;
}

Tensor& zero_(Tensor& self) { return fill_scalar_(self, Scalar(0)); }

// The length that the CPU computes, or -1 where it would raise.
int64_t arange_length(const Scalar& start, const Scalar& end, const Scalar& step, c10::ScalarType type) {
  if (start.isComplex() || end.isComplex() || step.isComplex()) return -1;
  const double first = start.toDouble(), last = end.toDouble(), by = step.toDouble();
  if (!(by > 0 || by < 0) || !std::isfinite(first) || !std::isfinite(last)) return -1;
  if ((by > 0 && last < first) || (by < 0 && last > first)) return -1;
  double length;
  if (type == c10::ScalarType::Long) {
    const int64_t s = step.toLong();
    if (s == 0) return -1;
    const int64_t sign = (s > 0) - (s < 0);
    length = std::ceil(static_cast<double>((end.toLong() - start.toLong() + s - sign) / s));
  } else {
    length = std::ceil((last - first) / by);
  }
  return length >= 0 && length <= double(1ll << 40) ? static_cast<int64_t>(length) : -1;
}

Tensor& arange_start_out(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  const c10::ScalarType type = out.scalar_type();
  const int64_t length = arange_length(start, end, step, type);
  const bool integral = start.isIntegral(false) && step.isIntegral(false);
  if (length < 0 || !is_neuron(out) || !(c10::isFloatingType(type) || integral)) {
    return fall_back<at::_ops::arange_start_out>(start, end, step, out);
  }
  if (out.numel() != length) {
    if (out.numel() > 0) {
      TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ", out.numel(),
                 " which does not match the computed number of elements ", length,
                 ". Note that this may occur as a result of rounding error. The out tensor will be resized to a "
                 "tensor of shape (", length, ",).");
    }
    out.resize_({length});
  }
  if (out.dim() != 1) return fall_back<at::_ops::arange_start_out>(start, end, step, out);
  run_or_fall_back<at::_ops::arange_start_out>(
      NAX_OP_ARANGE, type, out, [&](Op& op) { op.in(start).in(step); }, start, end, step);
  return out;
}

template <nax_op_id kId, class Meta, class AtenOut>
Tensor& triangle_out(const Tensor& self, int64_t diagonal, Tensor& out) {
  Shaped<Meta> meta(out);
  meta.meta(self, diagonal);
  out = meta.out();
  run_or_fall_back<AtenOut>(
      kId, self.scalar_type(), out, [&](Op& op) { op.in(self).attr(diagonal); }, self, diagonal);
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fill_.Scalar", &fill_scalar_);
  m.impl("fill_.Tensor", &fill_tensor_);
  m.impl("zero_", &zero_);
  m.impl("arange.start_out", &arange_start_out);
  m.impl("tril.out", &triangle_out<NAX_OP_TRIL, at::meta::structured_tril, at::_ops::tril_out>);
  m.impl("triu.out", &triangle_out<NAX_OP_TRIU, at::meta::structured_triu, at::_ops::triu_out>);
}

}  // namespace
}  // namespace nax::binding
