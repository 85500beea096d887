// Storage of device tensors: DataPtr.data is the buffer's device address (not readable on the host), its context the
// nax_buffer, its deleter a release.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include "api/torch/device.h"

namespace nax::binding {

c10::Allocator* device_allocator();

// Memory for `bytes` on a device; null data for 0 bytes. Throws torch.OutOfMemoryError.
c10::DataPtr allocate_on(c10::DeviceIndex device, size_t bytes);

// The buffer of a storage; NULL for an empty one. Throws if the storage's memory is not a buffer of ours.
// *offset_bytes gets where the storage's data starts in the buffer (0 unless the memory came in by another door).
nax_buffer* buffer_of(const c10::StorageImpl& storage, int64_t* offset_bytes);

// Gives a storage `bytes` bytes, keeping the contents that fit (`keep`), in stream order.
void resize_storage(c10::StorageImpl& storage, size_t bytes, bool keep = true);

}  // namespace nax::binding
