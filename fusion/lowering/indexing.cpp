// Indirect reads are pointwise nests; program-order scatters run ascending along the indexed dim.
#include "fusion/lowering/lower.h"

namespace nax {

StatusOr<std::vector<Program>> lower_index(const Graph& graph, const RegionIr& ir,
                                           const TargetInfo& target, const std::string& name) {
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
    // Duplicates meet along the indexed dim alone: its partitions run ascending, everything else in
    // any order.
    std::vector<Group> others, ordered;
    for (const Group& g : w.collapse(nodes)) {
      bool indexed = false;
      for (int j = g.first; j <= g.last; ++j) indexed |= placed[j] == graph.attr(op, 0);
      (indexed ? ordered : others).push_back(g);
    }
    NestWriter nest(w);
    for (size_t i = 0; i + 1 < others.size(); ++i) nest.add_axis(AxisRole::kLoop, others[i]);
    if (ordered.empty())
      nest.add_axis(AxisRole::kPartition, s.constant(1));
    else
      nest.add_axis(AxisRole::kPartition, ordered[0], LoopKind::kSequential);
    const AxisId free = others.empty() ? nest.add_axis(AxisRole::kFree, s.constant(1))
                                       : nest.add_axis(AxisRole::kFree, others.back());
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
