#include "nax/trace.h"

#include <vector>

#include "api/c/boundary.h"
#include "runtime/info.h"

using namespace nax;
using namespace nax::c;

namespace {

void tell_window(const nax_trace_options& options, const WindowReport& report) {
  std::vector<nax_trace_op> ops;
  std::vector<nax_trace_region> regions;
  for (const OpReport& op : report.ops)
    ops.push_back({sizeof(nax_trace_op), op.text.c_str(), op.origin.c_str(), op.reason.c_str(), op.sequence, op.region,
                   op.on_chip});
  for (const RegionReport& r : report.regions)
    regions.push_back({sizeof(nax_trace_region), r.prepared ? r.prepared->program().name.c_str() : "",
                       static_cast<uint32_t>(r.ops.size()), r.compiled, r.device_ns, r.bytes_together, r.bytes_apart});
  std::vector<const nax_trace_op*> op_rows;
  std::vector<const nax_trace_region*> region_rows;
  for (const auto& op : ops) op_rows.push_back(&op);
  for (const auto& region : regions) region_rows.push_back(&region);
  nax_trace_window window{};
  window.struct_size = sizeof window;
  window.number = report.number;
  window.stream = report.stream;
  window.dead_temporaries = report.dead_temporaries;
  window.cut = report.cut.c_str();
  window.policy = report.policy.c_str();
  window.rejected = report.rejected.c_str();
  window.op_count = static_cast<uint32_t>(ops.size());
  window.region_count = static_cast<uint32_t>(regions.size());
  window.ops = op_rows.data();
  window.regions = region_rows.data();
  options.on_window(options.user, &window);
}

void tell_fallback(const nax_trace_options& options, const FallbackReport& report) {
  const nax_trace_fallback fallback{sizeof(nax_trace_fallback), report.name.c_str(), report.origin.c_str(), report.stream,
                                    report.sequence};
  options.on_fallback(options.user, &fallback);
}

}  // namespace

nax_status* nax_runtime_set_trace(nax_runtime* runtime, const nax_trace_options* options) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    if (!options) return cast(runtime)->set_trace(nullptr, nullptr);
    if (options->struct_size < sizeof(nax_trace_options))
      return invalid_argument("struct_size is " + std::to_string(options->struct_size) + "; it must be sizeof(nax_trace_options)");
    if (!options->on_window && !options->on_fallback) return invalid_argument("a trace needs on_window or on_fallback");
    Tracer::WindowSink window;
    Tracer::FallbackSink fallback;
    if (options->on_window) window = [o = *options](const WindowReport& report) { tell_window(o, report); };
    if (options->on_fallback) fallback = [o = *options](const FallbackReport& report) { tell_fallback(o, report); };
    return cast(runtime)->set_trace(std::move(window), std::move(fallback));
  });
}

void nax_stream_count_fallback(nax_stream* stream, const char* op_name, uint64_t origin) {
  if (!stream || !op_name) return;
  guard_void([&] {
    Runtime& runtime = cast(stream)->runtime();
    runtime.stats().add_fallback(op_name);
    if (runtime.tracer().on()) runtime.tracer().fallback(*cast(stream), op_name, origin);
  });
}

nax_status* nax_runtime_visit_info(nax_runtime* runtime, nax_info_visitor visit, void* user) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    NAX_C_REQUIRE(visit);
    visit(user, "version", nax_version());
    visit(user, "abi", std::to_string(nax_abi_version()).c_str());
    visit_info(*cast(runtime), [&](const std::string& key, const std::string& text) { visit(user, key.c_str(), text.c_str()); });
    return {};
  });
}

nax_status* nax_program_describe_arg(const nax_program* program, uint32_t index, nax_program_arg* out_arg) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(program);
    NAX_C_REQUIRE(out_arg);
    if (out_arg->struct_size < sizeof(nax_program_arg))
      return invalid_argument("struct_size is " + std::to_string(out_arg->struct_size) + "; it must be sizeof(nax_program_arg)");
    uint32_t next = 0;
    for (const ArgDecl& decl : program->program->args) {
      if (decl.kind == ArgKind::kScratch || next++ != index) continue;
      out_arg->kind = static_cast<int32_t>(decl.kind);
      out_arg->dtype = static_cast<int32_t>(decl.dtype);
      out_arg->rank = decl.rank;
      out_arg->read = decl.read;
      out_arg->written = decl.written;
      return {};
    }
    return {StatusCode::kNotFound, "program " + program->program->name + " takes " + std::to_string(next) + " operands"};
  });
}
