#include "api/torch/shaped.h"

#include "api/torch/device.h"

namespace nax::binding {

void resize_output_like(const at::Tensor& out, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                        const c10::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(),
              ", but got ", out.dtype(), " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(),
              ", but got ", out.device(), " instead");
  if (!at::native::resize_output(out, sizes)) return;
  if (!strides.empty()) {
    out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  } else if (options.memory_format_opt().has_value()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
  }
}

at::Tensor make_output(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                       const c10::TensorOptions& options) {
  const c10::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  const c10::DeviceIndex device = device_or_current(options.device().index());
  if (!strides.empty()) return empty_strided_tensor(sizes, strides, type, device);
  at::Tensor out = empty_tensor(sizes, type, device);
  const auto format = options.memory_format_opt();
  if (format.has_value() && *format != c10::MemoryFormat::Contiguous) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return out;
}

}  // namespace nax::binding
