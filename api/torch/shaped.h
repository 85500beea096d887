// PyTorch's own shape rules for our kernels: a structured op's meta function, run against an output that is given (out=,
// in-place) or still to be made.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/TensorMeta.h>
#include <ATen/native/Resize.h>

#include <type_traits>

#include "api/torch/tensors.h"

namespace at {
struct TensorIteratorBase;
}

namespace nax::binding {

// Sizes a given output as PyTorch's generated code does: wrong dtype or device throws, a resize warns, strides that are only
// advice are ignored where the output had its size already.
void resize_output_like(const at::Tensor& out, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                        const c10::TensorOptions& options);

at::Tensor make_output(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                       const c10::TensorOptions& options);

// Meta is at::meta::structured_X. Construct, call meta(...), then use the outputs.
template <class Meta, int kOutputs = 1>
class Shaped final : public Meta {
 public:
  Shaped() = default;
  explicit Shaped(const at::Tensor& out) : outputs_{out} {}
  Shaped(const at::Tensor& first, const at::Tensor& second) : outputs_{first, second} {}

  void set_output_strided(int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                          c10::TensorOptions options) override {
    set(index, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                              c10::TensorOptions options) override {
    set(index, sizes, strides, options);
  }
  const at::Tensor& maybe_get_output(int64_t index) override { return outputs_[index]; }

  at::Tensor& out(int index = 0) { return outputs_[index]; }

 private:
  void set(int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides,
           const c10::TensorOptions& options) {
    at::Tensor& out = outputs_[index];
    if (out.defined()) {
      resize_output_like(out, sizes, strides, options);
    } else {
      out = make_output(sizes, strides, options);
    }
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      Meta::set_output_raw_strided(index, sizes, strides, options);
    }
  }

  at::Tensor outputs_[kOutputs];
};

}  // namespace nax::binding
