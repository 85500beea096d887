#include "api/torch/tensors.h"

#include <ATen/EmptyTensor.h>

#include "api/torch/allocator.h"

namespace nax::binding {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Storage new_storage(size_t bytes, c10::DeviceIndex device) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                               allocate_on(device, bytes), device_allocator(), true);
}

}  // namespace

at::Tensor empty_tensor(c10::IntArrayRef sizes, c10::ScalarType type, c10::DeviceIndex device) {
  const auto meta = c10::scalarTypeToTypeMeta(type);
  const size_t bytes = at::detail::computeStorageNbytesContiguous(sizes, meta.itemsize());
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(new_storage(bytes, device), kKeys, meta);
  if (sizes.size() != 1 || sizes[0] != 0) t.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return t;
}

at::Tensor empty_strided_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType type,
                                c10::DeviceIndex device) {
  const auto meta = c10::scalarTypeToTypeMeta(type);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, meta.itemsize());
  return tensor_over(new_storage(bytes, device), type, sizes, strides, 0);
}

at::Tensor empty_like_tensor(const at::Tensor& like, c10::ScalarType type) {
  const auto meta = c10::scalarTypeToTypeMeta(type);
  const size_t bytes = static_cast<size_t>(like.numel()) * meta.itemsize();
  return tensor_over(new_storage(bytes, like.device().index()), type, like.sizes(), like.strides(), 0);
}

at::Tensor tensor_over(c10::Storage storage, c10::ScalarType type, c10::IntArrayRef sizes,
                       c10::IntArrayRef strides, int64_t offset) {
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), kKeys,
                                                          c10::scalarTypeToTypeMeta(type));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return t;
}

}  // namespace nax::binding
