// Writes new plans to the disk store beside the program: a durable write takes milliseconds, and nobody waits for it.
//
// One thread, started by the first plan. At most kMaxPending plans wait; more are dropped and will be misses next time. The
// destructor, and the end of the process, finish what waits. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cache/disk_store.h"
#include "fusion/plan.h"
#include "runtime/fork_guard.h"
#include "runtime/stats.h"

namespace nax {

class PlanWriter {
 public:
  static constexpr size_t kMaxPending = 256;

  PlanWriter(DiskStore& store, Stats& stats);
  ~PlanWriter();
  PlanWriter(const PlanWriter&) = delete;
  PlanWriter& operator=(const PlanWriter&) = delete;

  void write(std::string key, std::shared_ptr<const WindowPlan> plan);
  void drain();
  // A forked child has its parent's writers, but not their threads.
  bool in_its_process() const { return generation_ == fork_generation(); }

 private:
  struct Job {
    std::string key;
    std::shared_ptr<const WindowPlan> plan;
  };
  void main();

  DiskStore& store_;
  Stats& stats_;
  const uint64_t generation_ = fork_generation();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool writing_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace nax
