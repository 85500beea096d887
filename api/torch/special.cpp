// Two ops that need device rules of their own.
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/tensor_split_native.h>
#include <torch/library.h>

#include "api/torch/device.h"

namespace nax::binding {
namespace {

// Zeros without memory, for autograd.
at::Tensor efficient_zeros(c10::IntArrayRef sizes, std::optional<c10::ScalarType> type,
                           std::optional<c10::Layout> /*layout*/, std::optional<c10::Device> device,
                           std::optional<bool> /*pin_memory*/) {
  const c10::Device where(kNeuron, device_or_current(device.has_value() ? device->index() : -1));
  at::native::ZeroTensorAllocator allocator(where);
  const auto keys = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(sizes, &allocator, keys, c10::dtype_or_default(type), std::nullopt);
}

// PyTorch wants the split points on the host.
std::vector<at::Tensor> tensor_split(const at::Tensor& self, const at::Tensor& points, int64_t dim) {
  return at::native::tensor_split(self, points.cpu(), dim);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_efficientzerotensor", &efficient_zeros);
  m.impl("tensor_split.tensor_indices_or_sections", &tensor_split);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("tensor_split.tensor_indices_or_sections", &tensor_split);
}

}  // namespace
}  // namespace nax::binding
