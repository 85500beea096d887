// Machine code of kernels: IR -> object -> linked memory, and back to nothing when the last user lets go of it.
//
// ORC's layers are used directly, without LLJIT: no process symbols are searched (generated code sees exactly the names it
// is given, in any process and under any visibility), no platform, no static constructors, no unwind tables.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/base/host_isa.h"
#include "device/base/status.h"
#include "device/jit/lane_ir.h"

namespace nax::jit {

// Thread-safe: compiles run at the same time on any threads, each with a context and a target machine of its own.
class CodeEngine {
 public:
  // One per process, never destroyed: kernels may outlive every static.
  static StatusOr<CodeEngine*> instance();

  struct Code {
    void* entry = nullptr;
    std::shared_ptr<void> memory;  // the machine code is unmapped with the last copy
  };
  // Takes a verified module and the symbols it calls; `entry` names its function. `level` is LLVM's code generation level
  // (0-3).
  StatusOr<Code> compile(std::unique_ptr<llvm::Module> module, const SymbolMap& symbols, const std::string& entry, HostIsa isa,
                         int level);

  // How many pieces of code are mapped.
  int64_t live() const;

  struct Session;

 private:
  explicit CodeEngine(std::unique_ptr<Session> session);
  ~CodeEngine();
  std::unique_ptr<Session> session_;
};

// A name no other kernel of this process has.
std::string unique_name();

}  // namespace nax::jit
