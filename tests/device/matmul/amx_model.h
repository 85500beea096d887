// device/matmul's AMX kernels over tile registers made of memory: what the instructions do, written
// down from their definition in Intel's Software Developer's Manual.
#pragma once

#include "device/matmul/kernel_table.h"

namespace nax::test {

// Needs AVX-512 (packing), no AMX.
const matmul_detail::TypeKernels& amx_model_bf16_dot();

}  // namespace nax::test
