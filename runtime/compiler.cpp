#include "runtime/compiler.h"

#if NAX_HAS_JIT && __has_include("device/jit/jit.h")
#include "device/jit/jit.h"
#define NAX_COMPILER 1
#endif

namespace nax {

CompileFunction host_compiler() {
#ifdef NAX_COMPILER
  return [](PreparedProgram& program, int* out_kernels) -> Status { return compile_program(program, out_kernels); };
#else
  return nullptr;
#endif
}

}  // namespace nax
