// The edge between C and C++: handles, statuses, and the rule that no exception crosses.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "device/base/status.h"
#include "device/isa/program.h"
#include "nax/nax.h"
#include "runtime/buffer.h"
#include "runtime/event.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

struct nax_status {
  nax::Status status;
  std::string message;  // NUL-terminated copy
};

struct nax_program {
  std::shared_ptr<const nax::Program> program;
  std::string key;  // canonical text: equal programs share what is prepared
};

namespace nax::c {

// Handles are the objects themselves.
inline Runtime* cast(nax_runtime* p) { return reinterpret_cast<Runtime*>(p); }
inline Stream* cast(nax_stream* p) { return reinterpret_cast<Stream*>(p); }
inline Event* cast(nax_event* p) { return reinterpret_cast<Event*>(p); }
inline Buffer* cast(nax_buffer* p) { return reinterpret_cast<Buffer*>(p); }
inline const Buffer* cast(const nax_buffer* p) { return reinterpret_cast<const Buffer*>(p); }
inline nax_runtime* handle(Runtime* p) { return reinterpret_cast<nax_runtime*>(p); }
inline nax_stream* handle(Stream* p) { return reinterpret_cast<nax_stream*>(p); }
inline nax_event* handle(Event* p) { return reinterpret_cast<nax_event*>(p); }
inline nax_buffer* handle(Buffer* p) { return reinterpret_cast<nax_buffer*>(p); }

// NULL for ok. Where not even the status can be allocated, a static one is returned; destroying it does nothing.
nax_status* give(Status status) noexcept;

inline Status null_argument(const char* name) { return invalid_argument(std::string(name) + " is NULL"); }

// Runs a body that returns a Status; what it throws becomes one.
template <class Body>
nax_status* guard(Body&& body) noexcept {
  try {
    return give(std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    return give({StatusCode::kResourceExhausted, "the host is out of memory"});
  } catch (const std::exception& e) {
    return give(internal_error(e.what()));
  } catch (...) {
    return give(internal_error("unknown exception"));
  }
}

// For functions without a status: what is thrown leaves the result at its default.
template <class Result, class Body>
Result guard_value(Result fallback, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return fallback;
  }
}

template <class Body>
void guard_void(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
  } catch (...) {
  }
}

#define NAX_C_REQUIRE(pointer) \
  if (!(pointer)) return ::nax::c::null_argument(#pointer)

}  // namespace nax::c
