#include "fusion/plan.h"

#include <algorithm>

#include "device/isa/verify.h"
#include "device/targets/target.h"
#include "fusion/legality.h"
#include "fusion/lowering/lower.h"
#include "fusion/planner.h"
#include "fusion/program_key.h"

namespace nax {
namespace {

// Bits of the numerics contract; reserved for modes of their own.
constexpr char kNumericsMode = 0;

void add_unique(std::vector<BufferIndex>* list, BufferIndex b) {
  if (std::find(list->begin(), list->end(), b) == list->end()) list->push_back(b);
}

class Planner {
 public:
  Planner(const Graph& graph, const TargetInfo& target, WindowPlan* plan)
      : graph_(graph), target_(target), plan_(*plan) {
    plan_.decisions.resize(graph.ops().size());
  }

  Status run(const Proposal& proposal) {
    for (size_t r = 0; r < proposal.regions.size(); ++r) {
      const std::vector<uint32_t>& ops = proposal.regions[r];
      for (const uint32_t op : ops) {
        const char* why =
            op < proposal.reasons.size() && proposal.reasons[op] ? proposal.reasons[op] : "";
        plan_.decisions[op] = {op, region_, op == ops[0] && !*why ? "first of its region" : why};
      }
      Status s = region(ops);
      if (s.ok()) {
        ++region_;
        continue;
      }
      if (ops.size() == 1) return s;
      plan_.rejected = illegal_text(Illegal::kNoLowering);
      for (const uint32_t op : ops) {
        plan_.decisions[op] = {op, region_, illegal_text(Illegal::kNoLowering)};
        NAX_RETURN_IF_ERROR(region({op}));
        ++region_;
      }
    }
    release_dead();
    return {};
  }

 private:
  Status region(const std::vector<uint32_t>& ops) {
    RegionFrame frame;
    for (const uint32_t op : ops) {
      const char* reason = "";
      if (!frame.admit(graph_, op, &reason)) return invalid_argument(reason);
    }
    NAX_ASSIGN_OR_RETURN(const RegionIr ir, build_region(graph_, ops, frame.frame()));
    if (ir.nodes.empty() || writes_nothing(ops)) {  // all dead, or no elements
      plan_.dead_temporaries += static_cast<uint32_t>(ir.dropped.size());
      return {};
    }
    NAX_ASSIGN_OR_RETURN(std::vector<Program> programs, lower_region(graph_, ir, target_));
    PlannedLaunch launch;
    for (Program& p : programs) {
      Status s = verify(p);
      if (!s.ok()) return internal_error("lowering of " + p.name + ": " + std::string(s.message()));
      std::string key;
      append_program_key(p, &key);
      launch.keys.push_back(std::move(key));
      launch.programs.push_back(std::make_shared<const Program>(std::move(p)));
    }
    launch.args = ir.args;
    launch.ops = ops;
    for (size_t i = 0; i < ir.args.size(); ++i) {
      if (!ir.arg_views[i]) continue;
      if (ir.decls[i].read) add_unique(&launch.reads, ir.arg_views[i]->buffer);
      if (ir.decls[i].written) add_unique(&launch.writes, ir.arg_views[i]->buffer);
    }
    plan_.dead_temporaries += static_cast<uint32_t>(ir.dropped.size());
    plan_.launches.push_back(std::move(launch));
    return {};
  }

  bool writes_nothing(const std::vector<uint32_t>& ops) const {
    for (const uint32_t index : ops) {
      const GraphOp& op = graph_.ops()[index];
      for (int i = 0; i < op.output_count; ++i) {
        const GraphOperand& o = graph_.output(op, i);
        if (o.cls == OperandClass::kTensor && !graph_.shape_of(o.view).empty &&
            !graph_.shape(full_shape(graph_, op)).empty)
          return false;
        // Reductions of nothing still write their identity.
        if (o.cls == OperandClass::kTensor && !graph_.shape_of(o.view).empty &&
            op_info(op.id)->shape == ShapeRule::kReduce)
          return false;
      }
    }
    return true;
  }

  void release_dead() {
    std::vector<int64_t> last(graph_.buffers().size(), -1);
    for (size_t l = 0; l < plan_.launches.size(); ++l) {
      for (const BufferIndex b : plan_.launches[l].reads) last[b] = static_cast<int64_t>(l);
      for (const BufferIndex b : plan_.launches[l].writes) last[b] = static_cast<int64_t>(l);
    }
    for (size_t b = 0; b < last.size(); ++b) {
      const GraphBuffer& buffer = graph_.buffers()[b];
      if (last[b] >= 0 && buffer.born_here && !buffer.live_out)
        plan_.launches[static_cast<size_t>(last[b])].release_after.push_back(
            static_cast<BufferIndex>(b));
    }
  }

  const Graph& graph_;
  const TargetInfo& target_;
  WindowPlan& plan_;
  uint32_t region_ = 0;
};

}  // namespace

StatusOr<std::shared_ptr<const WindowPlan>> plan_with(const Window& window, ProposeFn propose,
                                                      std::string_view policy,
                                                      const TargetInfo& target) {
  Graph graph;
  graph.analyze(window);
  const FusionLimits limits;
  auto plan = std::make_shared<WindowPlan>();
  plan->policy = std::string(policy);
  Proposal proposal = propose(graph, limits);
  const Illegal illegal = check_proposal(graph, proposal, limits);
  if (illegal != Illegal::kLegal) {
    proposal = propose_strict(graph, limits);
    std::fill(proposal.reasons.begin(), proposal.reasons.end(), illegal_text(illegal));
  }
  if (illegal != Illegal::kLegal) plan->rejected = illegal_text(illegal);
  NAX_RETURN_IF_ERROR(Planner(graph, target, plan.get()).run(proposal));
  return std::shared_ptr<const WindowPlan>(std::move(plan));
}

StatusOr<std::shared_ptr<const WindowPlan>> make_plan(const Window& window, std::string_view policy,
                                                      const TargetInfo& target) {
  const ProposeFn propose = find_policy(policy);
  if (!propose) {
    std::string names;
    for (const char* const* n = fusion_policy_names(); *n; ++n)
      names += (names.empty() ? "" : ", ") + std::string(*n);
    return invalid_argument("unknown fusion policy '" + std::string(policy) + "'; allowed are " +
                            names);
  }
  return plan_with(window, propose, policy, target);
}

void append_window_key(const Window& window, std::string_view policy, const TargetInfo& target,
                       std::string* out) {
  static thread_local Graph graph;
  out->append("nax-window-1");
  out->push_back(kNumericsMode);
  out->append(policy);
  out->push_back('\0');
  out->append(target.name);
  out->push_back('\0');
  graph.analyze(window);
  graph.append_key(out);
}

BufferIndex bind_arg(const Window& window, const ArgBinding& binding, ArgValue* out) {
  const WindowOp& op = window.ops[binding.op];
  const WindowOperand& operand = window.operands[op.first_operand + binding.operand];
  if (binding.kind == ArgKind::kScalar) {
    if (binding.source == ScalarSource::kOperand) {
      out->scalar = operand.scalar;
      return -1;
    }
    const View& x = window.input(op, 0).view;
    uint32_t mask = 0;
    const OpInfo& info = *op_info(op.id);
    if (info.shape == ShapeRule::kReduce)
      mask = static_cast<uint32_t>(window.attr(op, 0));
    else if (info.shape == ShapeRule::kSame)
      mask = x.rank == 0 ? 0u : 1u << window.attr(op, 0);
    else
      mask = ((1u << window.attr(op, 0)) - 1) << (x.rank - window.attr(op, 0));
    int64_t count = 1;
    for (int d = 0; d < x.rank; ++d)
      if (mask >> d & 1) count *= x.sizes[d];
    out->scalar = ScalarValue::from_f64(static_cast<double>(count));
    return -1;
  }
  out->offset_bytes = operand.view.offset_bytes;
  out->sizes = operand.view.sizes;
  out->strides = operand.view.strides;
  return operand.view.buffer;
}

}  // namespace nax
