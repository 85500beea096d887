#include "runtime/compiler.h"

#include "device/jit/jit.h"

namespace nax {

// What fails here fails again, and is reported, when a program is compiled.
void start_host_compiler() { (void)start_compiler(); }

CompileFunction host_compiler() {
  if (!jit_available()) return nullptr;
  return [](PreparedProgram& program, int level, int* out_kernels) -> Status {
    return compile_program(program, level, out_kernels);
  };
}

}  // namespace nax
