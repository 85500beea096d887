#include "device/jit/coverage.h"

#include <string>

namespace nax::jit {
namespace {

Status missing(const char* what) { return unimplemented(std::string("the JIT does not cover ") + what); }

Status check_op(const LaneProgram& lanes, const LaneOp& op) {
  switch (op.kind) {
    case LaneOpKind::kScan: return missing("scans");
    case LaneOpKind::kPhilox: return missing("random bits");
    case LaneOpKind::kReduce:
      if (op.order != ReduceOrder::kRow) return missing("tree reductions");
      break;
    case LaneOpKind::kPartitionReduce:
      if (op.order != ReduceOrder::kColumn) return missing("tree partition reductions");
      break;
    default: break;
  }
  if (op.access >= 0) {
    const LaneAccess& access = lanes.accesses[static_cast<size_t>(op.access)];
    if (access.index_value >= 0) return missing("indirect accesses");
    if (access.hbm.accumulate) return missing("accumulating stores");
  }
  return {};
}

// A partial group is read as a whole before anything of it is written.
bool loads_after_store(const LaneProgram& lanes, const LaneStage& stage) {
  for (size_t i = 0; i < stage.strip_ops.size(); ++i) {
    const LaneOp& store = lanes.ops[static_cast<size_t>(stage.strip_ops[i])];
    if (store.kind != LaneOpKind::kStore) continue;
    for (size_t j = i + 1; j < stage.strip_ops.size(); ++j) {
      const LaneOp& load = lanes.ops[static_cast<size_t>(stage.strip_ops[j])];
      if (load.kind != LaneOpKind::kLoad) continue;
      const LaneAccess& from = lanes.accesses[static_cast<size_t>(load.access)];
      if (from.source == AccessSource::kHbm && from.hbm.arg == lanes.accesses[static_cast<size_t>(store.access)].hbm.arg) return true;
    }
  }
  return false;
}

}  // namespace

Status check_coverage(const LaneProgram& lanes) {
  bool any_strip = false;
  for (const LaneStage& stage : lanes.stages) any_strip |= !stage.strip_ops.empty();
  if (!any_strip) return missing("programs on row values alone");
  for (const LaneValue& v : lanes.values)
    if (v.shape == TileShape::kColumn) return missing("column tiles outside of finish");
  for (const LaneOp& op : lanes.ops) NAX_RETURN_IF_ERROR(check_op(lanes, op));
  for (const LaneStage& stage : lanes.stages)
    if (loads_after_store(lanes, stage)) return missing("a load after a store to the same argument");
  return {};
}

bool walks_along(const LaneAccess& access) {
  return access.source != AccessSource::kIndex && access.shape != TileShape::kRow && access.shape != TileShape::kOne;
}

std::vector<InnerStride> demanded_strides(const LaneProgram& lanes) {
  std::vector<InnerStride> inner(lanes.accesses.size(), InnerStride::kAny);
  for (size_t i = 0; i < inner.size(); ++i) {
    const LaneAccess& access = lanes.accesses[i];
    if (walks_along(access))
      inner[i] = access.inner == InnerStride::kZero && !access.store ? InnerStride::kZero : InnerStride::kUnit;
  }
  return inner;
}

}  // namespace nax::jit
