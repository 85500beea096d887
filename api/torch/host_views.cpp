#include "api/torch/host_views.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "api/torch/allocator.h"
#include "api/torch/status.h"
#include "api/torch/tensors.h"

namespace nax::binding {
namespace {

void* map(c10::StorageImpl& storage, bool write, bool whole) {
  int64_t offset = 0;
  nax_buffer* buffer = buffer_of(storage, &offset);
  if (buffer == nullptr) return nullptr;
  void* host = nullptr;
  nax_status* status = nax_buffer_map(buffer, write, &host);
  if (status != nullptr && whole) {
    ignore(status);
    nax_buffer_clear_error(buffer);
    status = nax_buffer_map(buffer, write, &host);
  }
  check(status);
  return static_cast<char*>(host) + offset;
}

// A host storage over lent memory keeps the device storage alive, should host code keep a reference.
void return_loan(void* device_storage) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(device_storage));
}

c10::Storage lent_storage(c10::StorageImpl* device, void* address) {
  c10::raw::intrusive_ptr::incref(device);
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), device->nbytes(),
      c10::DataPtr(address, device, &return_loan, c10::DeviceType::CPU), c10::GetCPUAllocator(), true);
}

}  // namespace

c10::Storage upload_storage(const c10::StorageImpl& host, c10::DeviceIndex device) {
  const size_t bytes = host.nbytes();
  c10::DataPtr memory = allocate_on(device, bytes);
  if (bytes > 0 && host.data() != nullptr) {
    void* to = nullptr;
    check(nax_buffer_map(static_cast<nax_buffer*>(memory.get_context()), 1, &to));
    std::memcpy(to, host.data(), bytes);
  }
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                               std::move(memory), device_allocator(), true);
}

HostViews::Loan& HostViews::lend(const at::Tensor& device_tensor, bool write, bool whole) {
  c10::StorageImpl* storage = device_tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  for (Loan& loan : loans_) {
    if (loan.device.get() != storage) continue;
    if (write && !loan.write) {
      map(*storage, true, false);
      loan.write = true;
    }
    return loan;
  }
  void* address = map(*storage, write, whole);
  loans_.push_back(Loan{c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage),
                        lent_storage(storage, address), address, write});
  return loans_.back();
}

at::Tensor HostViews::view(const at::Tensor& device_tensor, bool write, bool whole) {
  for (View& v : views_) {
    if (!v.device.is_same(device_tensor)) continue;
    if (write && !v.write) {
      lend(device_tensor, true, whole);
      v.write = true;
    }
    return v.host;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(device_tensor.has_storage(), "a neuron tensor without storage cannot be read");
  const Loan& loan = lend(device_tensor, write, whole);
  const c10::TensorImpl* impl = device_tensor.unsafeGetTensorImpl();
  at::Tensor host = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(loan.host), c10::DispatchKeySet(c10::DispatchKey::CPU), impl->dtype());
  c10::TensorImpl* made = host.unsafeGetTensorImpl();
  made->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  if (device_tensor.is_conj()) made->_set_conj(true);
  if (device_tensor.is_neg()) made->_set_neg(true);
  if (impl->is_wrapped_number()) made->set_wrapped_number(true);
  views_.push_back(View{device_tensor, host, write});
  return host;
}

void HostViews::write_back() {
  for (Loan& loan : loans_) {
    c10::StorageImpl& host = *loan.host.unsafeGetStorageImpl();
    if (host.data() == loan.address && host.nbytes() == loan.device->nbytes()) continue;
    // Host code grew it: the contents are in memory of the host now.
    resize_storage(*loan.device, host.nbytes(), false);
    if (host.nbytes() > 0) {
      std::memcpy(map(*loan.device, true, true), host.data(), host.nbytes());
    }
  }
  for (View& v : views_) {
    if (!v.write) continue;
    c10::TensorImpl* to = v.device.unsafeGetTensorImpl();
    const c10::TensorImpl* from = v.host.unsafeGetTensorImpl();
    if (to->sizes() != from->sizes() || to->strides() != from->strides() ||
        to->storage_offset() != from->storage_offset()) {
      to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
    }
  }
}

at::Tensor HostViews::give_back(const at::Tensor& host_result, c10::DeviceIndex device) {
  if (!host_result.defined()) return host_result;
  for (const View& v : views_) {
    if (v.host.is_same(host_result)) return v.device;
  }
  if (host_result.device().type() == kNeuron) return host_result;
  TORCH_CHECK_NOT_IMPLEMENTED(host_result.layout() == c10::Layout::Strided && host_result.has_storage() &&
                                  !host_result.is_quantized(),
                              "the neuron device has strided tensors only, not ", host_result.layout(),
                              host_result.is_quantized() ? " quantized" : "",
                              "; move the tensor to the CPU first");
  c10::StorageImpl* storage =
      host_result.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  c10::Storage target;
  for (const Loan& loan : loans_) {
    if (loan.host.unsafeGetStorageImpl() == storage) target = c10::Storage(loan.device);
  }
  for (const Moved& m : moved_) {
    if (m.host == storage) target = m.device;
  }
  if (!target) {
    target = upload_storage(*storage, device);
    moved_.push_back({storage, target});
  }
  at::Tensor result = tensor_over(std::move(target), host_result.scalar_type(), host_result.sizes(),
                                  host_result.strides(), host_result.storage_offset());
  if (host_result.is_conj()) result.unsafeGetTensorImpl()->_set_conj(true);
  if (host_result.is_neg()) result.unsafeGetTensorImpl()->_set_neg(true);
  if (host_result.unsafeGetTensorImpl()->is_wrapped_number()) {
    result.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return result;
}

}  // namespace nax::binding
