#include "device/queue/hardware_queue.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace nax {
namespace {

using Start = HardwareQueue::Start;

struct Job final : HardwareQueue::Work {
  explicit Job(std::function<void()> f) : body(std::move(f)) {}
  void run() override {
    body();
    delete this;
  }
  std::function<void()> body;
};

constexpr auto no_hook = [](bool) {};

TEST_CASE("work runs in push order, one at a time, whoever executes") {
  HardwareQueue queue;
  std::vector<int> order;  // guarded by the queue itself: two at once would be a race that tsan reports
  std::atomic<int> inside{0};
  std::atomic<bool> overlapped{false};
  std::mutex mutex;
  std::vector<int> pushed;
  const auto push = [&](int value, Start start) {
    std::lock_guard lock(mutex);
    pushed.push_back(value);
    return queue.push(new Job([&, value] {
                        if (inside.fetch_add(1) != 0) overlapped = true;
                        order.push_back(value);
                        inside.fetch_sub(1);
                      }),
                      start);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const uint64_t ticket = push(t * 1000 + i, i % 3 ? Start::kNow : Start::kWhenWaited);
        if (i % 3 == 0) {
          queue.wait(ticket, no_hook);
          CHECK(queue.done(ticket));
        }
      }
    });
  for (std::thread& t : threads) t.join();
  queue.drain(no_hook);
  CHECK_FALSE(overlapped);
  CHECK(order == pushed);
}

TEST_CASE("no thread starts before the first asynchronous push; a waiter executes itself") {
  HardwareQueue queue;
  std::thread::id ran;
  const uint64_t ticket = queue.push(new Job([&] { ran = std::this_thread::get_id(); }), Start::kWhenWaited);
  CHECK_FALSE(queue.done(ticket));
  queue.wait(ticket, no_hook);
  CHECK(ran == std::this_thread::get_id());
  CHECK_FALSE(queue.engine_started());
  queue.push(new Job([] {}), Start::kNow);
  CHECK(queue.engine_started());
}

TEST_CASE("an asynchronous push needs no waiter, also after the engine thread has parked") {
  HardwareQueue queue;
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> ran{false};
    queue.push(new Job([&] { ran = true; }), Start::kNow);
    for (int i = 0; i < 5000 && !ran; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(ran);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than the spin
  }
}

TEST_CASE("the hook is called around waits only") {
  HardwareQueue queue;
  std::vector<bool> calls;
  const auto hook = [&](bool begin) { calls.push_back(begin); };
  const uint64_t ticket = queue.push(new Job([] {}), Start::kWhenWaited);
  queue.wait(ticket, hook);
  CHECK(calls == std::vector<bool>{true, false});
  queue.wait(ticket, hook);
  queue.drain(hook);
  CHECK(calls.size() == 2);
}

TEST_CASE("run-ahead is bounded by entries, ops and bytes") {
  HardwareQueue::Limits limits;
  limits.entries = 3;
  limits.ops = 100;
  limits.bytes = 1000;
  HardwareQueue queue(limits);
  CHECK(queue.has_room());
  SUBCASE("entries") {
    for (int i = 0; i < 3; ++i) {
      CHECK(queue.has_room());
      queue.push(new Job([] {}), Start::kWhenWaited);
    }
  }
  SUBCASE("ops") {
    auto* job = new Job([] {});
    job->ops = 100;
    queue.push(job, Start::kWhenWaited);
  }
  SUBCASE("bytes") {
    auto* job = new Job([] {});
    job->bytes = 5000;
    queue.push(job, Start::kWhenWaited);
  }
  CHECK_FALSE(queue.has_room());
  queue.wait_for_room(no_hook);
  CHECK(queue.has_room());
  CHECK(queue.deepest() <= 3);
}

TEST_CASE("the ticket is known before the work can run") {
  HardwareQueue queue;
  for (int i = 0; i < 100; ++i) {
    std::atomic<uint64_t> seen{0};
    std::atomic<uint64_t> at_run{0};
    const uint64_t ticket = queue.push(new Job([&] { at_run = seen.load(); }), Start::kNow, [&](uint64_t t) { seen = t; });
    queue.wait(ticket, no_hook);
    CHECK(at_run == ticket);
  }
}

TEST_CASE("the destructor runs what is left") {
  int ran = 0;
  {
    HardwareQueue queue;
    for (int i = 0; i < 5; ++i) queue.push(new Job([&] { ++ran; }), Start::kWhenWaited);
  }
  CHECK(ran == 5);
}

}  // namespace
}  // namespace nax
