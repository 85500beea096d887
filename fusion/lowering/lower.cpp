#include "fusion/lowering/lower.h"

namespace nax {
namespace {

// "add_mul_softmax": the ops in order, cut to a readable length.
std::string region_name(const Graph& graph, const RegionIr& ir) {
  constexpr size_t kMaxLength = 96;
  std::string name;
  for (const uint32_t op : ir.ops) {
    const std::string_view part = op_info(graph.ops()[op].id)->name;
    if (name.size() + part.size() + 1 > kMaxLength) {
      name += ".and_more";
      break;
    }
    if (!name.empty()) name += "_";
    name += part;
  }
  return name;
}

}  // namespace

StatusOr<std::vector<Program>> lower_region(const Graph& graph, const RegionIr& ir,
                                            const TargetInfo& target) {
  const std::string name = region_name(graph, ir);
  switch (ir.frame.kind) {
    case RegionKind::kPointwise:
      return lower_pointwise(graph, ir, target, name);
    case RegionKind::kRow:
      return lower_rows(graph, ir, target, name);
    case RegionKind::kColumn:
      return lower_columns(graph, ir, target, name);
    case RegionKind::kMatmul:
      return lower_matmul(graph, ir, target, name);
    case RegionKind::kSolo:
      break;
  }
  switch (op_info(graph.ops()[ir.ops[0]].id)->kind) {
    case OpKind::kScan:
      return lower_scan(graph, ir, target, name);
    case OpKind::kIndex:
      return lower_index(graph, ir, target, name);
    default:
      return lower_pointwise(graph, ir, target, name);
  }
}

}  // namespace nax
