#include "runtime/report_text.h"

#include <cstdio>
#include <map>

#include "device/isa/text.h"
#include "device/jit/jit.h"
#include "device/timing/timing.h"
#include "runtime/op_name.h"

namespace nax {
namespace {

std::string count(size_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string nanoseconds(double ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ns", ns);
  return text;
}

void append_operand(const WindowOperand& operand, std::string* out) {
  if (operand.cls == OperandClass::kAbsent) {
    out->append("none");
    return;
  }
  if (operand.cls == OperandClass::kScalar) {
    out->append(constant_text(operand.scalar));
    return;
  }
  const View& v = operand.view;
  out->append("b").append(std::to_string(v.buffer)).append(":").append(dtype_name(v.dtype)).append("[");
  bool contiguous = true;
  int64_t expected = 1;
  for (size_t d = v.rank; d-- > 0;) {
    contiguous &= v.sizes[d] == 1 || v.strides[d] == expected;
    expected *= v.sizes[d];
  }
  for (size_t d = 0; d < v.rank; ++d) out->append(d ? ", " : "").append(std::to_string(v.sizes[d]));
  out->append("]");
  if (!contiguous) {
    out->append(" strides [");
    for (size_t d = 0; d < v.rank; ++d) out->append(d ? ", " : "").append(std::to_string(v.strides[d]));
    out->append("]");
  }
  if (v.offset_bytes) out->append(" at byte ").append(std::to_string(v.offset_bytes));
}

void append_window(const WindowReport& report, const Window& window, std::string* out) {
  std::vector<uint8_t> written(window.buffers.size()), read(window.buffers.size()), on_chip(window.buffers.size());
  for (size_t i = 0; i < window.ops.size(); ++i) {
    const WindowOp& op = window.ops[i];
    for (int k = 0; k < op.input_count; ++k)
      if (window.input(op, k).cls == OperandClass::kTensor) read[static_cast<size_t>(window.input(op, k).view.buffer)] = 1;
    for (int k = 0; k < op.output_count; ++k) {
      const auto b = static_cast<size_t>(window.output(op, k).view.buffer);
      written[b] = 1;
      on_chip[b] = report.ops[i].on_chip;
    }
  }
  for (size_t b = 0; b < window.buffers.size(); ++b) {
    const WindowBuffer& buffer = window.buffers[b];
    out->append("buffer b").append(std::to_string(b)).append(": ").append(std::to_string(buffer.bytes)).append(" bytes");
    if (read[b]) out->append(", read");
    if (written[b]) out->append(", written");
    if (buffer.born_here) out->append(", born here");
    out->append(buffer.live_out ? ", live" : on_chip[b] ? ", dead: never gets memory" : ", dead");
    out->append("\n");
  }
  for (size_t i = 0; i < window.ops.size(); ++i) {
    const WindowOp& op = window.ops[i];
    out->append("op ").append(std::to_string(i)).append(": ");
    for (int k = 0; k < op.output_count; ++k) {
      if (k) out->append(", ");
      append_operand(window.output(op, k), out);
    }
    out->append(" = ").append(op_name(op.id)).append("(");
    for (int k = 0; k < op.input_count; ++k) {
      if (k) out->append(", ");
      append_operand(window.input(op, k), out);
    }
    for (int k = 0; k < op.attr_count; ++k)
      out->append(k ? ", " : "; ").append(std::to_string(window.attr(op, k)));
    out->append(")");
    if (op.compute != DType::kInvalid) out->append(" in ").append(dtype_name(op.compute));
    if (!report.ops[i].origin.empty()) out->append("   # ").append(report.ops[i].origin);
    out->append("\n");
  }
}

void append_regions(const WindowReport& report, std::string* out) {
  if (!report.rejected.empty())
    out->append("the policy's proposal was rejected: ").append(report.rejected).append("\n");
  for (size_t r = 0; r < report.regions.size(); ++r) {
    const RegionReport& region = report.regions[r];
    out->append("region ").append(std::to_string(r)).append(": ").append(count(region.ops.size(), "op"));
    if (region.prepared) {
      out->append(", program ").append(region.prepared->program().name).append(", ").append(nanoseconds(region.device_ns));
      if (!region.ops.empty())
        out->append(", operands ").append(std::to_string(region.bytes_together)).append(" bytes, one by one ")
            .append(std::to_string(region.bytes_apart));
    } else {
      out->append(", nothing to run");
    }
    out->append("\n");
    for (const uint32_t op : region.ops) {
      const OpReport& row = report.ops[op];
      out->append("  op ").append(std::to_string(op)).append(": ").append(row.text.substr(0, row.text.find('(')));
      out->append(row.reason.empty() ? ": fused" : ": starts the region, " + row.reason);
      if (row.on_chip) out->append("; its result stays on chip");
      out->append("\n");
    }
  }
}

// Calls f(region) for each region with a program of its own; notes, in `comment`, those that share one.
template <class F>
void each_program(const WindowReport& report, const char* comment, std::string* out, F f) {
  std::map<const PreparedProgram*, size_t> seen;
  for (size_t r = 0; r < report.regions.size(); ++r) {
    const RegionReport& region = report.regions[r];
    if (!region.prepared) continue;
    out->append(comment).append(" region ").append(std::to_string(r));
    const auto [first, fresh] = seen.emplace(region.prepared.get(), r);
    if (fresh) {
      out->append("\n");
      f(region);
    } else {
      out->append(": the program of region ").append(std::to_string(first->second)).append("\n");
    }
  }
}

}  // namespace

std::string report_text(const WindowReport& report, const Window* window, const TargetInfo& target) {
  std::string out = "== windows ==\nwindow " + std::to_string(report.number) + " on stream " + std::to_string(report.stream);
  if (window)
    out += ": " + count(report.ops.size(), "op") + ", ended by " + report.cut + ", policy " + report.policy + ", " +
           (report.dead_temporaries == 1 ? "1 dead temporary" : std::to_string(report.dead_temporaries) + " dead temporaries");
  else
    out += ": a program launched as it is";
  out += ", target " + std::string(target.name) + "\n";
  if (window) append_window(report, *window, &out);
  out += "== regions ==\n";
  append_regions(report, &out);
  out += "== programs ==\n";
  each_program(report, "#", &out, [&](const RegionReport& r) { out += to_text(r.prepared->program()); });
  out += "== llvm ==\n";
  each_program(report, ";", &out, [&](const RegionReport& r) { out += program_ir(*r.prepared); });
  out += "== timeline ==\n";
  for (size_t r = 0; r < report.regions.size(); ++r) {
    const RegionReport& region = report.regions[r];
    if (!region.prepared) continue;
    out += "region " + std::to_string(r) + "\n" + timeline_text(region.prepared->program(), region.slots.data(), target);
  }
  return out;
}

}  // namespace nax
