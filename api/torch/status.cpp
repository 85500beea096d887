#include "api/torch/status.h"

#include <c10/util/Exception.h>

#include <string>

#include "api/torch/gil.h"

namespace nax::binding {
namespace {

[[noreturn]] void raise(nax_status* status, bool argument) {
  const nax_code code = nax_status_code(status);
  const nax_reason reason = nax_status_reason(status);
  const std::string message = nax_status_message(status);
  nax_status_destroy(status);
  if (code == NAX_CANCELLED) raise_interrupt();
  if (reason == NAX_REASON_HBM_EXHAUSTED) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "neuron out of memory. ", message);
  }
  if (reason == NAX_REASON_INDEX_OUT_OF_RANGE) TORCH_CHECK_INDEX(false, message);
  if (reason == NAX_REASON_INTEGER_DIVIDE_BY_ZERO) {
    TORCH_CHECK(false, "ZeroDivisionError: ", message);
  }
  if (code == NAX_UNIMPLEMENTED) TORCH_CHECK_NOT_IMPLEMENTED(false, message);
  if (argument && (code == NAX_INVALID_ARGUMENT || code == NAX_NOT_FOUND)) {
    TORCH_CHECK_VALUE(false, message);
  }
  TORCH_CHECK(false, message);
}

}  // namespace

void check(nax_status* status) {
  if (status != nullptr) raise(status, false);
}

void check_argument(nax_status* status) {
  if (status != nullptr) raise(status, true);
}

bool declined(nax_status* status) {
  if (status == nullptr) return false;
  const nax_code code = nax_status_code(status);
  // An op that ran and failed (launch blocking) was not declined.
  const bool ran = nax_status_reason(status) == NAX_REASON_INTEGER_DIVIDE_BY_ZERO;
  if (ran || (code != NAX_UNIMPLEMENTED && code != NAX_INVALID_ARGUMENT)) raise(status, false);
  nax_status_destroy(status);
  return true;
}

}  // namespace nax::binding
