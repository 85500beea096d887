#include "runtime/device_clock.h"

#include <algorithm>

#include "device/timing/timing.h"
#include "runtime/stream.h"

namespace nax {
namespace {
constexpr size_t kMaxPending = 1024;
constexpr size_t kMaxTimes = 8192;
}  // namespace

double program_time_ns(const Program& program, const int64_t* slots, const TargetInfo& target) {
  return time_program(program, slots, target).total_ns;
}

DeviceClock::DeviceClock(const TargetInfo& target) : target_(target) { pending_.reserve(kMaxPending); }

DeviceClock::~DeviceClock() {
  for (Pending& p : pending_) p.stream->unref();
}

double DeviceClock::time_locked(const TimedLaunch& launch) {
  std::string key;
  const PreparedProgram* identity = launch.program.get();
  key.append(reinterpret_cast<const char*>(&identity), sizeof identity);
  key.append(reinterpret_cast<const char*>(launch.slots.data()), launch.slots.size() * sizeof(int64_t));
  if (const auto found = times_.find(key); found != times_.end()) return found->second;
  const double ns = program_time_ns(launch.program->program(), launch.slots.data(), target_);
  if (times_.size() >= kMaxTimes) {
    times_.clear();
    timed_programs_.clear();
  }
  times_.emplace(std::move(key), ns);
  timed_programs_.push_back(launch.program);
  return ns;
}

void DeviceClock::apply_locked(const Pending& p) {
  double& now = p.stream->device_clock_ns;
  switch (p.step) {
    case Step::kRun:
      if (p.plan->device_ns < 0) {
        p.plan->device_ns = 0;
        for (const TimedLaunch& launch : p.plan->launches) p.plan->device_ns += time_locked(launch);
        p.plan->launches.clear();
      }
      now += p.plan->device_ns;
      total_ns_ += p.plan->device_ns;
      return;
    case Step::kMark: p.mark->ns = now; return;
    case Step::kWait: now = std::max(now, p.mark->ns); return;
  }
}

void DeviceClock::settle_locked() {
  for (Pending& p : pending_) {
    apply_locked(p);
    p.stream->unref();
  }
  pending_.clear();
}

void DeviceClock::push_locked(Step step, Stream& stream, std::shared_ptr<ExactPlan> plan, std::shared_ptr<ClockMark> mark) {
  Pending p{step, &stream, std::move(plan), std::move(mark)};
  // Nothing waits and nothing has to be timed: no need to remember it.
  if (pending_.empty() && (step != Step::kRun || p.plan->device_ns >= 0)) return apply_locked(p);
  stream.ref();
  pending_.push_back(std::move(p));
  if (pending_.size() >= kMaxPending) settle_locked();
}

void DeviceClock::count(Stream& stream, const std::shared_ptr<ExactPlan>& plan) {
  std::lock_guard lock(mutex_);
  push_locked(Step::kRun, stream, plan, nullptr);
}

void DeviceClock::count(Stream& stream, TimedLaunch launch) {
  auto plan = std::make_shared<ExactPlan>();
  plan->launches.push_back(std::move(launch));
  count(stream, plan);
}

void DeviceClock::mark(Stream& stream, const std::shared_ptr<ClockMark>& mark) {
  std::lock_guard lock(mutex_);
  push_locked(Step::kMark, stream, nullptr, mark);
}

void DeviceClock::wait(Stream& stream, const std::shared_ptr<ClockMark>& mark) {
  std::lock_guard lock(mutex_);
  push_locked(Step::kWait, stream, nullptr, mark);
}

double DeviceClock::read_ns(const ClockMark& mark) {
  std::lock_guard lock(mutex_);
  settle_locked();
  return mark.ns;
}

double DeviceClock::device_seconds() {
  std::lock_guard lock(mutex_);
  settle_locked();
  return total_ns_ * 1e-9;
}

void DeviceClock::reset() {
  std::lock_guard lock(mutex_);
  settle_locked();
  total_ns_ = 0;
}

}  // namespace nax
