#include "fusion/policies/policy.h"

namespace nax {

Proposal propose_strict(const Graph& graph, const FusionLimits&) {
  Proposal p;
  for (uint32_t i = 0; i < graph.ops().size(); ++i) p.regions.push_back({i});
  p.reasons.assign(graph.ops().size(), "strict: one op a program");
  return p;
}

}  // namespace nax
