#include "runtime/error_log.h"

#include <cstdio>

#include "runtime/op_name.h"

namespace nax {
namespace {

void append_operand(const WindowOperand& operand, std::string* out) {
  switch (operand.cls) {
    case OperandClass::kAbsent: out->append("none"); return;
    case OperandClass::kScalar: {
      char text[32];
      const ScalarValue& s = operand.scalar;
      if (s.kind == ScalarValue::Kind::kF64)
        std::snprintf(text, sizeof text, "%g", s.f64);
      else if (s.kind == ScalarValue::Kind::kBool)
        std::snprintf(text, sizeof text, "%s", s.i64 ? "true" : "false");
      else
        std::snprintf(text, sizeof text, "%lld", static_cast<long long>(s.i64));
      out->append(text);
      return;
    }
    case OperandClass::kTensor: break;
  }
  out->append(dtype_name(operand.view.dtype)).append("[");
  for (int d = 0; d < operand.view.rank; ++d)
    out->append(d ? ", " : "").append(std::to_string(operand.view.sizes[static_cast<size_t>(d)]));
  out->append("]");
}

}  // namespace

std::string describe_op(const Window& window, const WindowOp& op) {
  std::string text(op_name(op.id));
  text += "(";
  for (int i = 0; i < op.input_count; ++i) {
    if (i) text += ", ";
    append_operand(window.input(op, i), &text);
  }
  text += ")";
  for (int i = 0; i < op.output_count; ++i) {
    text += i ? ", " : " -> ";
    append_operand(window.output(op, i), &text);
  }
  return text;
}

Status to_status(const ErrorRecord& record, OriginText origin_text) {
  std::string message = record.what + " in " + record.operation + "; stream " + std::to_string(record.stream) + ", op number " +
                        std::to_string(record.sequence);
  if (record.origin) {
    const std::string where = origin_text(record.origin);
    if (!where.empty()) message += "; recorded at " + where;
  }
  return {record.code, std::move(message), record.reason};
}

void ErrorLog::add(const ErrorRef& record) {
  std::lock_guard lock(mutex_);
  ErrorRef& slot = earliest_[record->stream];
  if (!slot || slot->raised.load() || record->sequence < slot->sequence) slot = record;
  any_.store(true, std::memory_order_release);
}

ErrorRef ErrorLog::take(int stream) {
  if (!any_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard lock(mutex_);
  const auto found = earliest_.find(stream);
  if (found == earliest_.end()) return nullptr;
  ErrorRef record = std::move(found->second);
  earliest_.erase(found);
  any_.store(!earliest_.empty(), std::memory_order_release);
  return record && !record->raised.exchange(true) ? record : nullptr;
}

ErrorRef ErrorLog::take_earliest() {
  if (!any_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard lock(mutex_);
  // One call reports one error; those of other streams are later in program order or unordered with it, and are dropped
  // with it as the later errors of its own stream are.
  ErrorRef best;
  for (auto& [stream, record] : earliest_)
    if (!record->raised.load() && (!best || record->sequence < best->sequence)) best = record;
  earliest_.clear();
  any_.store(false, std::memory_order_release);
  if (best) best->raised.store(true);
  return best;
}

}  // namespace nax
