// Streams, events, emulated time.
#include "runtime/event.h"
#include "tests/runtime/support.h"

namespace nax::test {
namespace {

TEST_CASE("an event orders one stream after another") {
  Device device(Mode::kAdaptive);
  Stream* side = device->create_stream(0);
  const Tensor a = device.tensor(iota(32), {32}), b = device.empty({32}), c = device.empty({32}, DType::kF32, side);
  Event ready(*device), done(*device);
  for (int i = 1; i <= 10; ++i) {
    device.mul(a, i, b);
    check_ok(ready.record(device.stream()));
    check_ok(ready.block(*side));
    device.mul(b, 2, c, side);
    check_ok(done.record(*side));
    check_ok(done.block(device.stream()));
    device.add(c, a, b);
    CHECK(device.read(b) == iota(32, 0, static_cast<float>(2 * i + 1)));
  }
  CHECK(ready.reached());
  CHECK(device.stat("cuts.event") >= 20);
  for (const Tensor& t : {a, b, c}) device.release(t);
  side->close();
}

TEST_CASE("an event that was never recorded is reached and blocks nobody") {
  Device device(Mode::kAdaptive);
  Event event(*device);
  CHECK(event.reached());
  check_ok(event.block(device.stream()));
  check_ok(event.synchronize());
  CHECK_FALSE(event.elapsed_ns(event).ok());
}

double time_of(Mode mode, int repeats, int64_t n) {
  Device device(mode);
  const Tensor a = device.tensor(iota(n), {n}), b = device.empty({n});
  Event start(*device), end(*device);
  check_ok(start.record(device.stream()));
  for (int i = 0; i < repeats; ++i) device.mul(a, 2, b);
  check_ok(end.record(device.stream()));
  const auto ns = start.elapsed_ns(end);
  REQUIRE(ns.ok());
  CHECK(device.stat("device_seconds") == doctest::Approx(*ns * 1e-9));
  for (const Tensor& t : {a, b}) device.release(t);
  return *ns;
}

TEST_CASE("emulated time: the same run gives the same time, more work takes longer") {
  const double once = time_of(Mode::kEager, 1, 1 << 16);
  CHECK(once > 0);
  CHECK(time_of(Mode::kEager, 1, 1 << 16) == once);
  CHECK(time_of(Mode::kEager, 5, 1 << 16) == doctest::Approx(5 * once));
  CHECK(time_of(Mode::kEager, 1, 1 << 20) > once);
  CHECK(time_of(Mode::kAdaptive, 3, 1 << 18) == time_of(Mode::kAdaptive, 3, 1 << 18));
}

TEST_CASE("a wait pulls the waiting stream's clock forward, streams do not slow each other down") {
  Device device(Mode::kEager);
  Stream* side = device->create_stream(0);
  const int64_t n = 1 << 18;
  const Tensor a = device.tensor(iota(n), {n}), b = device.empty({n});
  Event start(*device), long_work(*device), idle(*device), after(*device);
  check_ok(start.record(device.stream()));
  device.mul(a, 2, b);
  check_ok(long_work.record(device.stream()));
  check_ok(idle.record(*side));
  check_ok(long_work.block(*side));
  check_ok(after.record(*side));
  CHECK(*start.elapsed_ns(idle) == 0);
  CHECK(*start.elapsed_ns(after) == *start.elapsed_ns(long_work));
  CHECK(*start.elapsed_ns(after) > 0);
  for (const Tensor& t : {a, b}) device.release(t);
  side->close();
}

TEST_CASE("errors belong to their stream") {
  Device device(Mode::kAdaptive);
  Stream* side = device->create_stream(0);
  const Tensor x = device.tensor(iota(8), {4, 2}), bad = device.indices({0, 9}), out = device.empty({2, 2}, DType::kF32, side);
  check_ok(device.record(OpId::k_index_select, {x.operand(), bad.operand()}, {out.operand()}, {0}, side));
  check_ok(device->synchronize(device.stream()));
  const Status status = device->synchronize(*side);
  CHECK(status.reason() == ErrorReason::kIndexOutOfRange);
  CHECK(std::string(status.message()).find("stream 1") != std::string::npos);
  check_ok(device->synchronize());
  for (const Tensor& t : {x, bad, out}) device.release(t);
  side->close();
}

TEST_CASE("a buffer outlives its stream's handle") {
  Device device(Mode::kAdaptive);
  Stream* side = device->create_stream(0);
  const Tensor a = device.empty({16}, DType::kF32, side);
  check_ok(device.record(OpId::k_fill, {scalar(4)}, {a.operand()}, {}, side));
  side->close();
  CHECK(device.read(a) == std::vector<float>(16, 4.0f));
  device.release(a);
  CHECK(device.stat("hbm_bytes") == 0);
}

}  // namespace
}  // namespace nax::test
