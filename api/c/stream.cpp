#include "api/c/boundary.h"
#include "runtime/infer.h"
#include "runtime/op_name.h"

using namespace nax;
using namespace nax::c;

nax_stream* nax_runtime_default_stream(nax_runtime* runtime) {
  return runtime ? handle(&cast(runtime)->default_stream()) : nullptr;
}

nax_status* nax_stream_create(nax_runtime* runtime, int32_t priority, nax_stream** out_stream) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    NAX_C_REQUIRE(out_stream);
    NAX_RETURN_IF_ERROR(cast(runtime)->enter());
    *out_stream = handle(cast(runtime)->create_stream(priority));
    return {};
  });
}

void nax_stream_destroy(nax_stream* stream) {
  if (!stream || !cast(stream)->runtime().in_its_process()) return;
  if (cast(stream) == &cast(stream)->runtime().default_stream()) return;  // lent
  guard_void([&] { cast(stream)->close(); });
}

nax_status* nax_stream_synchronize(nax_stream* stream) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(stream);
    return cast(stream)->runtime().synchronize(*cast(stream));
  });
}

nax_status* nax_stream_flush(nax_stream* stream) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(stream);
    NAX_RETURN_IF_ERROR(cast(stream)->runtime().enter());
    cast(stream)->cut(CutReason::k_flush, HardwareQueue::Start::kNow);
    return {};
  });
}

int nax_stream_query(nax_stream* stream) {
  if (!stream) return 1;
  return guard_value(0, [&] {
    Runtime& runtime = cast(stream)->runtime();
    if (!runtime.enter().ok()) return 0;
    return runtime.queue().done(cast(stream)->cut(CutReason::k_query, HardwareQueue::Start::kNow)) ? 1 : 0;
  });
}

// ---- Events ---------------------------------------------------------------------------------------------------------

nax_status* nax_event_create(nax_runtime* runtime, nax_event** out_event) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    NAX_C_REQUIRE(out_event);
    *out_event = handle(new Event(*cast(runtime)));
    return {};
  });
}

void nax_event_destroy(nax_event* event) { delete cast(event); }

nax_status* nax_event_record(nax_event* event, nax_stream* stream) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(event);
    NAX_C_REQUIRE(stream);
    if (&cast(stream)->runtime() != &cast(event)->runtime())
      return invalid_argument("event and stream belong to different runtimes");
    return cast(event)->record(*cast(stream));
  });
}

nax_status* nax_stream_wait_event(nax_stream* stream, nax_event* event) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(stream);
    NAX_C_REQUIRE(event);
    if (&cast(stream)->runtime() != &cast(event)->runtime())
      return invalid_argument("event and stream belong to different runtimes");
    return cast(event)->block(*cast(stream));
  });
}

int nax_event_query(nax_event* event) { return !event || cast(event)->reached() ? 1 : 0; }

nax_status* nax_event_synchronize(nax_event* event) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(event);
    return cast(event)->synchronize();
  });
}

nax_status* nax_event_elapsed_ns(nax_event* start, nax_event* end, double* out_ns) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(start);
    NAX_C_REQUIRE(end);
    NAX_C_REQUIRE(out_ns);
    NAX_ASSIGN_OR_RETURN(*out_ns, cast(start)->elapsed_ns(*cast(end)));
    return {};
  });
}

// ---- Recording ------------------------------------------------------------------------------------------------------

nax_status* nax_stream_record(nax_stream* stream, const nax_op* op) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(stream);
    NAX_C_REQUIRE(op);
    if (op->struct_size < sizeof(nax_op))
      return invalid_argument("struct_size is " + std::to_string(op->struct_size) + "; it must be sizeof(nax_op)");
    return cast(stream)->record(*op);
  });
}

const char* nax_op_name(uint32_t id) { return op_name_or_null(id); }

nax_status* nax_op_infer(const nax_op* op, nax_operand* out_outputs, uint32_t output_count) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(op);
    NAX_C_REQUIRE(out_outputs);
    if (op->struct_size < sizeof(nax_op))
      return invalid_argument("struct_size is " + std::to_string(op->struct_size) + "; it must be sizeof(nax_op)");
    return infer_op(*op, out_outputs, output_count);
  });
}
