#include "fusion/legality.h"

#include <algorithm>

namespace nax {

const char* illegal_text(Illegal reason) {
  switch (reason) {
    case Illegal::kLegal:
      return "";
    case Illegal::kOpMissing:
      return "an op is in no region";
    case Illegal::kOpTwice:
      return "an op is in two regions";
    case Illegal::kUnknownOp:
      return "a region names an op that the window does not have";
    case Illegal::kEmptyRegion:
      return "a region is empty";
    case Illegal::kRegionOrder:
      return "ops of a region are not in program order";
    case Illegal::kHazard:
      return "an op would run before one that it depends on";
    case Illegal::kTooManyOps:
      return "a region has too many ops";
    case Illegal::kNoLowering:
      return "a region cannot be one loop";
  }
  return "";
}

Illegal check_proposal(const Graph& graph, const Proposal& proposal, const FusionLimits& limits) {
  const size_t n = graph.ops().size();
  std::vector<int64_t> position(n, -1);
  for (size_t r = 0; r < proposal.regions.size(); ++r) {
    const std::vector<uint32_t>& ops = proposal.regions[r];
    if (ops.empty()) return Illegal::kEmptyRegion;
    if (ops.size() > limits.max_ops) return Illegal::kTooManyOps;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (ops[i] >= n) return Illegal::kUnknownOp;
      if (position[ops[i]] >= 0) return Illegal::kOpTwice;
      if (i > 0 && ops[i] < ops[i - 1]) return Illegal::kRegionOrder;
      position[ops[i]] = static_cast<int64_t>(r);
    }
  }
  // Latest region so far that wrote, read each canonical view: an op must not run before any of
  // those it conflicts with.
  std::vector<int64_t> written(graph.views().size(), -1), read(graph.views().size(), -1);
  for (size_t i = 0; i < n; ++i) {
    if (position[i] < 0) return Illegal::kOpMissing;
    const GraphOp& op = graph.ops()[i];
    for (int k = 0; k < op.input_count + op.output_count; ++k) {
      const GraphOperand& operand = graph.operand(op, k);
      if (operand.cls != OperandClass::kTensor) continue;
      const GraphBuffer& b = graph.buffers()[operand.view.buffer];
      if (!b.written) continue;
      for (int32_t v = b.first_view; v >= 0; v = graph.views()[v].next) {
        if (graph.alias(v, operand.view.view) == AliasClass::kDisjoint) continue;
        if (written[v] > position[i]) return Illegal::kHazard;
        if (k >= op.input_count && read[v] > position[i]) return Illegal::kHazard;
      }
    }
    for (int k = 0; k < op.input_count + op.output_count; ++k) {
      const GraphOperand& operand = graph.operand(op, k);
      if (operand.cls != OperandClass::kTensor) continue;
      int64_t& latest = (k < op.input_count ? read : written)[operand.view.view];
      latest = std::max(latest, position[i]);
    }
  }
  return Illegal::kLegal;
}

}  // namespace nax
