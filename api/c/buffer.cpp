#include "api/c/boundary.h"

using namespace nax;
using namespace nax::c;

nax_status* nax_buffer_create(nax_runtime* runtime, nax_stream* stream, uint64_t bytes, nax_buffer** out_buffer) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    NAX_C_REQUIRE(out_buffer);
    if (stream && &cast(stream)->runtime() != cast(runtime))
      return invalid_argument("the stream belongs to another runtime");
    NAX_ASSIGN_OR_RETURN(Buffer * buffer, cast(runtime)->create_buffer(cast(stream), bytes));
    *out_buffer = handle(buffer);
    return {};
  });
}

void nax_buffer_release(nax_buffer* buffer) {
  if (buffer) guard_void([&] { cast(buffer)->release_handle(); });
}

void* nax_buffer_address(const nax_buffer* buffer) {
  return buffer ? reinterpret_cast<void*>(cast(buffer)->address()) : nullptr;
}

uint64_t nax_buffer_bytes(const nax_buffer* buffer) { return buffer ? cast(buffer)->bytes() : 0; }

nax_buffer* nax_runtime_find_buffer(nax_runtime* runtime, const void* address) {
  if (!runtime || !address) return nullptr;
  return guard_value<nax_buffer*>(nullptr, [&] {
    return handle(cast(runtime)->find_buffer(reinterpret_cast<uintptr_t>(address)));
  });
}

nax_status* nax_buffer_map(nax_buffer* buffer, int for_write, void** out_host) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(buffer);
    NAX_C_REQUIRE(out_host);
    void* host = nullptr;
    NAX_RETURN_IF_ERROR(cast(buffer)->runtime().map(*cast(buffer), for_write != 0, &host));
    *out_host = host;
    return {};
  });
}

nax_status* nax_buffer_write(nax_stream* stream, nax_buffer* buffer, uint64_t offset_bytes, const void* source, uint64_t bytes) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(buffer);
    if (bytes) NAX_C_REQUIRE(source);
    Runtime& runtime = cast(buffer)->runtime();
    Stream& s = stream ? *cast(stream) : runtime.default_stream();
    if (&s.runtime() != &runtime) return invalid_argument("the stream belongs to another runtime than the buffer");
    return runtime.write(s, *cast(buffer), offset_bytes, source, bytes);
  });
}

nax_status* nax_buffer_read(nax_stream* stream, nax_buffer* buffer, uint64_t offset_bytes, void* target, uint64_t bytes) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(buffer);
    if (bytes) NAX_C_REQUIRE(target);
    Runtime& runtime = cast(buffer)->runtime();
    Stream& s = stream ? *cast(stream) : runtime.default_stream();
    if (&s.runtime() != &runtime) return invalid_argument("the stream belongs to another runtime than the buffer");
    return runtime.read(s, *cast(buffer), offset_bytes, target, bytes);
  });
}

void nax_buffer_clear_error(nax_buffer* buffer) {
  if (buffer) guard_void([&] { cast(buffer)->set_poison(nullptr); });
}

void nax_buffer_record_stream(nax_buffer* buffer, nax_stream* stream) {
  // Recorded work holds references on its buffers, whatever stream it is on, and memory is given out again only in queue
  // order: nothing is left to do.
  (void)buffer;
  (void)stream;
}
