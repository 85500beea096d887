// Whether a proposal keeps the program's meaning: each op once, program order inside regions, every
// read-after-write, write-after-read and write-after-write kept, limits. What a region's loop can
// hold is checked by building it (fusion/lowering/region_ir.h).
#pragma once

#include "fusion/policies/policy.h"

namespace nax {

enum class Illegal : uint8_t {
  kLegal = 0,
  kOpMissing = 1,
  kOpTwice = 2,
  kUnknownOp = 3,
  kEmptyRegion = 4,
  kRegionOrder = 5,  // ops of a region are not in program order
  kHazard = 6,       // an op would run before one that it depends on
  kTooManyOps = 7,
  kNoLowering = 8,  // a region cannot be one loop
};

// Static text for counters and messages.
const char* illegal_text(Illegal reason);

Illegal check_proposal(const Graph& graph, const Proposal& proposal, const FusionLimits& limits);

}  // namespace nax
