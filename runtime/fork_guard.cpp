#include "runtime/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace nax {
namespace {
std::atomic<uint64_t> generation{0};
}

void watch_forks() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
}

uint64_t fork_generation() { return generation.load(std::memory_order_relaxed); }

}  // namespace nax
