// The fused cells that PyTorch takes for granted on devices and that its CPU kernels lack, from recorded ops.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

namespace nax::binding {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

bool has(const MaybeTensor& t) { return t.has_value() && t->defined(); }

Tensor with_bias(const Tensor& gates, const MaybeTensor& bias) { return has(bias) ? at::add(gates, *bias) : gates; }

// y * (1 - y) and 1 - y * y: derivatives of sigmoid and tanh by their results.
Tensor sigmoid_slope(const Tensor& y) { return at::mul(y, at::add(at::neg(y), 1)); }
Tensor tanh_slope(const Tensor& y) { return at::add(at::neg(at::mul(y, y)), 1); }

// Workspace: the four gates after their functions, in order input, forget, cell, output.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input, const Tensor& hidden, const Tensor& cx,
                                             const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const Tensor gates = at::add(with_bias(input, input_bias), with_bias(hidden, hidden_bias));
  const auto part = gates.chunk(4, 1);
  const Tensor i = at::sigmoid(part[0]), f = at::sigmoid(part[1]), g = at::tanh(part[2]), o = at::sigmoid(part[3]);
  Tensor cy = at::add(at::mul(f, cx), at::mul(i, g));
  Tensor hy = at::mul(o, at::tanh(cy));
  return {std::move(hy), std::move(cy), at::cat({i, f, g, o}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const MaybeTensor& grad_hy, const MaybeTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  if (!has(grad_hy) && !has(grad_cy)) return {};
  const auto gate = workspace.chunk(4, 1);
  const Tensor &i = gate[0], &f = gate[1], &g = gate[2], &o = gate[3];
  const Tensor t = at::tanh(cy);
  const Tensor dh = has(grad_hy) ? *grad_hy : at::zeros_like(cy);
  Tensor dc = at::mul(at::mul(dh, o), tanh_slope(t));
  if (has(grad_cy)) dc = at::add(dc, *grad_cy);
  const Tensor gates = at::cat({at::mul(at::mul(dc, g), sigmoid_slope(i)), at::mul(at::mul(dc, cx), sigmoid_slope(f)),
                                at::mul(at::mul(dc, i), tanh_slope(g)), at::mul(at::mul(dh, t), sigmoid_slope(o))},
                               1);
  Tensor bias = has_bias ? at::sum(gates, c10::IntArrayRef{0}) : Tensor();
  return {gates, at::mul(dc, f), std::move(bias)};
}

// Workspace: reset, update and new gate, the old state, and the hidden part of the new gate.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input, const Tensor& hidden, const Tensor& hx,
                                    const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const auto a = with_bias(input, input_bias).chunk(3, 1);
  const auto b = with_bias(hidden, hidden_bias).chunk(3, 1);
  const Tensor r = at::sigmoid(at::add(a[0], b[0])), u = at::sigmoid(at::add(a[1], b[1]));
  const Tensor n = at::tanh(at::add(a[2], at::mul(r, b[2])));
  Tensor hy = at::add(n, at::mul(u, at::sub(hx, n)));
  return {std::move(hy), at::cat({r, u, n, hx, b[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad, const Tensor& workspace,
                                                                     bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const Tensor &r = saved[0], &u = saved[1], &n = saved[2], &hx = saved[3], &hidden_new = saved[4];
  const Tensor du = at::mul(at::mul(grad, at::sub(hx, n)), sigmoid_slope(u));
  const Tensor dn = at::mul(at::mul(grad, at::add(at::neg(u), 1)), tanh_slope(n));
  const Tensor dr = at::mul(at::mul(dn, hidden_new), sigmoid_slope(r));
  const Tensor input = at::cat({dr, du, dn}, 1);
  const Tensor hidden = at::cat({dr, du, at::mul(dn, r)}, 1);
  Tensor input_bias, hidden_bias;
  if (has_bias) {
    input_bias = at::sum(input, c10::IntArrayRef{0});
    hidden_bias = at::sum(hidden, c10::IntArrayRef{0});
  }
  return {input, hidden, at::mul(grad, u), input_bias, hidden_bias};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", &lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", &gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
}

}  // namespace
}  // namespace nax::binding
