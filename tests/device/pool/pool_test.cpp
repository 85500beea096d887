#include "device/pool/pool.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

using nax::ThreadPool;

namespace {

// Every element exactly once, ranges on grain boundaries.
void check_cover(ThreadPool& pool, int64_t n, int64_t grain) {
  std::vector<std::atomic<int>> seen(n);
  std::atomic<int> misaligned{0};
  pool.parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    if (begin % grain != 0 || (end != n && end % grain != 0) || begin >= end) ++misaligned;
    for (int64_t i = begin; i < end; ++i) ++seen[i];
  });
  int64_t wrong = 0;
  for (auto& s : seen) wrong += s != 1;
  CHECK(wrong == 0);
  CHECK(misaligned == 0);
}

}  // namespace

TEST_CASE("pool: every element once") {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (int64_t n : {1, 2, 5, 63, 64, 65, 1000, 4096})
      for (int64_t grain : {1, 3, 64, 1000, 5000}) check_cover(pool, n, grain);
  }
}

TEST_CASE("pool: nothing runs for n = 0") {
  ThreadPool pool(2);
  int calls = 0;
  pool.parallel_for(0, 16, [&](int64_t, int64_t) { ++calls; });
  pool.parallel_for(-5, 16, [&](int64_t, int64_t) { ++calls; });
  CHECK(calls == 0);
}

TEST_CASE("pool: small and single-threaded loops run inline in one call") {
  ThreadPool pool(4), single(1);
  const auto me = std::this_thread::get_id();
  int calls = 0;
  auto body = [&](int64_t begin, int64_t end) {
    ++calls;
    CHECK(begin == 0);
    CHECK(end == 100);
    CHECK(std::this_thread::get_id() == me);
    CHECK_FALSE(ThreadPool::in_parallel_region());
  };
  pool.parallel_for(100, 100, body);
  single.parallel_for(100, 1, body);
  CHECK(calls == 2);
}

TEST_CASE("pool: nested loops run inline on the thread of their outer range") {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  std::atomic<int> strayed{0};
  pool.parallel_for(64, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto me = std::this_thread::get_id();
      if (!ThreadPool::in_parallel_region()) ++strayed;
      pool.parallel_for(100, 1, [&](int64_t b, int64_t e) {
        if (b != 0 || e != 100 || std::this_thread::get_id() != me) ++strayed;
        for (int64_t j = b; j < e; ++j) sum += j;
      });
    }
  });
  CHECK(sum == 64 * 4950);
  CHECK(strayed == 0);
  CHECK_FALSE(ThreadPool::in_parallel_region());
}

TEST_CASE("pool: workers take part") {
  ThreadPool pool(2);
  // The first range to start waits until a second one runs beside it.
  std::atomic<int> running{0};
  std::atomic<bool> met{false};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  pool.parallel_for(2, 1, [&](int64_t, int64_t) {
    if (++running == 2) met = true;
    while (!met && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  CHECK(met);
}

TEST_CASE("pool: several callers at once, while the size changes") {
  ThreadPool pool(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        pool.parallel_for(1000, 10, [&](int64_t begin, int64_t end) { total += end - begin; });
    });
  for (int i = 0; i < 20; ++i) pool.set_threads(1 + i % 4);
  for (auto& t : callers) t.join();
  CHECK(total == 4 * 50 * 1000);
  pool.set_threads(5);
  CHECK(pool.threads() == 5);
  pool.set_threads(0);
  CHECK(pool.threads() >= 1);
}

TEST_CASE("pool: writes of a body are visible to the caller") {
  ThreadPool pool(3);
  std::vector<int> data(10000, 0);
  for (int round = 1; round <= 20; ++round) {
    pool.parallel_for(10000, 100, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) data[i] += round;
    });
  }
  int64_t sum = 0;
  for (int v : data) sum += v;
  CHECK(sum == 10000LL * 210);
}

#ifndef __SANITIZE_THREAD__
TEST_CASE("pool: a forked child works on one thread") {
  ThreadPool started(2), fresh(2);
  started.parallel_for(100, 1, [](int64_t, int64_t) {});
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::atomic<int64_t> sum{0};
    started.parallel_for(100, 1, [&](int64_t b, int64_t e) { sum += e - b; });
    _exit(sum == 100 && started.threads() == 1 && fresh.threads() == 2 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(started.threads() == 2);
}
#endif
