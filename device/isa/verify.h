// Static rules of engine programs: what must hold for every program before anything executes, times
// or stores it. Sizes are not known here; capacity and bounds with concrete slots are in
// device/targets/fit.h.
//
// A program that passes
//   * has every id in range, slots that refer to earlier slots only, and no value in a field that
//   its opcode does not use;
//   * reads a tile only after it was written, and a reduction's result only where it is complete
//   (`finish`, where the
//     reduced axis runs over several tiles);
//   * reduces only in orders whose value does not depend on tiles;
//   * agrees in operand shapes, lanes and engines with the opcode table.
// Thread: pure.
#pragma once

#include "device/base/status.h"
#include "device/isa/program.h"

namespace nax {

// kInvalidArgument / kVerifyFailed. The message names nest, instruction, what was found and what is
// allowed.
Status verify(const Program& program);

// The free axes of a nest are cut into tiles (one of them has a tile slot).
bool has_free_tiles(const Nest& nest);
// The partition axis of a nest, or kNone.
AxisId partition_axis(const Nest& nest);
// A reduction carries over the partition tiles: the nest has a carried partition axis.
bool carries_partition(const Nest& nest);

}  // namespace nax
