// Region to engine programs: one file a kind. Programs depend on the graph's pattern only.
#pragma once

#include <vector>

#include "fusion/lowering/program_writer.h"
#include "fusion/lowering/region_ir.h"

namespace nax {

// The variants of a region, best first; the last one has no guards.
StatusOr<std::vector<Program>> lower_region(const Graph& graph, const RegionIr& ir,
                                            const TargetInfo& target);

// By kind.
StatusOr<std::vector<Program>> lower_pointwise(const Graph& graph, const RegionIr& ir,
                                               const TargetInfo& target, const std::string& name);
StatusOr<std::vector<Program>> lower_rows(const Graph& graph, const RegionIr& ir,
                                          const TargetInfo& target, const std::string& name);
StatusOr<std::vector<Program>> lower_columns(const Graph& graph, const RegionIr& ir,
                                             const TargetInfo& target, const std::string& name);
StatusOr<std::vector<Program>> lower_matmul(const Graph& graph, const RegionIr& ir,
                                            const TargetInfo& target, const std::string& name);
StatusOr<std::vector<Program>> lower_index(const Graph& graph, const RegionIr& ir,
                                           const TargetInfo& target, const std::string& name);
StatusOr<std::vector<Program>> lower_scan(const Graph& graph, const RegionIr& ir,
                                          const TargetInfo& target, const std::string& name);

// Appends a nest that evaluates pointwise nodes: a flat vector as rows of 2048 elements, or the
// last dim as free axis and the one before as partitions.
void write_pointwise_nest(ProgramWriter& writer, const std::vector<NodeId>& nodes);

std::vector<NodeId> all_nodes(const RegionIr& ir);

}  // namespace nax
