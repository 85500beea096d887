#include "api/torch/record.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "api/torch/allocator.h"
#include "api/torch/origin.h"
#include "api/torch/status.h"

namespace nax::binding {
namespace {

void set_scalar(const c10::Scalar& s, nax_operand& operand) {
  operand.cls = NAX_SCALAR;
  operand.dtype = NAX_INVALID_DTYPE;
  operand.buffer = nullptr;
  operand.rank = 0;
  if (s.isBoolean()) {
    operand.scalar.kind = 2;
    operand.scalar.value.i64 = s.toBool() ? 1 : 0;
  } else if (s.isIntegral(false)) {
    operand.scalar.kind = 1;
    operand.scalar.value.i64 =
        s.type() == c10::ScalarType::UInt64 ? static_cast<int64_t>(s.toUInt64()) : s.toLong();
  } else {
    operand.scalar.kind = 0;
    operand.scalar.value.f64 = s.toDouble();
  }
}

template <class T>
int64_t wrapped(int64_t v) {
  return static_cast<int64_t>(static_cast<T>(v));
}

// Puts the scalar into the range of an integer or bool dtype. The core's lanes are wider than these.
void wrap_scalar(int32_t dtype, nax_scalar& s) {
  if (dtype == NAX_BOOL) {
    s.value.i64 = s.kind == 0 ? s.value.f64 != 0 : s.value.i64 != 0;
    s.kind = 2;
    return;
  }
  if (s.kind == 0) return;
  int64_t& v = s.value.i64;
  switch (dtype) {
    case NAX_U8: v = wrapped<uint8_t>(v); return;
    case NAX_I8: v = wrapped<int8_t>(v); return;
    case NAX_U16: v = wrapped<uint16_t>(v); return;
    case NAX_I16: v = wrapped<int16_t>(v); return;
    case NAX_U32: v = wrapped<uint32_t>(v); return;
    case NAX_I32: v = wrapped<int32_t>(v); return;
    default: return;
  }
}

}  // namespace

nax_dtype dtype_of(c10::ScalarType type) noexcept {
  switch (type) {
    case c10::ScalarType::Bool: return NAX_BOOL;
    case c10::ScalarType::Byte: return NAX_U8;
    case c10::ScalarType::Char: return NAX_I8;
    case c10::ScalarType::Short: return NAX_I16;
    case c10::ScalarType::Int: return NAX_I32;
    case c10::ScalarType::Long: return NAX_I64;
    case c10::ScalarType::Half: return NAX_F16;
    case c10::ScalarType::BFloat16: return NAX_BF16;
    case c10::ScalarType::Float: return NAX_F32;
    case c10::ScalarType::Double: return NAX_F64;
    case c10::ScalarType::UInt16: return NAX_U16;
    case c10::ScalarType::UInt32: return NAX_U32;
    case c10::ScalarType::UInt64: return NAX_U64;
    case c10::ScalarType::ComplexHalf: return NAX_C32;
    case c10::ScalarType::ComplexFloat: return NAX_C64;
    case c10::ScalarType::ComplexDouble: return NAX_C128;
    case c10::ScalarType::Float8_e4m3fn: return NAX_F8E4M3FN;
    case c10::ScalarType::Float8_e5m2: return NAX_F8E5M2;
    default: return NAX_INVALID_DTYPE;
  }
}

c10::Scalar host_scalar(const at::Tensor& t) {
  const void* data = t.const_data_ptr();
  switch (t.scalar_type()) {
    case c10::ScalarType::Float: return *static_cast<const float*>(data);
    case c10::ScalarType::Double: return *static_cast<const double*>(data);
    case c10::ScalarType::Long: return *static_cast<const int64_t*>(data);
    case c10::ScalarType::Int: return *static_cast<const int32_t*>(data);
    case c10::ScalarType::Bool: return *static_cast<const bool*>(data);
    default: return t.item();
  }
}

bool make_operand(const at::Tensor& t, nax_operand& operand) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  const c10::IntArrayRef sizes = impl->sizes();
  const c10::IntArrayRef strides = impl->strides();
  operand.dtype = dtype_of(impl->dtype().toScalarType());
  if (sizes.size() > NAX_MAX_RANK || operand.dtype == NAX_INVALID_DTYPE || t.is_conj() || t.is_neg()) {
    return false;
  }
  operand.cls = NAX_TENSOR;
  operand.buffer = buffer_of(*impl->unsafe_storage().unsafeGetStorageImpl(), &operand.offset_bytes);
  operand.offset_bytes += impl->storage_offset() * static_cast<int64_t>(impl->itemsize());
  operand.rank = static_cast<int32_t>(sizes.size());
  operand.reserved = 0;
  std::memcpy(operand.sizes, sizes.data(), sizes.size() * sizeof(int64_t));
  std::memcpy(operand.strides, strides.data(), strides.size() * sizeof(int64_t));
  return true;
}

Op::Op(nax_op_id id, c10::ScalarType compute)
    : id_(id),
      compute_(compute == c10::ScalarType::Undefined ? NAX_INVALID_DTYPE : dtype_of(compute)),
      expressible_(compute == c10::ScalarType::Undefined || compute_ != NAX_INVALID_DTYPE) {}

Op& Op::in(const at::Tensor& t) {
  if (is_host_scalar(t)) {
    if (t.is_complex()) {
      expressible_ = false;
      return absent();
    }
    return in(host_scalar(t));
  }
  if (!is_neuron(t)) {
    expressible_ = false;
    return absent();
  }
  if (!make_operand(t, input_[inputs_++])) expressible_ = false;
  device_ = t.device().index();
  return *this;
}

Op& Op::in(const c10::Scalar& s) {
  if (s.isComplex()) {
    expressible_ = false;
    return absent();
  }
  nax_operand& operand = input_[inputs_++];
  set_scalar(s, operand);
  wrap_scalar(compute_, operand.scalar);
  return *this;
}

Op& Op::in_view(const nax_operand& operand) {
  input_[inputs_++] = operand;
  return *this;
}

Op& Op::absent() {
  input_[inputs_].cls = NAX_ABSENT;
  input_[inputs_].rank = 0;
  input_[inputs_++].buffer = nullptr;
  return *this;
}

Op& Op::out(const at::Tensor& t) {
  if (!is_neuron(t) || !make_operand(t, output_[outputs_++])) expressible_ = false;
  device_ = t.device().index();
  return *this;
}

Op& Op::out_view(const nax_operand& operand, c10::DeviceIndex device) {
  output_[outputs_++] = operand;
  device_ = device;
  return *this;
}

Op& Op::attr(int64_t value) {
  attr_[attrs_++] = value;
  return *this;
}

bool Op::record() {
  if (!expressible_) return false;
  nax_op op;
  op.struct_size = sizeof(op);
  op.id = id_;
  op.compute_dtype = compute_;
  op.input_count = inputs_;
  op.output_count = outputs_;
  op.attr_count = attrs_;
  op.reserved = 0;
  op.inputs = input_;
  op.outputs = output_;
  op.attrs = attr_;
  op.origin = current_origin();
  return !declined(nax_stream_record(current_stream(device_), &op));
}

void copy_bytes(c10::DeviceIndex device, nax_buffer* target, int64_t target_offset, nax_buffer* source,
                int64_t source_offset, int64_t bytes) {
  nax_operand operands[2] = {};
  nax_buffer* buffers[2] = {source, target};
  const int64_t offsets[2] = {source_offset, target_offset};
  for (int i = 0; i < 2; ++i) {
    operands[i].cls = NAX_TENSOR;
    operands[i].dtype = NAX_U8;
    operands[i].buffer = buffers[i];
    operands[i].offset_bytes = offsets[i];
    operands[i].rank = 1;
    operands[i].sizes[0] = bytes;
    operands[i].strides[0] = 1;
  }
  nax_op op = {};
  op.struct_size = sizeof(op);
  op.id = NAX_OP_COPY;
  op.input_count = op.output_count = 1;
  op.inputs = &operands[0];
  op.outputs = &operands[1];
  op.origin = current_origin();
  if (!declined(nax_stream_record(current_stream(device), &op))) return;
  void* from = nullptr;
  void* to = nullptr;
  check(nax_buffer_map(source, 0, &from));
  check(nax_buffer_map(target, 1, &to));
  std::memmove(static_cast<char*>(to) + target_offset, static_cast<char*>(from) + source_offset,
               static_cast<size_t>(bytes));
}

}  // namespace nax::binding
