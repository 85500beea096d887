// The one place where statuses of the C API become exceptions, and with them Python types.
#pragma once

#include "nax/nax.h"

namespace nax::binding {

// Throws what `status` means to PyTorch and destroys it; returns for NULL.
//   HBM exhausted           torch.OutOfMemoryError
//   index out of range      IndexError
//   integer divide by zero  RuntimeError "ZeroDivisionError", as on the CPU
//   not supported           NotImplementedError
//   all else                RuntimeError
void check(nax_status* status);

// The same for functions of torch.neuron that take names and numbers: an invalid argument is a ValueError.
void check_argument(nax_status* status);

// For paths that must not throw.
inline void ignore(nax_status* status) { nax_status_destroy(status); }

// True if the core declined the op: it has no lowering, or its rules are narrower than PyTorch's, whose own checks the
// binding has run by then. Destroys the status. Other failures throw.
bool declined(nax_status* status);

}  // namespace nax::binding
