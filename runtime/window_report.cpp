#include "runtime/window_report.h"

#include <algorithm>

#include "device/isa/slots.h"
#include "device/timing/timing.h"
#include "runtime/error_log.h"

namespace nax {
namespace {

// The launch's arguments without memory: all that slots and time depend on.
std::vector<ArgValue> sizes_of(const Window& window, const PlannedLaunch& launch, size_t columns) {
  std::vector<ArgValue> row(std::max(columns, launch.args.size()));
  for (size_t i = 0; i < launch.args.size(); ++i)
    if (launch.args[i].kind != ArgKind::kScratch) bind_arg(window, launch.args[i], &row[i]);
  return row;
}

void describe_launch(const Window& window, const PlannedLaunch& launch,
                     const std::vector<std::shared_ptr<ProgramEntry>>& variants, const TargetInfo& target, RegionReport* out) {
  size_t columns = 0;
  for (const auto& variant : variants) columns = std::max(columns, variant->prepared->program().args.size());
  const std::vector<ArgValue> row = sizes_of(window, launch, columns);
  for (const auto& variant : variants) {
    const Program& program = variant->prepared->program();
    std::vector<int64_t> slots(program.slots.size());
    evaluate_slots(program, row.data(), slots.data());
    if (!guards_hold(program, slots.data())) continue;
    out->prepared = variant->prepared;
    out->compiled = variant->has_code();
    out->slots = std::move(slots);
    break;
  }
  if (!out->prepared) return;
  const Program& program = out->prepared->program();
  out->device_ns = time_program(program, out->slots.data(), target).total_ns;
  for (size_t i = 0; i < launch.args.size(); ++i) {
    const ArgBinding& binding = launch.args[i];
    if (binding.kind != ArgKind::kView) continue;
    const uint64_t bytes = view_bytes(window.operands[window.ops[binding.op].first_operand + binding.operand].view);
    out->bytes_together += bytes * (uint64_t{program.args[i].read} + uint64_t{program.args[i].written});
  }
}

uint64_t bytes_of_op(const Window& window, const WindowOp& op) {
  uint64_t bytes = 0;
  for (int i = 0; i < op.input_count + op.output_count; ++i) {
    const WindowOperand& operand = window.operands[op.first_operand + static_cast<uint32_t>(i)];
    if (operand.cls == OperandClass::kTensor) bytes += view_bytes(operand.view);
  }
  return bytes;
}

}  // namespace

uint64_t view_bytes(const View& view) {
  uint64_t bytes = dtype_size(view.dtype);
  for (size_t d = 0; d < view.rank; ++d)
    if (view.strides[d] != 0 || view.sizes[d] == 0) bytes *= static_cast<uint64_t>(view.sizes[d]);
  return bytes;
}

WindowReport describe_window(const Window& window, const PlanEntry& entry, const TargetInfo& target,
                             FunctionRef<std::string(uint64_t origin)> origin_text) {
  const WindowPlan& plan = *entry.plan;
  WindowReport report;
  report.policy = plan.policy;
  report.rejected = plan.rejected ? plan.rejected : "";
  report.dead_temporaries = plan.dead_temporaries;

  std::vector<uint8_t> in_memory(window.buffers.size());
  for (const PlannedLaunch& launch : plan.launches) {
    for (const BufferIndex b : launch.reads) in_memory[static_cast<size_t>(b)] = 1;
    for (const BufferIndex b : launch.writes) in_memory[static_cast<size_t>(b)] = 1;
  }
  for (const WindowOp& op : window.ops) {
    OpReport& row = report.ops.emplace_back();
    row.text = describe_op(window, op);
    row.origin = op.origin ? origin_text(op.origin) : std::string();
    row.sequence = op.sequence;
    row.on_chip = op.output_count > 0;
    for (int i = 0; i < op.output_count; ++i) {
      const auto b = static_cast<size_t>(window.output(op, i).view.buffer);
      row.on_chip &= !in_memory[b] && window.buffers[b].born_here && !window.buffers[b].live_out;
    }
  }
  for (const FusionDecision& decision : plan.decisions) {
    if (decision.op >= report.ops.size() || decision.region >= report.ops.size()) continue;
    report.ops[decision.op].region = decision.region;
    report.ops[decision.op].reason = decision.reason;
    if (decision.region >= report.regions.size()) report.regions.resize(decision.region + 1);
    RegionReport& region = report.regions[decision.region];
    region.ops.push_back(decision.op);
    region.bytes_apart += bytes_of_op(window, window.ops[decision.op]);
  }
  for (const LaunchStep& step : entry.steps) {
    for (const uint32_t index : step.launches) {
      const PlannedLaunch& launch = plan.launches[index];
      if (launch.ops.empty()) continue;
      const uint32_t region = report.ops[launch.ops[0]].region;
      if (region < report.regions.size()) describe_launch(window, launch, step.variants, target, &report.regions[region]);
    }
  }
  return report;
}

}  // namespace nax
