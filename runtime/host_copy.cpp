#include "runtime/host_copy.h"

#include <cstring>

#include "runtime/buffer.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

namespace nax {

bool copy_to_buffer(Buffer& buffer, uint64_t offset, const void* source, uint64_t bytes) {
  StatusOr<void*> host = buffer.host();
  if (!host.ok()) return false;
  std::memcpy(static_cast<char*>(*host) + offset, source, bytes);
  if (offset == 0 && bytes == buffer.bytes()) buffer.set_poison(nullptr);
  return true;
}

HostCopy::HostCopy(Buffer& buffer, uint64_t offset, const void* source, uint64_t size)
    : buffer_(buffer), offset_(offset), bytes_(size), snapshot_(new char[size]) {
  std::memcpy(snapshot_.get(), source, size);
  bytes = size;
  buffer_.ref();
}

void HostCopy::run() {
  if (!copy_to_buffer(buffer_, offset_, snapshot_.get(), bytes_)) {
    auto error = std::make_shared<ErrorRecord>();
    error->code = StatusCode::kResourceExhausted;
    error->reason = ErrorReason::kHbmExhausted;
    error->what = "the host has no memory for the buffer";
    error->operation = "copy of " + std::to_string(bytes_) + " bytes from the host";
    error->stream = buffer_.owner().id();
    buffer_.set_poison(error);
    buffer_.runtime().errors().add(error);
  }
  buffer_.unref();
  delete this;
}

}  // namespace nax
