// State behind OpBuilder while a region is expanded.
#pragma once

#include <string>

#include "fusion/lowering/region_ir.h"

namespace nax {

class RegionBuilder {
 public:
  RegionBuilder(const Graph& graph, const std::vector<uint32_t>& ops, const Frame& frame);

  Status run();
  RegionIr take() { return std::move(ir_); }

  const Graph& graph() const { return graph_; }
  RegionIr& ir() { return ir_; }
  NodeId add(const Node& node);
  int16_t constant(const ScalarValue& value);
  ArgId scalar_arg(uint32_t op, int operand, ScalarSource source, DType dtype);
  ArgId view_arg(uint32_t op, int operand);
  // The value of a view in its own dtype, forwarded or kNoNode.
  NodeId forwarded(int32_t view, const Placement& place) const;
  // A load of the operand with this placement into a tile of `dtype`; shared with earlier equal
  // loads.
  NodeId load(uint32_t op, int operand, const Placement& place, DType dtype, uint16_t region_op);
  void store(uint32_t op, int operand, const Placement& place, NodeId value, uint16_t region_op);
  // Checks an access against all earlier ones of the region; records it for later ones.
  int16_t add_access(const Access& access);
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

 private:
  struct Forward {
    int32_t view;
    DimMap canon;
    NodeId value, store;
  };
  void drop_dead_stores();
  void drop_dead_nodes();
  void prune_args();

  const Graph& graph_;
  RegionIr ir_;
  Status status_;
  std::vector<Forward> forwards_;
};

// The integer type in which a storage-only dtype moves; computable dtypes are themselves.
DType storage_dtype(DType t);
// A value of `from` is a value of `to` as it is: one lane, no rounding.
bool widens_exactly(DType from, DType to);

}  // namespace nax
