// Recording, cuts and plans: what one sees of windows from outside.
#include "tests/runtime/support.h"

namespace nax::test {
namespace {

TEST_CASE("an op gives the same value in every mode") {
  for (Mode mode : {Mode::kEager, Mode::kAdaptive}) {
    CAPTURE(static_cast<int>(mode));
    Device device(mode);
    const Tensor a = device.tensor(iota(16), {16}), b = device.tensor(iota(16, 100), {16}), c = device.empty({16});
    device.add(a, b, c, 2);
    const std::vector<float> out = device.read(c);
    for (int i = 0; i < 16; ++i) CHECK(out[i] == static_cast<float>(i) + 2 * (100.f + static_cast<float>(i)));
    for (const Tensor& t : {a, b, c}) device.release(t);
  }
}

TEST_CASE("each cut carries its reason, and only a window that matters is cut") {
  Device device(Mode::kAdaptive);
  const Tensor a = device.tensor(iota(8), {8}), b = device.empty({8}), other = device.tensor(iota(8), {8});
  device.mul(a, 2, b);
  CHECK(device.read(other) == iota(8));
  CHECK(device.read(a) == iota(8));  // the window reads it only
  CHECK(device.stat("windows") == 0);
  CHECK(device.read(b) == iota(8, 0, 2));
  CHECK(device.stat("cuts.host_read") == 1);
  device.mul(a, 3, b);
  check_ok(device->synchronize());
  CHECK(device.stat("cuts.synchronize") == 1);
  device.mul(a, 3, b);
  const std::vector<float> zeros(8);
  check_ok(device->write(device.stream(), *other.buffer, 0, zeros.data(), 32));
  CHECK(device.stat("cuts.host_write") == 0);
  check_ok(device->write(device.stream(), *a.buffer, 0, zeros.data(), 32));  // after the op that reads it
  CHECK(device.stat("cuts.host_write") == 1);
  CHECK(device.read(b) == iota(8, 0, 3));
  CHECK(device.read(a) == zeros);
  device.mul(b, 1, a);
  void* host = nullptr;
  check_ok(device->map(*a.buffer, false, &host));
  CHECK(device.stat("cuts.map") == 1);
  CHECK(static_cast<float*>(host)[7] == 21);
  device.mul(b, 2, a);
  check_ok(device->set_mode(Mode::kEager));
  CHECK(device.stat("cuts.settings") == 1);
  device.mul(b, 2, a);
  CHECK(device.stat("cuts.eager") == 1);
  CHECK(device.stat("ops_recorded") == 6);
  for (const Tensor& t : {a, b, other}) device.release(t);
}

TEST_CASE("the op budget cuts, wherever it falls, and changes no value") {
  std::vector<float> reference;
  for (uint32_t budget : {512u, 1u, 2u, 3u, 7u}) {
    Device device(Mode::kAdaptive);
    device->set_max_window_ops(budget);
    const Tensor a = device.tensor(iota(100, 1), {100}), b = device.empty({100}), c = device.empty({100});
    device.mul(a, 1.5, b);
    for (int i = 0; i < 20; ++i) {
      device.add(b, a, c, 0.25);
      device.mul(c, 0.75, b);
    }
    const std::vector<float> out = device.read(b);
    if (reference.empty()) reference = out;
    CHECK(out == reference);
    CHECK(device.stat("cuts.ops") == (41 - (41 % budget == 0 ? 0 : 41 % budget)) / budget);
    for (const Tensor& t : {a, b, c}) device.release(t);
  }
}

TEST_CASE("a loop whose scalar changes makes no plan after the first step") {
  Device device(Mode::kAdaptive);
  const Tensor w = device.tensor(iota(1000), {1000}), g = device.tensor(iota(1000, 1), {1000});
  std::vector<float> expected = iota(1000);
  double programs = 0, misses = 0;
  for (int step = 0; step < 10; ++step) {
    const float rate = 1.0f / static_cast<float>(step + 1);
    device.add(w, g, w, -rate);
    for (int i = 0; i < 1000; ++i) expected[i] = expected[i] + -rate * static_cast<float>(i + 1);
    check_ok(device->synchronize());
    if (step == 1) {
      programs = device.stat("programs_compiled");
      misses = device.stat("plan_misses");
    }
  }
  CHECK(device.stat("programs_compiled") == programs);
  CHECK(device.stat("plan_misses") == misses);
  CHECK(device.stat("plan_hits") >= 8);
  CHECK(device.read(w) == expected);
  for (const Tensor& t : {w, g}) device.release(t);
}

TEST_CASE("a loop that never synchronizes is cut where it comes round") {
  for (int body : {30, 300, 700}) {
    CAPTURE(body);
    Device device(Mode::kAdaptive);
    const Tensor a = device.tensor(iota(64, 1), {64}), b = device.empty({64}), c = device.empty({64});
    const int steps = 6000 / body + 20;
    for (int step = 0; step < steps; ++step) {
      device.add(a, a, b, 0.001 * step);  // the one op of its kind
      for (int i = 1; i < body; ++i) device.mul(i % 2 ? b : c, 0.5, i % 2 ? c : b);
    }
    check_ok(device->synchronize());
    CHECK(device.stat("cuts.repeat") > 10);
    CHECK(device.stat("windows") > 20);
    // The first step (its buffers are new), one or two windows a step, and the last, shorter one.
    CHECK(device.stat("plan_misses") <= 5);
    for (const Tensor& t : {a, b, c}) device.release(t);
  }
}

TEST_CASE("other sizes of a pattern use the same plan") {
  Device device(Mode::kAdaptive);
  double programs = 0;
  for (int64_t n : {64, 65, 1000, 4096, 100000}) {
    const Tensor a = device.tensor(iota(n), {n}), b = device.tensor(iota(n, 5), {n}), c = device.empty({n});
    device.add(a, b, c);
    device.mul(c, 2, c);
    const std::vector<float> out = device.read(c);
    for (int64_t i = 0; i < n; ++i) REQUIRE(out[i] == (static_cast<float>(i) + (5.f + static_cast<float>(i))) * 2);
    if (programs == 0) programs = device.stat("programs_compiled");
    CHECK(device.stat("programs_compiled") == programs);
    for (const Tensor& t : {a, b, c}) device.release(t);
  }
  CHECK(device.stat("plan_misses") == 1);
}

TEST_CASE("a temporary that dies inside its window never gets memory") {
  Device device(Mode::kAdaptive);
  const int64_t n = 1 << 16;
  const Tensor a = device.tensor(iota(n), {n}), out = device.empty({n});
  check_ok(device->synchronize());
  const double before = device.stat("hbm_bytes");
  Tensor x = device.empty({n});
  device.mul(a, 2, x);
  for (int i = 0; i < 6; ++i) {
    const Tensor y = device.empty({n});
    device.mul(x, 0.5, y);
    device.release(x);
    x = y;
  }
  device.add(x, a, out);
  device.release(x);
  check_ok(device->synchronize());
  CHECK(device.stat("dead_temporaries") == 7);
  CHECK(device.stat("hbm_bytes") == before + n * 4);
  CHECK(device.stat("hbm_charged_bytes_peak") >= static_cast<double>(9 * n * 4));
  const std::vector<float> values = device.read(out);
  for (int64_t i = 0; i < n; i += 997) CHECK(values[i] == static_cast<float>(i) * 2 / 64 + static_cast<float>(i));
  for (const Tensor& t : {a, out}) device.release(t);
}

TEST_CASE("in place and through views, in one window") {
  for (uint32_t budget : {512u, 1u}) {
    Device device(Mode::kAdaptive);
    device->set_max_window_ops(budget);
    const Tensor a = device.tensor(iota(12), {12});
    const Tensor low = a.slice(0, 8), high = a.slice(4, 12), shifted = device.empty({8});
    std::vector<float> expected = iota(12);
    device.mul(low, 10, low);                     // overlaps the next read
    device.add(low, high, shifted);               // low[i] + high[i]
    device.mul(high, -1, high);                   // after it was read
    device.add(a.slice(0, 4), shifted.slice(4, 8), a.slice(8, 12));
    for (int i = 0; i < 8; ++i) expected[i] *= 10;
    std::vector<float> sum(8);
    for (int i = 0; i < 8; ++i) sum[i] = expected[i] + expected[i + 4];
    for (int i = 4; i < 12; ++i) expected[i] = -expected[i];
    for (int i = 0; i < 4; ++i) expected[8 + i] = expected[i] + sum[4 + i];
    CHECK(device.read(a) == expected);
    CHECK(device.read(shifted) == sum);
    for (const Tensor& t : {a, shifted}) device.release(t);
  }
}

TEST_CASE("independent launches of one program go out together") {
  Device device(Mode::kAdaptive);
  std::vector<Tensor> weights;
  for (int i = 0; i < 20; ++i) weights.push_back(device.tensor(iota(50 + i), {50 + i}));
  for (const Tensor& w : weights) device.mul(w, 2, w);
  check_ok(device->synchronize());
  CHECK(device.stat("launch_rows") == 20);
  CHECK(device.stat("launches") == 1);
  for (size_t i = 0; i < weights.size(); ++i) {
    CHECK(device.read(weights[i]) == iota(50 + static_cast<int64_t>(i), 0, 2));
    device.release(weights[i]);
  }
}

TEST_CASE("what is wrong with the call is said at the call, and leaves no trace") {
  Device device(Mode::kAdaptive);
  const Tensor a = device.tensor(iota(8), {8}), b = device.tensor(iota(6), {6}), c = device.empty({8});
  const auto refused = [&](const Status& status, const char* part) {
    INFO(std::string(status.message()));
    CHECK_FALSE(status.ok());
    CHECK(status.message().find(part) != std::string::npos);
  };
  refused(device.record(OpId::k_add, {a.operand(), b.operand(), scalar(1)}, {c.operand()}), "add");
  refused(device.record(static_cast<OpId>(9999), {a.operand()}, {c.operand()}), "unknown op id 9999");
  refused(device.record(OpId::k_add, {a.operand()}, {c.operand()}), "inputs");
  nax_operand outside = a.operand();
  outside.offset_bytes = 4;
  refused(device.record(OpId::k_neg, {outside}, {c.operand()}), "outside its buffer of 32 bytes");
  outside.offset_bytes = 0;
  outside.strides[0] = INT64_MAX;
  refused(device.record(OpId::k_neg, {outside}, {c.operand()}), "outside");
  nax_operand repeated = c.operand();
  repeated.strides[0] = 0;
  refused(device.record(OpId::k_neg, {a.operand()}, {repeated}), "repeat");
  nax_operand no_buffer = c.operand();
  no_buffer.buffer = nullptr;
  refused(device.record(OpId::k_neg, {a.operand()}, {no_buffer}), "needs a buffer");
  nax_operand bad_dtype = c.operand();
  bad_dtype.dtype = 77;
  refused(device.record(OpId::k_neg, {a.operand()}, {bad_dtype}), "dtype 77");
  Device another(Mode::kAdaptive);
  const Tensor foreign = another.tensor(iota(8), {8});
  refused(device.record(OpId::k_neg, {foreign.operand()}, {c.operand()}), "another runtime");
  another.release(foreign);
  CHECK(device.stat("ops_recorded") == 0);
  device.mul(a, 2, c);  // still usable, and the failed calls are not in its window
  CHECK(device.read(c) == iota(8, 0, 2));
  CHECK(device.stat("ops_recorded") == 1);
  for (const Tensor& t : {a, b, c}) device.release(t);
  check_ok(device->synchronize());
  CHECK(device.stat("hbm_bytes") == 0);
}

}  // namespace
}  // namespace nax::test
