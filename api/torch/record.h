// From tensors to nax_op: operands by value, then one call of the core.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include "api/torch/device.h"

namespace nax::binding {

nax_dtype dtype_of(c10::ScalarType type) noexcept;  // NAX_INVALID_DTYPE where the core has none

inline bool is_neuron(const at::Tensor& t) { return t.device().type() == kNeuron; }
// A tensor that an op takes by value: a 0-dim CPU tensor, Python's numbers included.
inline bool is_host_scalar(const at::Tensor& t) {
  return t.dim() == 0 && t.device().type() == c10::DeviceType::CPU;
}
c10::Scalar host_scalar(const at::Tensor& t);  // reads a 0-dim CPU tensor

// The tensor as an operand. False if an operand cannot say it (rank, dtype, lazy conjugate or negative bit).
bool make_operand(const at::Tensor& t, nax_operand& operand);

// One op under construction, on the stack. What cannot be expressed, and what the core declines, makes record() false:
// the caller then falls back. Wrong arguments throw.
class Op {
 public:
  // `compute`: the common dtype after promotion, or Undefined where the core derives it.
  Op(nax_op_id id, c10::ScalarType compute);

  Op& in(const at::Tensor& t);     // device tensors, and host scalars by value
  // A number, which an integer or bool compute dtype wraps, as the cast of a 0-dim tensor does.
  Op& in(const c10::Scalar& s);
  Op& in_view(const nax_operand& operand);
  // A factor: 1 is left out, which spares the multiplication. Its op is then another one than with a factor (DESIGN I6).
  Op& in_factor(const c10::Scalar& s) { return s.equal(1) ? absent() : in(s); }
  Op& absent();
  Op& optional(const at::Tensor& t) { return t.defined() ? in(t) : absent(); }
  Op& out(const at::Tensor& t);
  Op& out_view(const nax_operand& operand, c10::DeviceIndex device);
  Op& attr(int64_t value);

  [[nodiscard]] bool record();

 private:
  static constexpr int kMaxInputs = 8;
  static constexpr int kMaxOutputs = 4;
  static constexpr int kMaxAttrs = 8;

  uint32_t id_;
  int32_t compute_;
  uint32_t inputs_ = 0, outputs_ = 0, attrs_ = 0;
  bool expressible_ = true;
  c10::DeviceIndex device_ = -1;
  nax_operand input_[kMaxInputs];
  nax_operand output_[kMaxOutputs];
  int64_t attr_[kMaxAttrs];
};

// Bytes from buffer to buffer, recorded on the current stream.
void copy_bytes(c10::DeviceIndex device, nax_buffer* target, int64_t target_offset, nax_buffer* source,
                int64_t source_offset, int64_t bytes);

}  // namespace nax::binding
