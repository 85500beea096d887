// Faults on demand, for tests: each is armed with the k-th occasion from now, counted from 1, and fires once. 0 is never.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace nax {

class FaultPoint {
 public:
  void arm(uint64_t k) { left_.store(k, std::memory_order_relaxed); }
  bool fires() {
    if (left_.load(std::memory_order_relaxed) == 0) return false;
    return left_.fetch_sub(1, std::memory_order_relaxed) == 1;
  }

 private:
  std::atomic<uint64_t> left_{0};
};

struct FaultInjection {
  FaultPoint launch;     // a program launch fails as an engine fault
  FaultPoint compile;    // a compile of the JIT tier fails
  FaultPoint plan;       // the policy's plan cannot be made
};

}  // namespace nax
