// The public header in a build without the compiler tier.
#include "device/jit/jit.h"

namespace nax {

bool jit_available() { return false; }

Status start_compiler() { return {}; }

StatusOr<std::shared_ptr<const CompiledKernel>> compile_lanes(const LaneProgram&, const JitOptions&) {
  return unimplemented("this build has no JIT (NAX_BUILD_JIT=OFF); programs are interpreted");
}

Status compile_program(PreparedProgram&, int, int* out_kernels) {
  *out_kernels = 0;
  return unimplemented("this build has no JIT (NAX_BUILD_JIT=OFF); programs are interpreted");
}
Status compile_program(PreparedProgram& program, int* out_kernels) { return compile_program(program, 1, out_kernels); }

std::string program_ir(const PreparedProgram&) { return "; this build has no JIT (NAX_BUILD_JIT=OFF)\n"; }

JitStats jit_stats() { return {}; }

}  // namespace nax
