// What can be said about a verified program once its slots have values: does it fit the target's
// memories, does it keep the reduction orders, does every access stay inside its buffer. Pure;
// costs a walk over the program.
#pragma once

#include <cstdint>

#include "device/base/status.h"
#include "device/isa/program.h"
#include "device/targets/target.h"

namespace nax {

// Longest axis of a nest that runs. No buffer is that long; a typo, or slot arithmetic that has
// saturated, would start a loop without an end.
inline constexpr int64_t kMaxExtent = (int64_t{1} << 40) - 1;

// Extents, SBUF bytes a partition of the tiles that live at once, PSUM banks, tile sizes, lengths of
// reductions, split axes. kInvalidArgument / kVerifyFailed; names the nest, the numbers and the
// tiles.
Status check_fit(const Program& program, const int64_t* slots, const TargetInfo& target);

// The part of an argument's buffer that its view may touch.
struct ArgBounds {
  int64_t offset_bytes = 0;  // ArgValue::offset_bytes
  int64_t buffer_bytes = 0;
};

// Every access of every nest lies inside its buffer, at every point of the loops. `bounds` has one
// entry an argument; those of scalars and seeds are not looked at, scratch is as long as it says.
// Indirect accesses count with every legal index. kOutOfRange / kVerifyFailed.
Status check_bounds(const Program& program, const int64_t* slots, const ArgBounds* bounds);

}  // namespace nax
