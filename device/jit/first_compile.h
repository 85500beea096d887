// LLVM makes many of its tables when the first module is compiled, as statics of functions. What a static of a function holds
// is destroyed before any exit handler that was registered earlier, so a handler that waits for compiles must be registered
// after a whole compile has run.
#pragma once

#include "device/base/host_isa.h"
#include "device/base/status.h"

namespace nax::jit {

// Compiles a small function of all lane types at both levels in use, once per process; later calls return at once. Waits
// while another thread does it. Thread-safe.
Status compile_once(HostIsa isa);

}  // namespace nax::jit
