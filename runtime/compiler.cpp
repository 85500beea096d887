#include "runtime/compiler.h"

#include "device/jit/jit.h"

namespace nax {

CompileFunction host_compiler() {
  if (!jit_available()) return nullptr;
  return [](PreparedProgram& program, int level, int* out_kernels) -> Status {
    return compile_program(program, level, out_kernels);
  };
}

}  // namespace nax
