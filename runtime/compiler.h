// The compiler tier as the runtime sees it: one function, or none in a build without it.
#pragma once

#include "device/base/status.h"
#include "device/interpreter/interpreter.h"

namespace nax {

// Compiles what it covers of the program's nests and attaches the kernels. `level`: 0 at once, 1 better code for programs
// that run often. `out_kernels`: how many. Any thread.
using CompileFunction = Status (*)(PreparedProgram& program, int level, int* out_kernels);

// Before the first compile on a thread of the runtime: see start_compiler in device/jit/jit.h.
void start_host_compiler();

// Null where the build has no compiler.
CompileFunction host_compiler();

}  // namespace nax
