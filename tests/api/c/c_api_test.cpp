// The C API from outside: statuses, bad arguments, ownership, hooks, statistics, engine programs. Links libnax only.
#include "nax/nax.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

struct Failure {
  nax_code code = NAX_OK;
  nax_reason reason = NAX_REASON_NONE;
  std::string message;
};

Failure take(nax_status* status) {
  Failure f{nax_status_code(status), nax_status_reason(status), nax_status_message(status)};
  nax_status_destroy(status);
  return f;
}
void ok(nax_status* status) {
  const Failure f = take(status);
  INFO(f.message);
  REQUIRE(f.code == NAX_OK);
}
void refused(nax_status* status, nax_code code, const char* part) {
  const Failure f = take(status);
  INFO(f.message);
  CHECK(f.code == code);
  CHECK(f.message.find(part) != std::string::npos);
}

nax_runtime_options quiet() {
  nax_runtime_options o{};
  o.struct_size = sizeof o;
  o.abi_version = NAX_ABI_VERSION;
  o.mode = NAX_MODE_ADAPTIVE;
  o.tier = "interpret";
  o.cache_dir = "";
  o.hbm_bytes = 64 << 20;
  return o;
}

struct Device {
  explicit Device(nax_runtime_options o = quiet()) {
    ok(nax_runtime_create(&o, &runtime));
    stream = nax_runtime_default_stream(runtime);
  }
  ~Device() { nax_runtime_destroy(runtime); }
  nax_operand tensor(std::vector<int64_t> sizes, const std::vector<float>& values = {}) {
    nax_operand t{};
    t.cls = NAX_TENSOR;
    t.dtype = NAX_F32;
    t.rank = static_cast<int32_t>(sizes.size());
    int64_t step = 1;
    for (int d = t.rank - 1; d >= 0; --d) {
      t.sizes[d] = sizes[static_cast<size_t>(d)];
      t.strides[d] = step;
      step *= t.sizes[d];
    }
    ok(nax_buffer_create(runtime, stream, static_cast<uint64_t>(step) * 4, &t.buffer));
    if (!values.empty()) ok(nax_buffer_write(stream, t.buffer, 0, values.data(), values.size() * 4));
    return t;
  }
  nax_status* record(nax_op_id id, std::vector<nax_operand> inputs, nax_operand output, std::vector<int64_t> attrs = {}) {
    nax_op op{};
    op.struct_size = sizeof op;
    op.id = id;
    op.inputs = inputs.data();
    op.input_count = static_cast<uint32_t>(inputs.size());
    op.outputs = &output;
    op.output_count = 1;
    op.attrs = attrs.data();
    op.attr_count = static_cast<uint32_t>(attrs.size());
    return nax_stream_record(stream, &op);
  }
  std::vector<float> read(const nax_operand& t, size_t count) {
    std::vector<float> out(count);
    ok(nax_buffer_read(stream, t.buffer, 0, out.data(), count * 4));
    return out;
  }
  std::map<std::string, double> stats() {
    std::map<std::string, double> all;
    ok(nax_runtime_visit_stats(
        runtime, [](void* user, const char* key, double value) { (*static_cast<std::map<std::string, double>*>(user))[key] = value; },
        &all));
    return all;
  }
  nax_runtime* runtime = nullptr;
  nax_stream* stream = nullptr;
};

nax_operand scalar(double value) {
  nax_operand s{};
  s.cls = NAX_SCALAR;
  s.scalar.value.f64 = value;
  return s;
}

TEST_CASE("versions and NULL statuses") {
  CHECK(std::string(nax_version()) == "0.1.0");
  CHECK(nax_abi_version() == NAX_ABI_VERSION);
  CHECK(nax_status_code(nullptr) == NAX_OK);
  CHECK(nax_status_reason(nullptr) == NAX_REASON_NONE);
  CHECK(std::string(nax_status_message(nullptr)).empty());
  nax_status_destroy(nullptr);
  nax_runtime_destroy(nullptr);
  nax_buffer_release(nullptr);
  nax_stream_destroy(nullptr);
  nax_event_destroy(nullptr);
  nax_program_destroy(nullptr);
}

TEST_CASE("options that are wrong say what is allowed") {
  nax_runtime* runtime = reinterpret_cast<nax_runtime*>(1);
  const auto fails = [&](nax_runtime_options o, nax_code code, const char* part) {
    refused(nax_runtime_create(&o, &runtime), code, part);
    CHECK(runtime == reinterpret_cast<nax_runtime*>(1));  // untouched
  };
  nax_runtime_options o = quiet();
  o.struct_size = 4;
  fails(o, NAX_INVALID_ARGUMENT, "struct_size");
  o = quiet();
  o.abi_version = 77;
  fails(o, NAX_FAILED_PRECONDITION, "77");
  o = quiet();
  o.mode = static_cast<nax_mode>(9);
  fails(o, NAX_INVALID_ARGUMENT, "NAX_MODE_ADAPTIVE");
  o = quiet();
  o.fusion_policy = "fastest";
  fails(o, NAX_INVALID_ARGUMENT, "greedy");
  o = quiet();
  o.target = "h100";
  fails(o, NAX_INVALID_ARGUMENT, "trn2");
  o = quiet();
  o.tier = "warp";
  fails(o, NAX_INVALID_ARGUMENT, "interpret");
  o = quiet();
  o.host_isa = "sse";
  fails(o, NAX_INVALID_ARGUMENT, "avx2");
  o = quiet();
  o.num_threads = -3;
  fails(o, NAX_INVALID_ARGUMENT, "1024");
  refused(nax_runtime_create(nullptr, nullptr), NAX_INVALID_ARGUMENT, "out_runtime is NULL");
}

TEST_CASE("NULL arguments are refused by name") {
  Device d;
  nax_buffer* buffer = nullptr;
  refused(nax_buffer_create(nullptr, nullptr, 4, &buffer), NAX_INVALID_ARGUMENT, "runtime is NULL");
  refused(nax_buffer_create(d.runtime, nullptr, 4, nullptr), NAX_INVALID_ARGUMENT, "out_buffer is NULL");
  refused(nax_stream_record(d.stream, nullptr), NAX_INVALID_ARGUMENT, "op is NULL");
  refused(nax_stream_record(nullptr, nullptr), NAX_INVALID_ARGUMENT, "stream is NULL");
  refused(nax_runtime_synchronize(nullptr), NAX_INVALID_ARGUMENT, "runtime is NULL");
  refused(nax_program_parse(nullptr, 3, nullptr), NAX_INVALID_ARGUMENT, "text is NULL");
  refused(nax_runtime_set_fusion_policy(d.runtime, "nothing"), NAX_INVALID_ARGUMENT, "strict");
  refused(nax_runtime_set_mode(d.runtime, NAX_MODE_DEFAULT), NAX_INVALID_ARGUMENT, "NAX_MODE_EAGER");
  refused(nax_runtime_set_num_threads(d.runtime, 0), NAX_INVALID_ARGUMENT, "threads");
  nax_op op{};
  refused(nax_stream_record(d.stream, &op), NAX_INVALID_ARGUMENT, "struct_size");
  nax_memory_info info{};
  refused(nax_runtime_memory_info(d.runtime, &info), NAX_INVALID_ARGUMENT, "struct_size");
  CHECK(nax_op_name(NAX_OP_ADD) == std::string("add"));
  CHECK(nax_op_name(12345) == nullptr);
}

TEST_CASE("record, read, modes, policies, buffers by address") {
  Device d;
  CHECK(nax_runtime_mode(d.runtime) == NAX_MODE_ADAPTIVE);
  CHECK(nax_runtime_fusion_policy(d.runtime) == std::string("adaptive"));
  const nax_operand a = d.tensor({3}, {1, 2, 3}), b = d.tensor({3});
  ok(d.record(NAX_OP_MUL, {a, scalar(2)}, b));
  CHECK(d.read(b, 3) == std::vector<float>{2, 4, 6});
  ok(nax_runtime_set_fusion_policy(d.runtime, "strict"));
  ok(d.record(NAX_OP_MUL, {b, b}, b));
  ok(nax_runtime_set_mode(d.runtime, NAX_MODE_EAGER));
  ok(d.record(NAX_OP_NEG, {b}, b));
  CHECK(d.read(b, 3) == std::vector<float>{-4, -16, -36});
  auto* address = static_cast<char*>(nax_buffer_address(b.buffer));
  CHECK(nax_buffer_bytes(b.buffer) == 12);
  CHECK(nax_runtime_find_buffer(d.runtime, address + 8) == b.buffer);
  CHECK(nax_runtime_find_buffer(d.runtime, &d) == nullptr);
  void* host = nullptr;
  ok(nax_buffer_map(b.buffer, 1, &host));
  static_cast<float*>(host)[0] = 5;
  CHECK(d.read(b, 3) == std::vector<float>{5, -16, -36});
  float word = 0;
  refused(nax_buffer_read(d.stream, b.buffer, 9, &word, 4), NAX_INVALID_ARGUMENT, "outside the buffer of 12 bytes");
  refused(nax_buffer_write(d.stream, b.buffer, UINT64_MAX, &word, 4), NAX_INVALID_ARGUMENT, "outside");
  nax_buffer_release(a.buffer);
  nax_buffer_release(b.buffer);
  CHECK(nax_runtime_find_buffer(d.runtime, address) == nullptr);
  nax_memory_info info{};
  info.struct_size = sizeof info;
  ok(nax_runtime_memory_info(d.runtime, &info));
  CHECK(info.charged_bytes == 0);
  CHECK(info.allocations == 2);
  CHECK(info.capacity_bytes == 64 << 20);
}

TEST_CASE("shapes are inferred for callers without a framework") {
  Device d;
  const nax_operand a = d.tensor({4, 5}), b = d.tensor({5, 6});
  const nax_operand in[2] = {a, b};
  nax_op op{};
  op.struct_size = sizeof op;
  op.id = NAX_OP_MM;
  op.inputs = in;
  op.input_count = 2;
  nax_operand out{};
  ok(nax_op_infer(&op, &out, 1));
  CHECK(out.cls == NAX_TENSOR);
  CHECK(out.dtype == NAX_F32);
  CHECK(out.rank == 2);
  CHECK(out.sizes[0] == 4);
  CHECK(out.sizes[1] == 6);
  CHECK(out.strides[0] == 6);
  const nax_operand wrong[2] = {b, b};
  op.inputs = wrong;
  nax_operand untouched{};
  refused(nax_op_infer(&op, &untouched, 1), NAX_INVALID_ARGUMENT, "mm");
  CHECK(untouched.cls == NAX_ABSENT);
  nax_buffer_release(a.buffer);
  nax_buffer_release(b.buffer);
}

TEST_CASE("statistics and fallbacks are visited by key; reset sets them to zero") {
  Device d;
  nax_runtime_count_fallback(d.runtime, "aten::cumsum");
  nax_runtime_count_fallback(d.runtime, "aten::cumsum");
  std::map<std::string, double> fallbacks;
  ok(nax_runtime_visit_fallbacks(
      d.runtime, [](void* user, const char* key, double value) { (*static_cast<std::map<std::string, double>*>(user))[key] = value; },
      &fallbacks));
  CHECK(fallbacks == std::map<std::string, double>{{"aten::cumsum", 2}});
  auto stats = d.stats();
  CHECK(stats["fallback_launches"] == 2);
  for (const char* key : {"ops_recorded", "windows", "programs_compiled", "programs_loaded", "plan_hits", "plan_misses",
                          "cache_memory_hits", "cache_disk_hits", "interpreted_launches", "jit_launches", "fallback_launches",
                          "compile_seconds_background", "compile_seconds_foreground", "device_seconds", "hbm_bytes_peak",
                          "dead_temporaries", "jit_compiles", "jit_promotions", "cuts.host_read", "misses.guard"})
    CHECK_MESSAGE(stats.count(key) == 1, key);
  nax_runtime_reset_stats(d.runtime);
  CHECK(d.stats()["fallback_launches"] == 0);
}

constexpr const char* kScale = R"(
program scale {
  arg x: view f32 rank 1 read
  arg s: scalar f32
  arg y: view f32 rank 1 write
  nest {
    partition r: 1
    free c: size(x, 0) tile 512
    tile a: f32 [r, c]
    tile b: f32 [r, c]
    a = dma_copy(x[c * stride(x, 0)])
    b = tensor_scalar multiply(a, s)
    y[c * stride(y, 0)] = dma_copy(b)
  }
}
)";

TEST_CASE("an engine program from text: parsed, printed, verified, launched, timed") {
  Device d;
  nax_program* program = nullptr;
  ok(nax_program_parse(kScale, std::strlen(kScale), &program));
  ok(nax_program_verify(program, nullptr));
  ok(nax_program_verify(program, "trn1"));
  refused(nax_program_verify(program, "cpu"), NAX_INVALID_ARGUMENT, "trn2");
  size_t needed = 0;
  ok(nax_program_text(program, nullptr, 0, &needed));
  std::vector<char> text(needed + 1);
  ok(nax_program_text(program, text.data(), text.size(), nullptr));
  nax_program* again = nullptr;
  ok(nax_program_parse(text.data(), needed, &again));
  std::vector<char> twice(needed + 1);
  ok(nax_program_text(again, twice.data(), twice.size(), nullptr));
  CHECK(text == twice);
  nax_program_destroy(again);
  char shorter[8];
  ok(nax_program_text(program, shorter, sizeof shorter, &needed));
  CHECK(std::strlen(shorter) == 7);

  const nax_operand x = d.tensor({3}, {1, 2, 3}), y = d.tensor({3});
  const nax_operand operands[3] = {x, scalar(-2), y};
  ok(d.record(NAX_OP_NEG, {x}, x));  // the launch comes after it
  ok(nax_stream_launch(d.stream, program, operands, 3));
  CHECK(d.read(y, 3) == std::vector<float>{2, 4, 6});
  double ns = 0;
  ok(nax_program_time_ns(program, nullptr, operands, 3, &ns));
  CHECK(ns > 0);

  refused(nax_stream_launch(d.stream, program, operands, 2), NAX_INVALID_ARGUMENT, "takes 3 operands");
  const nax_operand swapped[3] = {scalar(1), x, y};
  refused(nax_stream_launch(d.stream, program, swapped, 3), NAX_INVALID_ARGUMENT, "takes a tensor");
  nax_operand small = y;
  nax_buffer* two = nullptr;
  ok(nax_buffer_create(d.runtime, nullptr, 8, &two));
  small.buffer = two;
  small.sizes[0] = 2;
  const nax_operand overrun[3] = {x, scalar(1), small};
  refused(nax_stream_launch(d.stream, program, overrun, 3), NAX_OUT_OF_RANGE, "");
  nax_buffer_release(two);
  const char* broken = "program p { nest { tile } }";
  nax_program* none = nullptr;
  const Failure f = take(nax_program_parse(broken, std::strlen(broken), &none));
  CHECK(f.reason == NAX_REASON_PARSE_FAILED);
  CHECK(f.message.find("line 1") != std::string::npos);
  CHECK(none == nullptr);
  nax_program_destroy(program);
  nax_buffer_release(x.buffer);
  nax_buffer_release(y.buffer);
}

TEST_CASE("a program that does not fit SBUF is refused with numbers") {
  Device d;
  std::string text = kScale;
  text.replace(text.find(" tile 512"), 9, "");
  nax_program* program = nullptr;
  ok(nax_program_parse(text.data(), text.size(), &program));
  ok(nax_program_verify(program, nullptr));
  const int64_t n = 1 << 20;  // one row of 4 MiB; a partition has some 200 KiB
  const nax_operand x = d.tensor({n}), y = d.tensor({n});
  const nax_operand operands[3] = {x, scalar(1), y};
  const Failure f = take(nax_stream_launch(d.stream, program, operands, 3));
  INFO(f.message);
  CHECK(f.reason == NAX_REASON_VERIFY_FAILED);
  ok(nax_runtime_synchronize(d.runtime));
  nax_program_destroy(program);
  nax_buffer_release(x.buffer);
  nax_buffer_release(y.buffer);
}

TEST_CASE("streams and events from C") {
  Device d;
  nax_stream* side = nullptr;
  ok(nax_stream_create(d.runtime, 1, &side));
  nax_event *start = nullptr, *end = nullptr;
  ok(nax_event_create(d.runtime, &start));
  ok(nax_event_create(d.runtime, &end));
  CHECK(nax_event_query(start) == 1);
  const nax_operand a = d.tensor({1000}), b = d.tensor({1000});
  ok(d.record(NAX_OP_FILL, {scalar(3)}, a));
  ok(nax_event_record(start, d.stream));
  ok(d.record(NAX_OP_EXP, {a}, b));
  ok(nax_event_record(end, d.stream));
  ok(nax_stream_wait_event(side, end));
  ok(nax_event_synchronize(end));
  CHECK(nax_event_query(end) == 1);
  double ns = 0;
  ok(nax_event_elapsed_ns(start, end, &ns));
  CHECK(ns > 0);
  ok(nax_stream_flush(side));
  ok(nax_stream_synchronize(side));
  CHECK(nax_stream_query(side) == 1);
  nax_event_destroy(start);
  nax_event_destroy(end);
  nax_stream_destroy(side);
  CHECK(std::abs(d.read(b, 1000)[999] - std::exp(3.0f)) < 1e-5f);
  nax_buffer_release(a.buffer);
  nax_buffer_release(b.buffer);
}

}  // namespace
