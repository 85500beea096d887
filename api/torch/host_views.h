// Device tensors as CPU tensors, without a copy, for the time of one call; and the way back.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "api/torch/device.h"

namespace nax::binding {

// Lends device memory to the host: tensors that share a storage on the device share one on the host. Making a view waits
// for the work recorded on its buffer and raises its deferred error.
class HostViews {
 public:
  // `write`: the caller may write it. `whole`: it will overwrite all of it, so an error of the old contents is moot.
  at::Tensor view(const at::Tensor& device_tensor, bool write, bool whole = false);

  // Device tensors whose host views were resized follow suit, and take over memory that the host allocated for them.
  void write_back();

  // A result of host code for the caller: an input or an alias of one becomes the device tensor it stands for, anything
  // new is moved to `device`. Throws for layouts that the device does not have.
  at::Tensor give_back(const at::Tensor& host_result, c10::DeviceIndex device);

 private:
  struct Loan {
    c10::intrusive_ptr<c10::StorageImpl> device;
    c10::Storage host;
    void* address;  // of the mapped memory, NULL if the device storage is empty
    bool write;
  };
  struct View {
    at::Tensor device, host;
    bool write;
  };
  struct Moved {
    c10::StorageImpl* host;
    c10::Storage device;
  };

  Loan& lend(const at::Tensor& device_tensor, bool write, bool whole);

  c10::SmallVector<Loan, 4> loans_;
  c10::SmallVector<View, 4> views_;
  c10::SmallVector<Moved, 2> moved_;
};

// A new device storage with the contents of a host storage.
c10::Storage upload_storage(const c10::StorageImpl& host, c10::DeviceIndex device);

}  // namespace nax::binding
