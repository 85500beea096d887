// Tier 1: compiles prepared nests to machine code with the interpreter's bits, by the same scalar functions (DESIGN §7).
// The only header of this folder for other folders. In builds without the JIT, compile functions return kUnimplemented.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/base/host_isa.h"
#include "device/base/status.h"
#include "device/interpreter/interpreter.h"

namespace nax {

struct JitOptions {
  HostIsa isa = HostIsa::kAvx2;
  // LLVM's code generation level. 0 compiles in 1-2 ms, but values that cross a loop's blocks live in memory there: row
  // reductions are slower than strips. 1 takes 4-10 ms and gives what 2 gives.
  int level = 1;
};

bool jit_available();

// Makes all of the compiler's own statics, by one small compile per process (some 10 ms; later calls return at once). An exit
// handler that is registered after it runs before they are destroyed. Any thread.
Status start_compiler();

// Compiles one lane program. kUnimplemented, naming what is missing, for what is not covered; the interpreter runs that.
// Any thread, any number at the same time.
StatusOr<std::shared_ptr<const CompiledKernel>> compile_lanes(const LaneProgram& lanes, const JitOptions& options);

// Compiles what is covered of the program's nests and gains by it, for the process's ISA, and attaches the kernels.
// level 0: for at once; nests for which quick code is no faster than strips get level 1 right away. level 1 (the default):
// for programs that run often; kernels of that level are kept. *out_kernels: how many nests have a kernel of the level
// asked for, or better. Ok with 0 where nothing is covered; a bad status means that a covered nest failed. Any thread.
Status compile_program(PreparedProgram& program, int* out_kernels);
Status compile_program(PreparedProgram& program, int level, int* out_kernels);

// What the compiler makes of the program, for dumps: for each nest its LLVM IR as it goes to code generation at level 1, or a
// comment that says why strips run it. Compiles nothing, and depends on the program and the ISA alone. Any thread.
std::string program_ir(const PreparedProgram& program);

// Counts since the process began.
struct JitStats {
  int64_t compiled = 0;       // kernels
  int64_t uncovered = 0;      // nests left to the interpreter
  int64_t failed = 0;
  int64_t live = 0;           // kernels whose code is mapped now
  int64_t nanoseconds = 0;    // spent compiling
};
JitStats jit_stats();

}  // namespace nax
