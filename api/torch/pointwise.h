// What pointwise kernels share: the fast path's conditions, and recording with the fallback behind it.
//
// A kernel has up to three forms. Functional and in-place try a fast path (result of self's sizes, strides and dtype, no
// TensorIterator); everything else goes through the op's structured meta function, which promotes, broadcasts, allocates or
// resizes and raises PyTorch's own errors. What the core declines runs in the fallback on the same output.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

#include "api/torch/fallback.h"
#include "api/torch/record.h"
#include "api/torch/shaped.h"
#include "api/torch/tensors.h"

namespace nax::binding {

// On the device, and a result of its sizes may take its strides.
inline bool is_plain(const at::Tensor& t) {
  return is_neuron(t) && t.is_non_overlapping_and_dense();
}
inline bool is_plain_float(const at::Tensor& t) { return t.is_floating_point() && is_plain(t); }

// `other` joins an op with `self` whose result has self's sizes, strides and dtype.
bool joins(const at::Tensor& self, const at::Tensor& other);
// The same for a result that is written into self.
bool joins_in_place(const at::Tensor& self, const at::Tensor& other);
// A mask that broadcasts into self and does not share its memory.
bool joins_mask(const at::Tensor& self, const at::Tensor& mask);
// A Python number does.
inline bool joins(const at::Tensor& self, const at::Scalar& s) {
  return self.is_floating_point() && !s.isComplex();
}

// Records `op` with output `out`, or runs AtenOut's CPU kernel with the given arguments and that output.
template <class AtenOut, class... Args>
void run(Op& op, at::Tensor& out, const Args&... args) {
  if (out.numel() == 0 || op.out(out).record()) return;
  fall_back<AtenOut>(args..., out);
}

// The iterator's common dtype if the output takes the result as it is; else Undefined, and the op is not recorded.
inline c10::ScalarType compute_type(const at::TensorIteratorBase& iterator, const at::Tensor& out,
                                    bool predicate = false) {
  const c10::ScalarType common = iterator.common_dtype();
  return out.scalar_type() == (predicate ? c10::ScalarType::Bool : common) ? common
                                                                           : c10::ScalarType::Undefined;
}

// op over a structured meta: `shape(meta)` calls meta.meta(...), `inputs(op)` adds the operands.
template <class Meta, class AtenOut, class ShapeFn, class InputsFn, class... Args>
void run_shaped(nax_op_id id, at::Tensor& out, bool predicate, const ShapeFn& shape, const InputsFn& inputs,
                const Args&... args) {
  Shaped<Meta> meta(out);
  shape(meta);
  out = meta.out();
  if (out.numel() == 0) return;
  const c10::ScalarType compute = compute_type(meta, out, predicate);
  if (compute != c10::ScalarType::Undefined) {
    Op op(id, compute);
    inputs(op);
    if (op.out(out).record()) return;
  }
  fall_back<AtenOut>(args..., out);
}

// The same for structured ops without a TensorIterator; the output's dtype is the compute dtype unless given. The shape
// rule has run: `out` is what it made.
template <class AtenOut, class InputsFn, class... Args>
void run_or_fall_back(nax_op_id id, c10::ScalarType compute, at::Tensor& out, const InputsFn& inputs,
                      const Args&... args) {
  if (out.numel() == 0) return;
  Op op(id, compute);
  inputs(op);
  if (!op.out(out).record()) fall_back<AtenOut>(args..., out);
}

}  // namespace nax::binding
