// Which tier runs a program: interpreted first, compiled in the background from the second sighting on, compiled again at
// a higher level when it has run often.
//
// One background thread, started by the first request; single flight by the entry's state; at most kMaxQueued requests
// wait, further ones are asked for again at a later launch. A failed compile leaves the program with the interpreter.
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/compiler.h"
#include "runtime/fault_injection.h"
#include "runtime/plan_entry.h"
#include "runtime/settings.h"
#include "runtime/stats.h"

namespace nax {

class Tiering {
 public:
  static constexpr size_t kMaxQueued = 256;
  static constexpr uint32_t kSightings = 2;
  static constexpr uint32_t kPromoteAt = 64;  // twice the compile time has to pay

  Tiering(Tier tier, CompileFunction compile, Stats& stats, FaultInjection& faults);
  ~Tiering();  // forgets what waits, finishes what runs

  // Before each launch. With Tier::kJit it returns when the program is compiled or known not to be.
  void sight(const std::shared_ptr<ProgramEntry>& entry, bool may_compile);
  // Waits until no request waits or runs (tests, benches).
  void settle();
  // Forgets what waits, finishes what runs; later requests are refused. Called for every live object at the end of the
  // process, before the compiler's own statics go: an embedding program need not destroy its runtimes.
  void stop();

 private:
  struct Request {
    std::shared_ptr<ProgramEntry> entry;
    int level = 0;
  };
  void compile(ProgramEntry& entry, int level, bool background);
  bool enqueue(const std::shared_ptr<ProgramEntry>& entry, int level);
  void main();

  const Tier tier_;
  const CompileFunction compile_;
  Stats& stats_;
  FaultInjection& faults_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  bool running_ = false;
  bool stopping_ = false;
  std::thread thread_;
  std::atomic<int> process_{0};  // where the thread lives: a forked child has none to wait for
};

}  // namespace nax
