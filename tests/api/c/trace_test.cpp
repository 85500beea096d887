// The C API for tools: traces, information, program arguments. Links libnax only.
#include "nax/trace.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

void ok(nax_status* status) {
  const std::string message = nax_status_message(status);
  INFO(message);
  const bool good = nax_status_code(status) == NAX_OK;
  nax_status_destroy(status);
  REQUIRE(good);
}

nax_code code_of(nax_status* status, std::string* message = nullptr) {
  const nax_code code = nax_status_code(status);
  if (message) *message = nax_status_message(status);
  nax_status_destroy(status);
  return code;
}

nax_runtime* make_runtime() {
  nax_runtime_options o{};
  o.struct_size = sizeof o;
  o.abi_version = NAX_ABI_VERSION;
  o.mode = NAX_MODE_ADAPTIVE;
  o.tier = "interpret";
  o.target = "trn1";
  o.cache_dir = "";
  o.dump_dir = "";
  o.hbm_bytes = 64 << 20;
  nax_runtime* runtime = nullptr;
  ok(nax_runtime_create(&o, &runtime));
  return runtime;
}

struct Seen {
  std::vector<std::string> ops, programs, fallbacks;
  uint32_t on_chip = 0;
  double device_ns = 0;
};

void on_window(void* user, const nax_trace_window* window) {
  auto* seen = static_cast<Seen*>(user);
  CHECK(window->struct_size == sizeof(nax_trace_window));
  for (uint32_t i = 0; i < window->op_count; ++i) {
    seen->ops.push_back(window->ops[i]->text);
    seen->on_chip += static_cast<uint32_t>(window->ops[i]->on_chip);
  }
  for (uint32_t i = 0; i < window->region_count; ++i) {
    seen->programs.push_back(window->regions[i]->program);
    seen->device_ns += window->regions[i]->device_ns;
  }
}

void on_fallback(void* user, const nax_trace_fallback* fallback) {
  static_cast<Seen*>(user)->fallbacks.push_back(std::string(fallback->name) + " at " + std::to_string(fallback->sequence));
}

constexpr char kDouble[] =
    "program twice {\n  arg x: view f32 rank 1 read\n  arg s: scalar f32\n  arg y: view f32 rank 1 write\n  nest {\n"
    "    partition r: 1\n    free c: size(x, 0) tile 512\n    tile t: f32 [r, c]\n    t = dma_copy(x[c * stride(x, 0)])\n"
    "    t = tensor_scalar multiply(t, s)\n    y[c * stride(y, 0)] = dma_copy(t)\n  }\n}\n";

nax_operand vector_of(nax_buffer* buffer, int64_t n) {
  nax_operand o{};
  o.cls = NAX_TENSOR;
  o.dtype = NAX_F32;
  o.buffer = buffer;
  o.rank = 1;
  o.sizes[0] = n;
  o.strides[0] = 1;
  return o;
}

TEST_CASE("a trace tells windows, launches and fallbacks, until it ends") {
  nax_runtime* runtime = make_runtime();
  nax_stream* stream = nax_runtime_default_stream(runtime);
  Seen seen;
  nax_trace_options options{sizeof options, on_window, on_fallback, &seen};
  ok(nax_runtime_set_trace(runtime, &options));

  nax_buffer *x = nullptr, *t = nullptr, *y = nullptr;
  for (nax_buffer** b : {&x, &t, &y}) ok(nax_buffer_create(runtime, stream, 16, b));
  const float data[4] = {1, -2, 3, -4};
  ok(nax_buffer_write(stream, x, 0, data, sizeof data));
  const auto record = [&](nax_op_id id, nax_operand in, nax_operand out) {
    nax_op op{};
    op.struct_size = sizeof op;
    op.id = id;
    op.inputs = &in;
    op.outputs = &out;
    op.input_count = op.output_count = 1;
    ok(nax_stream_record(stream, &op));
  };
  record(NAX_OP_NEG, vector_of(x, 4), vector_of(t, 4));
  record(NAX_OP_RELU, vector_of(t, 4), vector_of(y, 4));
  nax_buffer_release(t);
  nax_stream_count_fallback(stream, "aten::sort", 0);
  ok(nax_runtime_synchronize(runtime));
  CHECK(seen.ops == std::vector<std::string>{"neg(f32[4]) -> f32[4]", "relu(f32[4]) -> f32[4]"});
  CHECK(seen.programs.size() == 1);
  CHECK(seen.on_chip == 1);
  CHECK(seen.device_ns > 0);
  CHECK(seen.fallbacks == std::vector<std::string>{"aten::sort at 2"});

  nax_program* program = nullptr;
  ok(nax_program_parse(kDouble, std::strlen(kDouble), &program));
  nax_operand operands[3] = {vector_of(x, 4), {}, vector_of(y, 4)};
  operands[1].cls = NAX_SCALAR;
  operands[1].scalar.value.f64 = 2;
  ok(nax_stream_launch(stream, program, operands, 3));
  ok(nax_runtime_set_trace(runtime, nullptr));
  REQUIRE(seen.programs.size() == 2);
  CHECK(seen.programs[1] == "twice");
  ok(nax_stream_launch(stream, program, operands, 3));
  ok(nax_runtime_synchronize(runtime));
  CHECK(seen.programs.size() == 2);
  float out[4];
  ok(nax_buffer_read(stream, y, 0, out, sizeof out));
  CHECK(out[2] == 6);

  std::string message;
  options.struct_size = 4;
  CHECK(code_of(nax_runtime_set_trace(runtime, &options), &message) == NAX_INVALID_ARGUMENT);
  CHECK(message.find("struct_size") != std::string::npos);
  nax_trace_options empty{sizeof empty, nullptr, nullptr, nullptr};
  CHECK(code_of(nax_runtime_set_trace(runtime, &empty)) == NAX_INVALID_ARGUMENT);
  CHECK(code_of(nax_runtime_set_trace(nullptr, nullptr)) == NAX_INVALID_ARGUMENT);
  nax_stream_count_fallback(nullptr, "x", 0);
  nax_program_destroy(program);
  nax_buffer_release(x);
  nax_buffer_release(y);
  nax_runtime_destroy(runtime);
}

TEST_CASE("information names the build, the host and the settings in force") {
  nax_runtime* runtime = make_runtime();
  std::map<std::string, std::string> info;
  ok(nax_runtime_visit_info(
      runtime, [](void* user, const char* key, const char* text) { (*static_cast<decltype(info)*>(user))[key] = text; }, &info));
  CHECK(info["version"] == nax_version());
  CHECK(info["abi"] == std::to_string(NAX_ABI_VERSION));
  CHECK(info["build"].find("targets") != std::string::npos);
  CHECK(info["setting.NAX_TARGET"] == "trn1");
  CHECK(info["setting.NAX_TIER"] == "interpret");
  CHECK(info["setting.NAX_HBM_BYTES"] == std::to_string(64 << 20));
  CHECK(info["cache.kept"] == "in memory only");
  CHECK(info["target.trn2.sbuf_partition_bytes"] == "212984");
  CHECK(info.count("host.isa") == 1);
  nax_runtime_destroy(runtime);
}

TEST_CASE("a program describes its arguments") {
  nax_program* program = nullptr;
  ok(nax_program_parse(kDouble, std::strlen(kDouble), &program));
  nax_program_arg arg{};
  arg.struct_size = sizeof arg;
  ok(nax_program_describe_arg(program, 0, &arg));
  CHECK(arg.kind == NAX_ARG_VIEW);
  CHECK(arg.dtype == NAX_F32);
  CHECK(arg.rank == 1);
  CHECK(arg.read == 1);
  CHECK(arg.written == 0);
  ok(nax_program_describe_arg(program, 1, &arg));
  CHECK(arg.kind == NAX_ARG_SCALAR);
  ok(nax_program_describe_arg(program, 2, &arg));
  CHECK(arg.written == 1);
  CHECK(code_of(nax_program_describe_arg(program, 3, &arg)) == NAX_NOT_FOUND);
  arg.struct_size = 1;
  CHECK(code_of(nax_program_describe_arg(program, 0, &arg)) == NAX_INVALID_ARGUMENT);
  nax_program_destroy(program);
}

}  // namespace
