// Ops that move elements: cat, flip, roll. All are copies between views.
#include "api/torch/pointwise.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/cat_meta.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/flip_ops.h>
#include <ATen/ops/roll_ops.h>
#include <torch/library.h>

namespace nax::binding {
namespace {

using at::Tensor;

// Part [start, start + size) of a dimension, as an operand.
bool make_slice(const Tensor& t, int64_t dim, int64_t start, int64_t size, nax_operand& operand) {
  if (!make_operand(t, operand)) return false;
  operand.offset_bytes += start * operand.strides[dim] * static_cast<int64_t>(t.itemsize());
  operand.sizes[dim] = size;
  return true;
}

// ---- cat

// Empty 1-D tensors are skipped, whatever the other tensors' rank: an old habit of torch.cat.
bool is_skipped(const Tensor& t) { return t.dim() == 1 && t.size(0) == 0; }

Tensor& cat_out(const at::ITensorListRef& tensors, int64_t dim, Tensor& out) {
  Shaped<at::meta::structured_cat> meta(out);
  const auto precomputed = meta.meta(tensors, dim);
  out = meta.out();
  if (out.numel() == 0) return out;
  const int64_t d = precomputed.dim;
  bool native = is_neuron(out) && out.dim() <= NAX_MAX_RANK;
  for (const Tensor& t : tensors) {
    native = native && is_neuron(t) && t.device() == out.device() && t.scalar_type() == out.scalar_type() &&
             !t.is_conj() && !t.is_neg() && dtype_of(t.scalar_type()) != NAX_INVALID_DTYPE;
  }
  int64_t start = 0;
  for (const Tensor& t : tensors) {
    if (!native) break;
    if (is_skipped(t)) continue;
    const int64_t size = t.size(d);
    if (t.numel() > 0) {
      nax_operand target;
      native = make_slice(out, d, start, size, target) &&
               Op(NAX_OP_COPY, c10::ScalarType::Undefined).in(t).out_view(target, out.device().index()).record();
    }
    start += size;
  }
  if (native) return out;
  std::vector<Tensor> list;
  for (const Tensor& t : tensors) list.push_back(t);
  return fall_back<at::_ops::cat_out>(at::TensorList(list), dim, out);
}

Tensor cat(const at::ITensorListRef& tensors, int64_t dim) {
  Tensor result;
  return binding::cat_out(tensors, dim, result);
}

// ---- flip

Tensor flip(const Tensor& self, c10::IntArrayRef dims) {
  const int64_t rank = self.dim();
  if (rank == 0 || rank > NAX_MAX_RANK || !is_plain(self)) return fall_back<at::_ops::flip>(self, dims);
  const auto flipped = at::dim_list_to_bitset(dims, rank);  // checks the dimensions
  Tensor out = empty_like_tensor(self, self.scalar_type());
  if (out.numel() == 0) return out;
  nax_operand from;
  if (make_operand(self, from)) {
    for (int64_t d = 0; d < rank; ++d) {
      if (!flipped[static_cast<size_t>(d)]) continue;
      from.offset_bytes += (from.sizes[d] - 1) * from.strides[d] * static_cast<int64_t>(self.itemsize());
      from.strides[d] = -from.strides[d];
    }
    if (Op(NAX_OP_COPY, c10::ScalarType::Undefined).in_view(from).out(out).record()) return out;
  }
  return fall_back<at::_ops::flip>(self, dims);
}

// ---- roll

Tensor roll(const Tensor& self, c10::IntArrayRef shifts, c10::IntArrayRef dims) {
  if (dims.empty() && shifts.size() == 1) {  // over the elements in order
    return binding::roll(self.contiguous().view({-1}), shifts, {0}).view(self.sizes());
  }
  if (dims.size() > 1 && dims.size() == shifts.size()) {
    Tensor rolled = self;
    for (size_t i = 0; i < dims.size(); ++i) rolled = binding::roll(rolled, {shifts[i]}, {dims[i]});
    return rolled;
  }
  if (dims.size() != 1 || shifts.size() != 1) {
    return fall_back<at::_ops::roll>(self, c10::fromIntArrayRefSlow(shifts), dims);
  }
  const int64_t rank = self.dim();
  if (rank == 0 || rank > NAX_MAX_RANK || self.numel() == 0 || !is_plain(self)) {
    return fall_back<at::_ops::roll>(self, c10::fromIntArrayRefSlow(shifts), dims);
  }
  const int64_t dim = c10::maybe_wrap_dim(dims[0], rank);
  const int64_t size = self.size(dim);
  const int64_t shift = (shifts[0] % size + size) % size;
  Tensor out = empty_tensor(self.sizes(), self.scalar_type(), self.device().index());
  // Element i goes to i + shift: the tail of self becomes the head of out.
  const int64_t parts[2][3] = {{0, shift, size - shift}, {size - shift, 0, shift}};
  for (const auto& [from_start, to_start, count] : parts) {
    if (count == 0) continue;
    nax_operand from, to;
    if (!make_slice(self, dim, from_start, count, from) || !make_slice(out, dim, to_start, count, to) ||
        !Op(NAX_OP_COPY, c10::ScalarType::Undefined).in_view(from).out_view(to, out.device().index()).record()) {
      return fall_back<at::_ops::roll>(self, c10::fromIntArrayRefSlow(shifts), dims);
    }
  }
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("cat", &cat);
  m.impl("cat.out", &cat_out);
  m.impl("flip", &flip);
  m.impl("roll", &roll);
}

}  // namespace
}  // namespace nax::binding
