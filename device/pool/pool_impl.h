// Between the pool and the two implementations of its workers. Included by device/pool only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "device/pool/pool.h"

namespace nax::pool_detail {

// A loop cut into at most 4 ranges a thread of whole grains, as even as grains allow: a thread that
// comes late, or loses its processor, is evened out by the others.
struct Split {
  int64_t n, grain, units, tasks;
  Split(int64_t n_in, int64_t grain_in, int threads)
      : n(n_in), grain(std::max<int64_t>(1, grain_in)) {
    units = (n + grain - 1) / grain;
    tasks = std::min<int64_t>(units, static_cast<int64_t>(threads) * 4);
  }
  int64_t begin(int64_t task) const { return units_before(task) * grain; }
  int64_t end(int64_t task) const { return std::min(n, units_before(task + 1) * grain); }

 private:
  int64_t units_before(int64_t task) const {
    return units / tasks * task + std::min<int64_t>(task, units % tasks);
  }
};

// Marks this thread as inside a split loop for the scope's life.
class RegionScope {
 public:
  RegionScope();
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  bool outer_;
};

// Processors this process may run on.
int available_processors();

// The threads (pool_tbb.cpp or pool_std.cpp). run() may be called by several threads at once.
class Workers {
 public:
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void run(const Split& split, ThreadPool::Body body);
  int threads() const { return threads_; }
  // False in a forked child of the process that started them.
  bool alive() const;

 private:
  struct Impl;
  int threads_;
  int fork_generation_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nax::pool_detail
