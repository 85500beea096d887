// Indirect reads are pointwise nests; program-order scatters run ascending along the indexed dim.
#include "fusion/lowering/lower.h"

namespace nax {

StatusOr<std::vector<Program>> lower_index(const Graph& graph, const RegionIr& ir, const TargetInfo& target, const std::string& name) {
  ProgramWriter w(graph, ir, target, name);
  const std::vector<NodeId> nodes = all_nodes(ir);
  const GraphOp& op = graph.ops()[ir.ops[0]];
  const OpInfo& info = *op_info(op.id);
  if (info.shape != ShapeRule::kScatterAdd && info.shape != ShapeRule::kIndexAdd) {
    write_pointwise_nest(w, nodes);
  } else {
    SlotBuilder& s = w.slots();
    DimMap placed;
    place_shape(graph.shape(full_shape(graph, op)), ir.frame, Span::kFull, &placed);
    const std::vector<Group> groups = w.collapse(nodes);
    NestWriter nest(w);
    const size_t n = groups.size();
    AxisId free = 0;
    for (size_t i = 0; i < n; ++i) {
      bool ordered = false;
      for (int j = groups[i].first; j <= groups[i].last; ++j) ordered |= placed[j] == graph.attr(op, 0);
      const LoopKind kind = ordered ? LoopKind::kSequential : LoopKind::kParallel;
      if (n == 1) nest.add_axis(AxisRole::kPartition, s.constant(1));
      free = nest.add_axis(i + 1 == n ? AxisRole::kFree : i + 2 == n ? AxisRole::kPartition : AxisRole::kLoop, groups[i], kind);
    }
    if (n == 0) {
      nest.add_axis(AxisRole::kPartition, s.constant(1));
      free = nest.add_axis(AxisRole::kFree, s.constant(1));
    }
    nest.emit(nodes);
    nest.set_free_tile(free, 32);
    nest.close();
  }
  NAX_ASSIGN_OR_RETURN(Program p, w.finish());
  std::vector<Program> variants;
  variants.push_back(std::move(p));
  return variants;
}

}  // namespace nax
