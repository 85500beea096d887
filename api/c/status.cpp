#include "api/c/boundary.h"

namespace nax::c {
namespace {

nax_status* out_of_memory() {
  static nax_status status{Status(), "the host is out of memory"};  // its code is answered below
  return &status;
}

}  // namespace

nax_status* give(Status status) noexcept {
  if (status.ok()) return nullptr;
  try {
    std::string message(status.message());
    return new nax_status{std::move(status), std::move(message)};
  } catch (...) {
    return out_of_memory();
  }
}

}  // namespace nax::c

using nax::c::out_of_memory;

nax_code nax_status_code(const nax_status* status) {
  if (!status) return NAX_OK;
  if (status == out_of_memory()) return NAX_RESOURCE_EXHAUSTED;
  return static_cast<nax_code>(status->status.code());
}

nax_reason nax_status_reason(const nax_status* status) {
  return status ? static_cast<nax_reason>(status->status.reason()) : NAX_REASON_NONE;
}

const char* nax_status_message(const nax_status* status) { return status ? status->message.c_str() : ""; }

void nax_status_destroy(nax_status* status) {
  if (status && status != out_of_memory()) delete status;
}

const char* nax_version(void) { return "0.1.0"; }
uint32_t nax_abi_version(void) { return NAX_ABI_VERSION; }
