// Copies between host and device, and on the device.
#pragma once

#include <ATen/core/Tensor.h>

namespace nax::binding {

// target <- source, converting and broadcasting; at least one of them on the device. Host to device snapshots the source;
// device to host waits; on one device the copy is recorded.
void copy_into(const at::Tensor& source, const at::Tensor& target);

// A CPU tensor with the same values (and sizes and strides where dense). Waits.
at::Tensor to_host(const at::Tensor& device_tensor);

}  // namespace nax::binding
