// From a window to a plan that is ready to launch: memory first, then disk, then the policy and the lowering.
//
// Three levels of keys, each verified by full equality (DESIGN I5):
//   exact    the window's structure with its sizes, strides and offsets: a repeated step costs one hash and one compare
//   window   append_window_key: classes instead of sizes, so one plan serves all sizes of a pattern
//   region   PlannedLaunch::keys: windows that hold equal regions share prepared programs and compiled code
// Scalars are in none of them (I6). On disk lies the whole plan under its window key: a warm process lowers nothing.
// Thread: get() with the right to execute; the rest from any thread.
#pragma once

#include <memory>
#include <string>

#include "cache/disk_store.h"
#include "cache/memory_cache.h"
#include "device/base/function_ref.h"
#include "device/base/status.h"
#include "device/targets/target.h"
#include "runtime/fault_injection.h"
#include "runtime/plan_entry.h"
#include "runtime/plan_writer.h"
#include "runtime/stats.h"

namespace nax {

class PlanCache {
 public:
  // `disk` may be null: memory only.
  PlanCache(const TargetInfo& target, std::unique_ptr<DiskStore> disk, Stats& stats, FaultInjection& faults);

  // The plan for the window. A policy whose plan cannot be made is replaced by one op a program, and counted; where that
  // fails too, the reason is the status.
  StatusOr<std::shared_ptr<ExactPlan>> get(const Window& window, const char* policy);

  // A program on its own (nax_stream_launch): prepared once for equal text.
  StatusOr<std::shared_ptr<ProgramEntry>> program(const std::string& key, std::shared_ptr<const Program> program);

  bool on_disk() const { return disk_ != nullptr; }
  // Waits until what is new lies on disk (tests).
  void settle() {
    if (writer_) writer_->drain();
  }

 private:
  StatusOr<std::shared_ptr<PlanEntry>> make(const Window& window, const char* policy);
  std::shared_ptr<const WindowPlan> load(const CacheKey& key, const Window& window);
  StatusOr<std::shared_ptr<PlanEntry>> prepare(std::shared_ptr<const WindowPlan> plan, bool loaded);
  StatusOr<std::shared_ptr<ProgramEntry>> prepare(const std::string& key, const std::shared_ptr<const Program>& program,
                                                  Counter on_miss);

  const TargetInfo& target_;
  std::unique_ptr<DiskStore> disk_;
  std::unique_ptr<PlanWriter> writer_;  // of disk_
  Stats& stats_;
  FaultInjection& faults_;
  MemoryCache<ExactPlan> exact_;
  MemoryCache<PlanEntry> windows_;
  MemoryCache<ProgramEntry> programs_;
  std::string exact_key_, window_key_;  // reused
};

// Appends the window's structure with all numbers but scalars, sequence numbers and origins.
void append_exact_key(const Window& window, const char* policy, std::string* out);

}  // namespace nax
