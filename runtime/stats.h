// Counters of one runtime. Keys are listed in api/docs/statistics.md; a key exists from the start, also where it is 0.
// Thread-safe: counters are relaxed atomics, the named ones (reasons with free text, fallbacks) sit behind a mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "device/base/function_ref.h"

namespace nax {

// Why a window ended. "cuts.<name>".
#define NAX_CUT_REASONS(X)                                                                                    \
  X(host_read) X(host_write) X(map) X(synchronize) X(event) X(stream) X(query) X(flush) X(ops) X(bytes)       \
  X(repeat)                                                                                                    \
  X(settings) X(launch) X(out_of_memory) X(eager) X(blocking) X(policy) X(shutdown) X(trace)
enum class CutReason : uint8_t {
#define NAX_X(name) k_##name,
  NAX_CUT_REASONS(NAX_X)
#undef NAX_X
      kCount
};
std::string_view cut_reason_name(CutReason reason);

// Why a plan or a program variant was not at hand. "misses.<name>".
#define NAX_MISS_REASONS(X)                                                                                   \
  X(new_window)    /* no plan in memory and none on disk */                                                   \
  X(disk_damaged)  /* an entry on disk did not verify */                                                      \
  X(disk_unreadable)                                                                                          \
  X(disk_other_build)                                                                                         \
  X(guard)         /* a variant's guard did not hold for these sizes */                                       \
  X(plan_failed)   /* the policy's plan could not be made: one op a program instead */
enum class MissReason : uint8_t {
#define NAX_X(name) k_##name,
  NAX_MISS_REASONS(NAX_X)
#undef NAX_X
      kCount
};
std::string_view miss_reason_name(MissReason reason);

#define NAX_COUNTERS(X)                                                                                        \
  X(ops_recorded) X(windows) X(programs_compiled) X(programs_loaded) X(plan_hits) X(plan_misses)               \
  X(cache_memory_hits) X(cache_disk_hits) X(cache_disk_stores) X(interpreted_launches) X(jit_launches)         \
  X(fallback_launches) X(jit_compiles) X(jit_failures) X(jit_promotions) X(launches) X(launch_rows)            \
  X(dead_temporaries) X(deferred_errors) X(poisoned_buffers) X(back_pressure_waits) X(host_bytes_written)      \
  X(host_bytes_read)
enum class Counter : uint8_t {
#define NAX_X(name) k_##name,
  NAX_COUNTERS(NAX_X)
#undef NAX_X
      kCount
};

class Stats {
 public:
  void add(Counter c, uint64_t n = 1) { counters_[static_cast<size_t>(c)].fetch_add(n, std::memory_order_relaxed); }
  void add(CutReason r) { cuts_[static_cast<size_t>(r)].fetch_add(1, std::memory_order_relaxed); }
  void add(MissReason r) { misses_[static_cast<size_t>(r)].fetch_add(1, std::memory_order_relaxed); }
  uint64_t get(Counter c) const { return counters_[static_cast<size_t>(c)].load(std::memory_order_relaxed); }
  uint64_t get(CutReason r) const { return cuts_[static_cast<size_t>(r)].load(std::memory_order_relaxed); }
  uint64_t get(MissReason r) const { return misses_[static_cast<size_t>(r)].load(std::memory_order_relaxed); }

  void add_plan_rejected(std::string_view reason);
  void add_fallback(std::string_view op);
  void add_compile_ns(bool background, uint64_t ns) {
    (background ? background_ns_ : foreground_ns_).fetch_add(ns, std::memory_order_relaxed);
  }

  using Visitor = FunctionRef<void(const char* key, double value)>;
  void visit(Visitor visit) const;  // fixed order
  void visit_fallbacks(Visitor visit) const;
  void reset();

 private:
  template <class E>
  using Counters = std::array<std::atomic<uint64_t>, static_cast<size_t>(E::kCount)>;
  Counters<Counter> counters_{};
  Counters<CutReason> cuts_{};
  Counters<MissReason> misses_{};
  std::atomic<uint64_t> background_ns_{0}, foreground_ns_{0};
  mutable std::mutex mutex_;  // guards the maps
  std::map<std::string, uint64_t, std::less<>> plans_rejected_, fallbacks_;
};

}  // namespace nax
