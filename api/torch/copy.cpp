#include "api/torch/copy.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/resize.h>
#include <ATen/Dispatch_v2.h>
#include <torch/library.h>

#include <cstring>

#include "api/torch/allocator.h"
#include "api/torch/fallback.h"
#include "api/torch/host_views.h"
#include "api/torch/origin.h"
#include "api/torch/record.h"
#include "api/torch/single_thread.h"
#include "api/torch/status.h"
#include "api/torch/tensors.h"
#include "nax/trace.h"

namespace nax::binding {
namespace {

bool is_dense(const at::Tensor& t) { return t.is_non_overlapping_and_dense(); }

// On host memory lent by both sides: the way for what the core has no copy for, and for copies between devices.
void copy_on_host(const at::Tensor& source, const at::Tensor& target) {
  HostViews views;
  SingleThread one;
  const at::Tensor from = is_neuron(source) ? views.view(source, false) : source;
  const at::Tensor to = is_neuron(target) ? views.view(target, true) : target;
  to.copy_(from);
}

// Same dtype, both on one device, or a conversion: one recorded op.
bool record_copy(const at::Tensor& source, const at::Tensor& target) {
  if (source.is_conj() != target.is_conj() || source.is_neg() != target.is_neg()) return false;
  nax_operand from;
  if (source.is_conj() || source.is_neg()) return false;
  if (!make_operand(source, from)) return false;
  return Op(NAX_OP_COPY, c10::ScalarType::Undefined).in_view(from).out(target).record();
}

void copy_on_device(const at::Tensor& source, const at::Tensor& target) {
  at::assert_no_internal_overlap(target);
  at::assert_no_partial_overlap(target, source);
  if (source.device() != target.device() || !record_copy(source, target)) {
    runtime(target.device().index());
    if (source.device() == target.device()) {
      nax_stream_count_fallback(current_stream(target.device().index()), "aten::_copy_from", current_origin());
    }
    copy_on_host(source, target);
  }
}

void write_dense(const at::Tensor& host, const at::Tensor& target) {
  int64_t offset = 0;
  c10::StorageImpl& storage = *target.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  nax_buffer* buffer = buffer_of(storage, &offset);
  offset += target.storage_offset() * static_cast<int64_t>(target.itemsize());
  check(nax_buffer_write(current_stream(target.device().index()), buffer, static_cast<uint64_t>(offset),
                         host.const_data_ptr(), target.nbytes()));
}

void copy_to_device(const at::Tensor& source, const at::Tensor& target) {
  at::assert_no_internal_overlap(target);
  if (is_dense(target) && !target.is_neg() && !target.is_conj()) {
    if (source.scalar_type() == target.scalar_type() && source.strides() == target.strides() &&
        !source.is_conj() && !source.is_neg()) {
      write_dense(source, target);
      return;
    }
    const at::Tensor laid_out =
        at::empty_strided(target.sizes(), target.strides(), source.options().dtype(target.scalar_type()).pinned_memory(false));
    laid_out.copy_(source);
    write_dense(laid_out, target);
    return;
  }
  at::Tensor staged = empty_tensor(target.sizes(), target.scalar_type(), target.device().index());
  copy_to_device(source, staged);
  copy_on_device(staged, target);
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool /*non_blocking*/) {
  copy_into(source, target);
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  target.resize_(source.sizes());
  copy_into(source, target);
  return target;
}

c10::Scalar scalar_from(const void* bytes, c10::ScalarType type) {
  return AT_DISPATCH_V2(type, "_local_scalar_dense", AT_WRAP([&] {
                          return c10::Scalar(*static_cast<const scalar_t*>(bytes));
                        }),
                        AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_FLOAT8_TYPES), c10::kComplexHalf, c10::kHalf,
                        c10::kBool, c10::kBFloat16, AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES));
}

c10::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "_local_scalar_dense: a tensor with 1 element expected, got ", self.numel());
  int64_t offset = 0;
  nax_buffer* buffer = buffer_of(*self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), &offset);
  offset += self.storage_offset() * static_cast<int64_t>(self.itemsize());
  alignas(16) char bytes[16];
  check(nax_buffer_read(current_stream(self.device().index()), buffer, static_cast<uint64_t>(offset), bytes,
                        self.itemsize()));
  return scalar_from(bytes, self.scalar_type());
}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return self.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl() &&
         self.storage_offset() == other.storage_offset() && self.sizes() == other.sizes() &&
         self.strides() == other.strides();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("is_set_to", &is_set_to);
}

// Lazy conjugation and negation are resolved by the copy itself: resolving them first is a copy too, without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace

void copy_into(const at::Tensor& given, const at::Tensor& target) {
  if (given.is_same(target)) return;
  const at::Tensor source = given.sizes() == target.sizes() ? given : given.expand(target.sizes());
  if (target.numel() == 0) return;
  if (!is_neuron(target)) {
    copy_on_host(source, target);
  } else if (!is_neuron(source)) {
    copy_to_device(source, target);
  } else {
    copy_on_device(source, target);
  }
}

at::Tensor to_host(const at::Tensor& t) {
  at::Tensor host;
  if (is_dense(t)) {
    host = at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::DeviceType::CPU));
  } else {
    host = at::empty(t.sizes(), t.options().device(c10::DeviceType::CPU));
  }
  copy_into(t, host);
  return host;
}

}  // namespace nax::binding
