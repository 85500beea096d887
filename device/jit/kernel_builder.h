// A LaneProgram as one LLVM function with the RowRunFn signature: for each row, each stage is one loop over groups of 16
// elements with all values in registers. The last, partial group runs through the same loop body on stack buffers.
#pragma once

#include <vector>

#include "device/base/status.h"
#include "device/interpreter/lane_program.h"
#include "device/jit/lane_ir.h"

namespace llvm {
class Module;
}

namespace nax::jit {

// kUnimplemented, naming what is missing, where the program holds something the compiler does not cover. The function is
// called `name`; `symbols` receives what it calls; `inner` the stride classes it demands.
Status build_kernel(const LaneProgram& lanes, HostIsa isa, const std::string& name, llvm::Module& module, SymbolMap& symbols,
                    std::vector<InnerStride>& inner);

}  // namespace nax::jit
