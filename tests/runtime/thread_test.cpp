// Threads, waits, hooks, forks.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/runtime/support.h"

namespace nax::test {
namespace {

TEST_CASE("four threads record on streams of their own") {
  for (Mode mode : {Mode::kEager, Mode::kAdaptive}) {
    Device device(mode);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        Stream* stream = device->create_stream(0);
        std::vector<float> values = iota(64, static_cast<float>(t));
        auto buffer = device->create_buffer(stream, 256);
        Tensor x{*buffer, DType::kF32, {64}, {1}, 0};
        if (!device->write(*stream, *x.buffer, 0, values.data(), 256).ok()) ++wrong;
        for (int i = 0; i < 100; ++i) {
          auto scratch = device->create_buffer(stream, 256);
          Tensor y{*scratch, DType::kF32, {64}, {1}, 0};
          if (!device.record(OpId::k_add, {x.operand(), scalar(1), scalar(1)}, {y.operand()}, {}, stream).ok()) ++wrong;
          if (!device.record(OpId::k_copy, {y.operand()}, {x.operand()}, {}, stream).ok()) ++wrong;
          y.buffer->release_handle();
          if (i % 25 == 0 && !device->synchronize(*stream).ok()) ++wrong;
        }
        std::vector<float> out(64);
        if (!device->read(*stream, *x.buffer, 0, out.data(), 256).ok()) ++wrong;
        if (out != iota(64, static_cast<float>(t) + 100)) ++wrong;
        x.buffer->release_handle();
        stream->close();
      });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
    check_ok(device->synchronize());
    CHECK(device.stat("hbm_bytes") == 0);
    CHECK(device.stat("ops_recorded") == 800);
  }
}

TEST_CASE("four threads record on one stream") {
  for (Mode mode : {Mode::kEager, Mode::kAdaptive}) {
    Device device(mode);
    std::vector<Tensor> x;
    for (int t = 0; t < 4; ++t) x.push_back(device.tensor(iota(32), {32}));
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i)
          if (!device.record(OpId::k_add, {x[t].operand(), scalar(t + 1), scalar(1)}, {x[t].operand()}).ok()) ++wrong;
      });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
    for (int t = 0; t < 4; ++t) {
      CHECK(device.read(x[t]) == iota(32, 200.f * static_cast<float>(t + 1)));
      device.release(x[t]);
    }
  }
}

TEST_CASE("a release from another thread counts at the cut") {
  Device device(Mode::kAdaptive);
  const Tensor a = device.tensor(iota(64), {64}), out = device.empty({64});
  for (bool from_owner : {true, false}) {
    device->reset_stats();
    const Tensor t = device.empty({64});
    device.mul(a, 2, t);
    device.mul(t, 2, out);
    if (from_owner)
      device.release(t);
    else
      std::thread([&] { device.release(t); }).join();
    check_ok(device->synchronize());
    CHECK(device.stat("dead_temporaries") == (from_owner ? 1 : 0));
    CHECK(device.read(out) == iota(64, 0, 4));
  }
  device.release(a);
  device.release(out);
  CHECK(device.stat("hbm_bytes") == 0);
}

TEST_CASE("the host cannot run ahead without bound") {
  Device device(Mode::kAdaptive);
  device->set_max_window_ops(1);
  const int64_t n = 1 << 20;
  const Tensor a = device.tensor(iota(n), {n}), b = device.empty({n});
  for (int i = 0; i < 60; ++i) device.mul(a, i, b);
  CHECK(device->queue().deepest() <= 8);
  CHECK(device.read(b)[3] == 177);
  for (const Tensor& t : {a, b}) device.release(t);
}

TEST_CASE("the wait hook comes in pairs around waits, and may record") {
  struct State {
    Device* device;
    Tensor extra;
    int depth = 0, calls = 0;
    bool nested = false;
  };
  Device device(Mode::kAdaptive);
  State state{&device, device.tensor(iota(8), {8})};
  device->set_wait_hook(
      [](void* user, int begin) {
        auto* s = static_cast<State*>(user);
        s->depth += begin ? 1 : -1;
        ++s->calls;
        if (begin && !s->nested) {  // no lock is held: using the runtime here must not hang
          s->nested = true;
          s->device->mul(s->extra, 2, s->extra);
          auto buffer = (*s->device)->create_buffer(nullptr, 64);
          (*buffer)->release_handle();
        }
      },
      &state);
  const Tensor b = device.empty({8});
  device.mul(state.extra, 1, b);
  check_ok(device->synchronize());
  CHECK(state.depth == 0);
  CHECK(state.calls >= 2);
  CHECK(state.nested);
  CHECK(device.read(state.extra) == iota(8, 0, 2));
  device->set_wait_hook(nullptr, nullptr);
  device.release(b);
  device.release(state.extra);
}

TEST_CASE("an interrupted wait returns early and loses nothing") {
  struct State {
    Device* device;
    int calls = 0;
    bool stop = true;
  };
  for (const Mode mode : {Mode::kAdaptive, Mode::kEager}) {
    Device device(mode);
    State state{&device};
    // A queue entry that no wait may begin to run itself, since it ends only after the interrupt.
    struct Heavy final : HardwareQueue::Work {
      explicit Heavy(std::atomic<bool>& f) : finish(f) { heavy = true; }
      void run() override {
        while (!finish.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        delete this;
      }
      std::atomic<bool>& finish;
    };
    std::atomic<bool> finish{false};
    const Tensor a = device.tensor(iota(8), {8}), b = device.empty({8});
    device->set_interrupt_check(
        [](void* user) {
          auto* s = static_cast<State*>(user);
          auto buffer = (*s->device)->create_buffer(nullptr, 64);  // no lock is held
          (*buffer)->release_handle();
          return ++s->calls >= 3 && s->stop ? 1 : 0;
        },
        &state);
    device->queue().push(new Heavy(finish), HardwareQueue::Start::kWhenWaited);
    if (mode == Mode::kAdaptive) device.mul(a, 2, b);
    const Status status = device->synchronize();
    CHECK(status.code() == StatusCode::kCancelled);
    CHECK(status.message() == "interrupted while waiting; the recorded work goes on");
    CHECK(state.calls == 3);
    CHECK(device->synchronize(device.stream()).code() == (mode == Mode::kAdaptive ? StatusCode::kCancelled : StatusCode::kOk));
    state.stop = false;
    finish = true;
    check_ok(device->synchronize());
    if (mode == Mode::kEager) device.mul(a, 2, b);
    CHECK(device.read(b) == iota(8, 0, 2));
    device->set_interrupt_check(nullptr, nullptr);
    for (const Tensor& t : {a, b}) device.release(t);
  }
}

TEST_CASE("a stream makes progress without anybody waiting") {
  Device device(Mode::kAdaptive);
  const Tensor a = device.tensor(iota(8), {8}), b = device.empty({8});
  device.mul(a, 2, b);
  const uint64_t ticket = device.stream().cut(CutReason::k_query, HardwareQueue::Start::kNow);
  for (int i = 0; i < 5000 && !device->queue().done(ticket); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(device->queue().done(ticket));
  for (const Tensor& t : {a, b}) device.release(t);
}

TEST_CASE("fork: a device in use refuses in the child, an unused one works") {
  Device used(Mode::kAdaptive);
  const Tensor a = used.tensor(iota(8), {8}), b = used.empty({8});
  used.mul(a, 2, b);
  used.stream().cut(CutReason::k_flush, HardwareQueue::Start::kNow);
  Device fresh(Mode::kEager);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Exit codes say which expectation failed.
    float out[8];
    const Status status = used->read(used.stream(), *b.buffer, 0, out, 32);
    if (status.code() != StatusCode::kFailedPrecondition) _exit(1);
    if (std::string(status.message()).find("forked process") == std::string::npos) _exit(2);
    if (used.record(OpId::k_neg, {a.operand()}, {b.operand()}).ok()) _exit(3);
    a.buffer->release_handle();  // does nothing, and does not hang
    auto buffer = fresh->create_buffer(nullptr, 32);
    if (!buffer.ok()) _exit(4);
    Tensor t{*buffer, DType::kF32, {8}, {1}, 0};
    if (!fresh.record(OpId::k_fill, {scalar(3)}, {t.operand()}).ok()) _exit(5);
    if (!fresh->read(fresh.stream(), *t.buffer, 0, out, 32).ok() || out[7] != 3) _exit(6);
    _exit(0);
  }
  int result = 0;
  REQUIRE(waitpid(child, &result, 0) == child);
  CHECK(WIFEXITED(result));
  CHECK(WEXITSTATUS(result) == 0);
  CHECK(used.read(b) == iota(8, 0, 2));  // the parent goes on
  for (const Tensor& t : {a, b}) used.release(t);
}

}  // namespace
}  // namespace nax::test
