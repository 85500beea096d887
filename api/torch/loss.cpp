// Negative log likelihood, put together from recorded ops: pick each row's target, mask what is ignored, sum.
#include <ATen/core/Tensor.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/div.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_backward_ops.h>
#include <ATen/ops/nll_loss_forward_meta.h>
#include <ATen/ops/nll_loss_forward_ops.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "api/torch/fallback.h"
#include "api/torch/record.h"
#include "api/torch/shaped.h"

namespace nax::binding {
namespace {

using at::Tensor;

bool fits(const Tensor& self, const Tensor& target, const at::OptionalTensorRef& weight) {
  return !weight.has_value() && self.dim() == 2 && target.dim() == 1 && self.is_floating_point() && is_neuron(self) &&
         is_neuron(target) && target.scalar_type() == c10::ScalarType::Long && self.numel() > 0;
}

at::OptionalTensorRef reference(const std::optional<Tensor>& t) {
  return t.has_value() && t->defined() ? at::OptionalTensorRef(*t) : at::OptionalTensorRef();
}

// Which rows count, and the targets with 0 where they do not.
struct Rows {
  Tensor counted, target;
};

Rows rows_of(const Tensor& target, int64_t ignore_index) {
  const Tensor counted = at::ne(target, ignore_index);
  return {counted, target.masked_fill(counted.logical_not(), 0)};
}

std::tuple<Tensor&, Tensor&> nll_loss_forward_out(const Tensor& self, const Tensor& target,
                                                  const std::optional<Tensor>& weight, int64_t reduction,
                                                  int64_t ignore_index, Tensor& out, Tensor& total) {
  Shaped<at::meta::structured_nll_loss_forward, 2> meta(out, total);
  meta.meta(self, target, reference(weight), reduction, ignore_index);
  if (!fits(self, target, reference(weight))) {
    return fall_back<at::_ops::nll_loss_forward_output>(self, target, weight, reduction, c10::SymInt(ignore_index), out,
                                                        total);
  }
  const Rows rows = rows_of(target, ignore_index);
  const Tensor picked = at::gather(self, 1, rows.target.unsqueeze(1)).squeeze(1);
  const Tensor loss = at::neg(picked).masked_fill(rows.counted.logical_not(), 0);
  if (reduction == at::Reduction::None) {
    out.copy_(loss);
    total.zero_();
    return {out, total};
  }
  at::sum_out(total, rows.counted, c10::IntArrayRef{}, false, self.scalar_type());
  const Tensor sum = at::sum(loss);
  if (reduction == at::Reduction::Mean) {
    at::div_out(out, sum, total);
  } else {
    out.copy_(sum);
  }
  return {out, total};
}

Tensor& nll_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target,
                              const std::optional<Tensor>& weight, int64_t reduction, int64_t ignore_index,
                              const Tensor& total, Tensor& out) {
  Shaped<at::meta::structured_nll_loss_backward> meta(out);
  meta.meta(grad, self, target, reference(weight), reduction, ignore_index, total);
  if (!fits(self, target, reference(weight))) {
    return fall_back<at::_ops::nll_loss_backward_grad_input>(grad, self, target, weight, reduction,
                                                             c10::SymInt(ignore_index), total, out);
  }
  const Rows rows = rows_of(target, ignore_index);
  Tensor each = at::neg(reduction == at::Reduction::Mean ? at::div(grad, total) : grad);
  each = each.expand(target.sizes()).masked_fill(rows.counted.logical_not(), 0);
  out.zero_();
  out.scatter_add_(1, rows.target.unsqueeze(1), each.unsqueeze(1));
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nll_loss_forward.output", &nll_loss_forward_out);
  m.impl("nll_loss_backward.grad_input", &nll_loss_backward_out);
}

}  // namespace
}  // namespace nax::binding
