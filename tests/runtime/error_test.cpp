// Deferred errors, poison, and recovery.
#include "tests/runtime/support.h"

namespace nax::test {
namespace {

// index_select(x[4, 2], indices) -> out
void select(Device& device, const Tensor& x, const Tensor& index, const Tensor& out, uint64_t origin) {
  check_ok(device.record(OpId::k_index_select, {x.operand(), index.operand()}, {out.operand()}, {0}, nullptr, origin));
}

void resolve(void* user, uint64_t origin, char* text, size_t size) {
  std::snprintf(text, size, "%s:%d in step", static_cast<const char*>(user), static_cast<int>(origin));
}

struct Fixture {
  explicit Fixture(Mode mode) : device(mode) {
    x = device.tensor(iota(8), {4, 2});
    bad = device.indices({1, 7});
    good = device.indices({1, 3});
    out = device.empty({2, 2});
    next = device.empty({2, 2});
    apart = device.empty({4, 2});
  }
  ~Fixture() {
    for (const Tensor& t : {x, bad, good, out, next, apart}) device.release(t);
  }
  Device device;
  Tensor x, bad, good, out, next, apart;
};

void expect_index_error(const Status& status, const char* line) {
  INFO(std::string(status.message()));
  CHECK(status.code() == StatusCode::kOutOfRange);
  CHECK(status.reason() == ErrorReason::kIndexOutOfRange);
  const std::string text(status.message());
  for (const char* part : {"index out of range", "index_select", "f32[4, 2]", "i64[2]", "stream 0", "op number"})
    CHECK(text.find(part) != std::string::npos);
  CHECK(text.find(line) != std::string::npos);
}

TEST_CASE("an index error is raised once, by name and line; what depends on it is poisoned, nothing else is") {
  for (Mode mode : {Mode::kEager, Mode::kAdaptive}) {
    CAPTURE(static_cast<int>(mode));
    Fixture f(mode);
    f.device->set_origin_resolver(resolve, const_cast<char*>("train.py"));
    select(f.device, f.x, f.bad, f.out, 17);
    f.device.mul(f.out, 2, f.next);
    f.device.mul(f.x, 3, f.apart);
    expect_index_error(f.device->synchronize(), "recorded at train.py:17 in step");
    check_ok(f.device->synchronize());  // once
    CHECK(f.device.read(f.apart) == iota(8, 0, 3));
    for (const Tensor& t : {f.out, f.next, f.out}) expect_index_error(f.device.try_read(t).status(), "train.py:17");
    check_ok(f.device->synchronize());
    // A partial overwrite does not clear it, a whole one does.
    check_ok(f.device.record(OpId::k_fill, {scalar(5)}, {f.out.slice(0, 1).operand()}));
    expect_index_error(f.device.try_read(f.out).status(), "train.py:17");
    check_ok(f.device.record(OpId::k_fill, {scalar(5)}, {f.out.operand()}));
    CHECK(f.device.read(f.out) == std::vector<float>(4, 5.0f));
    // A host copy does too, and so does the user.
    const std::vector<float> ones(4, 1.0f);
    check_ok(f.device->write(f.device.stream(), *f.next.buffer, 0, ones.data(), 16));
    CHECK(f.device.read(f.next) == ones);
    check_ok(f.device->synchronize());
  }
}

TEST_CASE("the earliest error in program order wins") {
  Fixture f(Mode::kAdaptive);
  f.device->set_origin_resolver(resolve, const_cast<char*>("a.py"));
  select(f.device, f.x, f.bad, f.out, 3);
  select(f.device, f.x, f.bad, f.next, 4);
  expect_index_error(f.device->synchronize(), "a.py:3");
  expect_index_error(f.device.try_read(f.next).status(), "a.py:4");
  check_ok(f.device->synchronize());
}

TEST_CASE("reading a poisoned value raises its error; synchronize does not raise it again") {
  Fixture f(Mode::kAdaptive);
  select(f.device, f.x, f.bad, f.out, 9);
  expect_index_error(f.device.try_read(f.out).status(), "origin 9");
  check_ok(f.device->synchronize());
}

TEST_CASE("poison crosses windows and in-place ops, and stops at fresh values") {
  Fixture f(Mode::kAdaptive);
  select(f.device, f.x, f.bad, f.out, 0);
  CHECK_FALSE(f.device->synchronize().ok());
  f.device.add(f.next, f.out, f.next);
  check_ok(f.device->synchronize());
  CHECK_FALSE(f.device.try_read(f.next).ok());
  select(f.device, f.x, f.good, f.out, 0);
  CHECK(f.device.read(f.out) == std::vector<float>{2, 3, 6, 7});
  void* host = nullptr;
  CHECK_FALSE(f.device->map(*f.next.buffer, true, &host).ok());
  f.next.buffer->set_poison(nullptr);
  check_ok(f.device->map(*f.next.buffer, true, &host));
}

TEST_CASE("launch blocking raises at the op") {
  Settings settings = quiet_settings(Mode::kAdaptive);
  settings.launch_blocking = true;
  Device device(settings);
  const Tensor x = device.tensor(iota(8), {4, 2}), bad = device.indices({1, 7}), out = device.empty({2, 2});
  const Status status = device.record(OpId::k_index_select, {x.operand(), bad.operand()}, {out.operand()}, {0});
  CHECK(status.reason() == ErrorReason::kIndexOutOfRange);
  check_ok(device->synchronize());
  device.mul(x, 2, x);
  CHECK(device.stat("cuts.blocking") == 2);
  for (const Tensor& t : {x, bad, out}) device.release(t);
}

TEST_CASE("integer division by zero is deferred like an index error") {
  Device device(Mode::kAdaptive);
  const Tensor a = device.indices({7, 8}), b = device.indices({2, 0}), c = device.empty({2}, DType::kI64);
  check_ok(device.record(OpId::k_div_floor, {a.operand(), b.operand()}, {c.operand()}));
  const Status status = device->synchronize();
  CHECK(status.reason() == ErrorReason::kIntegerDivideByZero);
  for (const Tensor& t : {a, b, c}) device.release(t);
}

TEST_CASE("an engine fault fails its ops and nothing else") {
  Device device(Mode::kAdaptive);
  device->set_max_window_ops(1);
  const Tensor a = device.tensor(iota(8), {8}), b = device.empty({8}), c = device.empty({8}), d = device.empty({8});
  device->faults().launch.arm(2);
  device.mul(a, 2, b);
  device.mul(a, 3, c);  // fails
  device.mul(c, 1, d);
  const Status status = device->synchronize();
  CHECK(status.reason() == ErrorReason::kEngineFault);
  CHECK(std::string(status.message()).find("mul(f32[8], 3)") != std::string::npos);
  CHECK(device.read(b) == iota(8, 0, 2));
  CHECK_FALSE(device.try_read(c).ok());
  CHECK_FALSE(device.try_read(d).ok());
  device.mul(a, 3, c);
  device.mul(c, 1, d);
  CHECK(device.read(d) == iota(8, 0, 3));
  for (const Tensor& t : {a, b, c, d}) device.release(t);
}

TEST_CASE("a policy that fails is replaced by one op a program") {
  Device device(Mode::kAdaptive);
  const Tensor a = device.tensor(iota(8), {8}), b = device.empty({8});
  device->faults().plan.arm(1);
  device.mul(a, 2, b);
  device.mul(b, 2, b);
  CHECK(device.read(b) == iota(8, 0, 4));
  CHECK(device.stat("misses.plan_failed") == 1);
  for (const Tensor& t : {a, b}) device.release(t);
}

TEST_CASE("a reserve that fails once is tried again after pending work") {
  Device device(Mode::kAdaptive);
  const Tensor a = device.tensor(iota(8), {8});
  device->hbm().set_fail_reserve_at(1);
  device.mul(a, 2, a);
  const Tensor b = device.empty({8});
  CHECK(device.stat("cuts.out_of_memory") == 1);
  device.mul(a, 2, b);
  CHECK(device.read(b) == iota(8, 0, 4));
  for (const Tensor& t : {a, b}) device.release(t);
}

TEST_CASE("HBM exhausted: pending work is finished first, then the call fails, then all goes on") {
  Settings settings = quiet_settings(Mode::kAdaptive);
  settings.hbm_bytes = 4 << 20;
  Device device(settings);
  const int64_t n = 1 << 18;  // 1 MiB each
  const Tensor a = device.tensor(iota(n), {n});
  // Released but pending: counted until the window has run.
  const Tensor sums = device.empty({4});
  for (int i = 0; i < 12; ++i) {
    const Tensor t = device.empty({n});
    device.add(t.slice(0, 4), a.slice(0, 4), sums);
    device.release(t);
  }
  CHECK(device.stat("cuts.out_of_memory") > 0);
  device.release(sums);
  const Tensor b = device.empty({n}), c = device.empty({n}), d = device.empty({n});
  const auto refused = device->create_buffer(nullptr, static_cast<uint64_t>(n) * 4);
  CHECK_FALSE(refused.ok());
  CHECK(refused.status().code() == StatusCode::kResourceExhausted);
  CHECK(refused.status().reason() == ErrorReason::kHbmExhausted);
  device.mul(a, 2, b);
  CHECK(device.read(b)[100] == 200);
  device.release(d);
  const Tensor e = device.empty({n});
  device.mul(b, 2, e);
  CHECK(device.read(e)[100] == 400);
  for (const Tensor& t : {a, b, c, e}) device.release(t);
}

}  // namespace
}  // namespace nax::test
