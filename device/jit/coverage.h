// What the compiler covers, and what its kernels ask of a launch. Pure functions of a lane program.
#pragma once

#include <vector>

#include "device/base/status.h"
#include "device/interpreter/lane_program.h"

namespace nax::jit {

// kUnimplemented, naming the first thing that is missing.
Status check_coverage(const LaneProgram& lanes);

// The stride classes a kernel is compiled for, one an access: a load that is constant along the row stays so, everything
// else lies dense.
std::vector<InnerStride> demanded_strides(const LaneProgram& lanes);

// Does the access have an element for each free element (and no virtual address)?
bool walks_along(const LaneAccess& access);

}  // namespace nax::jit
