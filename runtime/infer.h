// Shapes and dtypes of an op's outputs, for callers that have no framework to ask.
#pragma once

#include "device/base/status.h"
#include "nax/nax.h"

namespace nax {

// Fills cls, dtype, rank, sizes and contiguous strides of `count` outputs; nothing else, and nothing on failure. Ops whose
// shape is not a function of their inputs (fill, arange) take it from op.outputs. Buffers are not looked at. Any thread.
Status infer_op(const nax_op& op, nax_operand* out_outputs, uint32_t count);

}  // namespace nax
