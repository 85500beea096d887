// Making device tensors, without a trip through the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include "api/torch/device.h"

namespace nax::binding {

// A contiguous tensor with undefined contents.
at::Tensor empty_tensor(c10::IntArrayRef sizes, c10::ScalarType type, c10::DeviceIndex device);
at::Tensor empty_strided_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType type,
                                c10::DeviceIndex device);
// As `like`: sizes, strides (which must be dense and non-overlapping), device; of another dtype if given.
at::Tensor empty_like_tensor(const at::Tensor& like, c10::ScalarType type);

// A tensor over an existing storage.
at::Tensor tensor_over(c10::Storage storage, c10::ScalarType type, c10::IntArrayRef sizes,
                       c10::IntArrayRef strides, int64_t offset);

}  // namespace nax::binding
