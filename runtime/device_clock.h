// The virtual device clock: emulated time by the timing model, never by the host's clock (DESIGN I10).
//
// Each stream has a clock of its own that its launches advance and that event edges pull forward; streams do not slow
// each other down. Times are computed when an event or a statistic asks, once per program and sizes. What is not timed
// yet waits in a bounded list.
// Thread-safe: one lock inside.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/targets/target.h"
#include "runtime/plan_entry.h"

namespace nax {

class Stream;

// Emulated time of one launch with these slot values.
double program_time_ns(const Program& program, const int64_t* slots, const TargetInfo& target);

// A point of emulated time, for events. Its number is the clock's to touch.
struct ClockMark {
  double ns = 0;
};

class DeviceClock {
 public:
  explicit DeviceClock(const TargetInfo& target);
  ~DeviceClock();

  // A window ran on the stream.
  void count(Stream& stream, const std::shared_ptr<ExactPlan>& plan);
  // A single program ran.
  void count(Stream& stream, TimedLaunch launch);

  // The mark gets the time at which the stream's work so far ends.
  void mark(Stream& stream, const std::shared_ptr<ClockMark>& mark);
  // The stream's next work starts no earlier than the mark, which was set before.
  void wait(Stream& stream, const std::shared_ptr<ClockMark>& mark);
  double read_ns(const ClockMark& mark);
  double device_seconds();  // of all launches since the last reset
  void reset();             // the sum, not the clocks

 private:
  enum class Step : uint8_t { kRun, kMark, kWait };
  struct Pending {
    Step step;
    Stream* stream;  // holds a reference
    std::shared_ptr<ExactPlan> plan;
    std::shared_ptr<ClockMark> mark;
  };
  void push_locked(Step step, Stream& stream, std::shared_ptr<ExactPlan> plan, std::shared_ptr<ClockMark> mark);
  void apply_locked(const Pending& p);
  void settle_locked();
  double time_locked(const TimedLaunch& launch);

  const TargetInfo& target_;
  std::mutex mutex_;
  std::vector<Pending> pending_;
  std::unordered_map<std::string, double> times_;  // by program identity and slots
  std::vector<std::shared_ptr<PreparedProgram>> timed_programs_;  // keeps identities alive
  double total_ns_ = 0;
};

}  // namespace nax
