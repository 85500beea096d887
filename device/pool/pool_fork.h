// Tells a forked child from its parent. Included by device/pool only.
#pragma once

#include <pthread.h>

#include <atomic>

namespace nax::pool_detail {

// Counts the forks between the first call's process and this one.
inline int fork_generation() {
  static std::atomic<int> generation{0};
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++generation; });
  (void)registered;
  return generation.load(std::memory_order_relaxed);
}

}  // namespace nax::pool_detail
