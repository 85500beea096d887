// Whether a strided view lies inside its buffer.
#pragma once

#include <cstdint>

#include "device/base/status.h"
#include "nax/nax.h"

namespace nax {

// Sizes must not be negative; with `written`, no element may be repeated by a stride of 0. Any numbers are allowed: sums
// that overflow are outside. Gives the number of elements.
Status check_view_bounds(const nax_operand& view, uint64_t buffer_bytes, bool written, int64_t* out_elements);

}  // namespace nax
