#include "fusion/policies/policy.h"

namespace nax {

Proposal propose_adaptive(const Graph& graph, const FusionLimits& limits) {
  return propose_greedy(graph, limits);
}

}  // namespace nax
