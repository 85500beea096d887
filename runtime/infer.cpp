#include "runtime/infer.h"

#include <algorithm>
#include <string>

#include "fusion/plan.h"
#include "runtime/op_name.h"

namespace nax {
namespace {

Status to_operand(const nax_operand& o, WindowOperand* out) {
  if (o.cls < NAX_ABSENT || o.cls > NAX_SCALAR) return invalid_argument("unknown operand class " + std::to_string(o.cls));
  out->cls = static_cast<OperandClass>(o.cls);
  if (o.cls == NAX_SCALAR) {
    if (o.scalar.kind > 2) return invalid_argument("unknown scalar kind " + std::to_string(o.scalar.kind));
    out->scalar.kind = static_cast<ScalarValue::Kind>(o.scalar.kind);
    out->scalar.i64 = o.scalar.value.i64;
  }
  if (o.cls != NAX_TENSOR) return {};
  if (o.dtype < 0 || o.dtype >= kDTypeCount) return invalid_argument("unknown dtype " + std::to_string(o.dtype));
  if (o.rank < 0 || o.rank > kMaxRank)
    return invalid_argument("rank " + std::to_string(o.rank) + "; at most " + std::to_string(kMaxRank) + " dimensions");
  out->view.dtype = static_cast<DType>(o.dtype);
  out->view.rank = static_cast<uint8_t>(o.rank);
  std::copy_n(o.sizes, o.rank, out->view.sizes.begin());
  std::copy_n(o.strides, o.rank, out->view.strides.begin());
  return {};
}

}  // namespace

Status infer_op(const nax_op& op, nax_operand* out_outputs, uint32_t count) {
  const char* name = op_name_or_null(op.id);
  if (!name) return invalid_argument("unknown op id " + std::to_string(op.id));
  if (op.input_count > 255 || op.attr_count > 255 || count > 255)
    return invalid_argument(std::string(name) + ": more operands or attributes than any op has");
  if ((op.input_count && !op.inputs) || (op.attr_count && !op.attrs) || (op.output_count && !op.outputs))
    return invalid_argument(std::string(name) + ": a NULL array with a count above 0");
  if (op.compute_dtype < 0 || op.compute_dtype >= kDTypeCount)
    return invalid_argument(std::string(name) + ": unknown compute dtype " + std::to_string(op.compute_dtype));

  Window window;
  WindowOp& record = window.ops.emplace_back();
  record.id = static_cast<OpId>(op.id);
  record.compute = static_cast<DType>(op.compute_dtype);
  record.input_count = static_cast<uint8_t>(op.input_count);
  record.output_count = static_cast<uint8_t>(count);
  record.attr_count = static_cast<uint8_t>(op.attr_count);
  for (uint32_t i = 0; i < op.input_count; ++i)
    NAX_RETURN_IF_ERROR(to_operand(op.inputs[i], &window.operands.emplace_back()).with_context(name));
  for (uint32_t i = 0; i < count; ++i) {
    WindowOperand& operand = window.operands.emplace_back();
    if (i < op.output_count) NAX_RETURN_IF_ERROR(to_operand(op.outputs[i], &operand).with_context(name));
  }
  window.attrs.assign(op.attrs, op.attrs + op.attr_count);
  // Each tensor stands in a buffer of its own here: aliases do not change shapes.
  for (WindowOperand& operand : window.operands) {
    if (operand.cls != OperandClass::kTensor) continue;
    operand.view.buffer = static_cast<BufferIndex>(window.buffers.size());
    window.buffers.emplace_back();
  }
  NAX_RETURN_IF_ERROR(check_op(window, 0, true));

  for (uint32_t i = 0; i < count; ++i) {
    const View& view = window.output(window.ops[0], static_cast<int>(i)).view;
    nax_operand& out = out_outputs[i];
    out.cls = NAX_TENSOR;
    out.dtype = static_cast<int32_t>(view.dtype);
    out.rank = view.rank;
    std::copy_n(view.sizes.begin(), view.rank, out.sizes);
    std::copy_n(view.strides.begin(), view.rank, out.strides);
  }
  return {};
}

}  // namespace nax
