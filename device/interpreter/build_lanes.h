// Nest -> LaneProgram: SSA values, conversions, stages, row buffers.
#pragma once

#include "device/base/status.h"
#include "device/interpreter/lane_program.h"

namespace nax {

// How much may be assumed about memory when loads are repeated or delayed.
enum class AliasRule : uint8_t {
  kDistinctArgs = 0,  // accesses of different arguments never overlap
  kAnyArg = 1,        // every store may be to what any load reads (in the same element only)
};

// kUnimplemented names what is missing. The nest must have passed the verifier.
StatusOr<LaneProgram> build_lanes(const Program& program, const Nest& nest, AliasRule rule);

}  // namespace nax
