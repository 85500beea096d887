// Ops without a lowering: PyTorch's CPU kernel, at once, on the calling thread, on the device's memory.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/native/CPUFallback.h>

namespace nax::binding {

// Runs `op` on the CPU with the arguments on the stack, and leaves its results there as device tensors. In-place and out=
// results are written where they are; resized outputs are resized on the device; results that alias an argument alias it.
// Counted by op name; NAX_FALLBACK=warn says so once per op, NAX_FALLBACK=error forbids it.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The same, running another op with the same arguments in place of `op`.
void fallback_as(const c10::OperatorHandle& op, const c10::OperatorHandle& kernel,
                 torch::jit::Stack* stack);

// From an unboxed kernel: fall_back<ATEN_OP(relu)>(self).
template <class AtenOp, class... Args>
decltype(auto) fall_back(Args&&... args) {
  return at::native::call_fallback_fn_symint<&fallback, AtenOp>::call(std::forward<Args>(args)...);
}

}  // namespace nax::binding
