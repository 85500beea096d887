// A policy proposes how the ops of a window are grouped; it sees the pattern only, never memory.
// What it proposes is checked (fusion/legality.h): no policy can make a result wrong. Pure
// functions: any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fusion/graph.h"

namespace nax {

struct Proposal {
  std::vector<std::vector<uint32_t>> regions;  // in launch order; ops of a region in program order
  std::vector<const char*>
      reasons;  // by op: why it did not join an earlier op's region; static text, "" if it did
};

struct FusionLimits {
  size_t max_ops = 64;
  size_t max_args = 40;
};

using ProposeFn = Proposal (*)(const Graph& graph, const FusionLimits& limits);

Proposal propose_strict(const Graph& graph, const FusionLimits& limits);  // one op a region
Proposal propose_greedy(
    const Graph& graph,
    const FusionLimits& limits);  // joins producers while loops and memory allow
Proposal propose_adaptive(
    const Graph& graph,
    const FusionLimits& limits);  // greedy; what is compiled when is the runtime's choice

// Null where the name is unknown.
ProposeFn find_policy(std::string_view name);

}  // namespace nax
