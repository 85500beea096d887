#include "fusion/lowering/lower.h"

namespace nax {
namespace {

constexpr int64_t kFlatRow = 2048;  // elements of a row of a flat vector
constexpr int64_t kFreeUnit = 32;   // a pointwise free tile is a multiple of this

}  // namespace

std::vector<NodeId> all_nodes(const RegionIr& ir) {
  std::vector<NodeId> nodes(ir.nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = static_cast<NodeId>(i);
  return nodes;
}

void write_pointwise_nest(ProgramWriter& w, const std::vector<NodeId>& nodes) {
  SlotBuilder& s = w.slots();
  const std::vector<Group> groups = w.collapse(nodes);
  bool counts = false;  // a coordinate is wanted as it is: no splitting
  for (const NodeId n : nodes) counts |= w.ir().nodes[n].kind == NodeKind::kIota;
  NestWriter nest(w);
  AxisId free = 0;
  if (groups.size() == 1 && !counts) {
    const SlotId points = w.size(groups[0]), row = s.constant(kFlatRow);
    const AxisId p =
        nest.add_axis(AxisRole::kPartition, s.ceil_div(points, row), groups[0].last, row);
    free = nest.add_axis(AxisRole::kFree, row, groups[0].last);
    nest.axis(free).split_outer = p;
    nest.axis(free).split_limit = points;
  } else {
    const size_t n = groups.size();
    for (size_t i = 0; i + 2 < n; ++i) nest.add_axis(AxisRole::kLoop, groups[i]);
    if (n >= 2)
      nest.add_axis(AxisRole::kPartition, groups[n - 2]);
    else
      nest.add_axis(AxisRole::kPartition, s.constant(1));
    free = n >= 1 ? nest.add_axis(AxisRole::kFree, groups[n - 1])
                  : nest.add_axis(AxisRole::kFree, s.constant(1));
  }
  nest.emit(nodes);
  nest.set_free_tile(free, kFreeUnit);
  nest.close();
}

StatusOr<std::vector<Program>> lower_pointwise(const Graph& graph, const RegionIr& ir,
                                               const TargetInfo& target, const std::string& name) {
  ProgramWriter w(graph, ir, target, name);
  write_pointwise_nest(w, all_nodes(ir));
  NAX_ASSIGN_OR_RETURN(Program p, w.finish());
  std::vector<Program> variants;
  variants.push_back(std::move(p));
  return variants;
}

}  // namespace nax
