// Running reductions along one dim: rows of any length, ascending.
#include "fusion/lowering/lower.h"

namespace nax {

StatusOr<std::vector<Program>> lower_scan(const Graph& graph, const RegionIr& ir,
                                          const TargetInfo& target, const std::string& name) {
  ProgramWriter w(graph, ir, target, name);
  const std::vector<NodeId> nodes = all_nodes(ir);
  NestWriter nest(w);
  std::vector<Group> outer, row;
  for (const Group& g : w.collapse(nodes)) (g.row ? row : outer).push_back(g);
  for (size_t i = 0; i + 1 < outer.size(); ++i) nest.add_axis(AxisRole::kLoop, outer[i]);
  if (outer.empty())
    nest.add_axis(AxisRole::kPartition, w.slots().constant(1));
  else
    nest.add_axis(AxisRole::kPartition, outer.back());
  AxisId free = 0;
  if (row.empty()) free = nest.add_axis(AxisRole::kFree, w.slots().constant(1));
  for (const Group& g : row) free = nest.add_axis(AxisRole::kFree, g);
  nest.emit(nodes);
  nest.set_free_tile(free, kRowChunk);
  nest.close();
  NAX_ASSIGN_OR_RETURN(Program p, w.finish());
  std::vector<Program> variants;
  variants.push_back(std::move(p));
  return variants;
}

}  // namespace nax
