#include "api/torch/pointwise.h"

namespace nax::binding {
namespace {

int category(c10::ScalarType type) {
  if (c10::isComplexType(type)) return 3;
  if (c10::isFloatingType(type)) return 2;
  return type == c10::ScalarType::Bool ? 0 : 1;
}

// Every dimension of `from` is that of `to`, or 1, or absent.
bool broadcasts_into(c10::IntArrayRef from, c10::IntArrayRef to) {
  if (from.size() > to.size()) return false;
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != to[lead + i] && from[i] != 1) return false;
  }
  return true;
}

bool joins_by_value(const at::Tensor& self, const at::Tensor& other) {
  return is_host_scalar(other) && self.dim() > 0 &&
         category(other.scalar_type()) <= category(self.scalar_type());
}

bool same_kind(const at::Tensor& self, const at::Tensor& other) {
  return other.device() == self.device() && other.scalar_type() == self.scalar_type();
}

}  // namespace

bool joins(const at::Tensor& self, const at::Tensor& other) {
  if (!same_kind(self, other)) return joins_by_value(self, other);
  if (other.sizes() == self.sizes()) return other.strides() == self.strides();
  return self.is_contiguous() && broadcasts_into(other.sizes(), self.sizes());
}

bool joins_in_place(const at::Tensor& self, const at::Tensor& other) {
  if (!same_kind(self, other)) return joins_by_value(self, other);
  if (other.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() ==
      self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()) {
    return other.storage_offset() == self.storage_offset() && other.sizes() == self.sizes() &&
           other.strides() == self.strides();
  }
  return broadcasts_into(other.sizes(), self.sizes());
}

bool joins_mask(const at::Tensor& self, const at::Tensor& mask) {
  return mask.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() !=
             self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() &&
         broadcasts_into(mask.sizes(), self.sizes());
}

}  // namespace nax::binding
