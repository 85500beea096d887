#include "runtime/tiering.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

namespace nax {
namespace {

// Objects whose thread was started. Never destroyed itself.
struct Registry {
  std::mutex mutex;
  std::vector<Tiering*> started;
};

Registry& registry() {
  static Registry& r = *new Registry;
  return r;
}

void stop_at_exit() {
  Registry& r = registry();
  std::vector<Tiering*> started;
  {
    std::unique_lock lock(r.mutex, std::try_to_lock);
    if (!lock) return;
    started = r.started;
  }
  for (Tiering* tiering : started) tiering->stop();
}

}  // namespace

Tiering::Tiering(Tier tier, CompileFunction compile, Stats& stats, FaultInjection& faults)
    : tier_(tier), compile_(compile), stats_(stats), faults_(faults) {}

Tiering::~Tiering() {
  {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    std::erase(r.started, this);
  }
  stop();
  if (thread_.joinable()) thread_.join();
}

void Tiering::stop() {
  if (process_ != getpid()) return;
  std::unique_lock lock(mutex_);
  stopping_ = true;
  queue_.clear();
  changed_.notify_all();
  changed_.wait(lock, [&] { return !running_; });
}

void Tiering::compile(ProgramEntry& entry, int level, bool background) {
  const auto start = std::chrono::steady_clock::now();
  int kernels = 0;
  const Status status = faults_.compile.fires()
                            ? Status(StatusCode::kInternal, "injected compile failure", ErrorReason::kCompileFailed)
                            : compile_(*entry.prepared, level, &kernels);
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  stats_.add_compile_ns(background, static_cast<uint64_t>(ns));
  if (!status.ok()) {
    stats_.add(Counter::k_jit_failures);
  } else if (kernels > 0) {
    stats_.add(level == 0 ? Counter::k_jit_compiles : Counter::k_jit_promotions);
  }
  if (level > 0) return;  // whatever came of it, the code of level 0 is there
  entry.tier.store(status.ok() && kernels > 0 ? ProgramEntry::Tier::kCompiled : ProgramEntry::Tier::kNotCompiled,
                   std::memory_order_release);
}

bool Tiering::enqueue(const std::shared_ptr<ProgramEntry>& entry, int level) {
  // Here and not on the compile thread: only what is complete before the exit handler is registered outlives the handler.
  start_host_compiler();
  {
    std::lock_guard lock(mutex_);
    if (queue_.size() >= kMaxQueued || stopping_) return false;
    queue_.push_back({entry, level});
    if (!thread_.joinable()) {
      process_ = getpid();
      thread_ = std::thread([this] { main(); });
      Registry& r = registry();
      std::lock_guard registered(r.mutex);
      [[maybe_unused]] static const int at_exit = std::atexit(stop_at_exit);
      r.started.push_back(this);
    }
  }
  changed_.notify_all();
  return true;
}

void Tiering::sight(const std::shared_ptr<ProgramEntry>& entry, bool may_compile) {
  if (!compile_ || tier_ == Tier::kInterpret || !may_compile) return;
  using State = ProgramEntry::Tier;
  const State state = entry->tier.load(std::memory_order_acquire);
  if (state != State::kCold && state != State::kCompiled) return;
  if (tier_ == Tier::kJit) {
    State cold = State::kCold;
    if (entry->tier.compare_exchange_strong(cold, State::kQueued)) compile(*entry, 0, false);
    return;
  }
  const uint32_t sightings = entry->sightings.fetch_add(1, std::memory_order_relaxed) + 1;
  State from = state;
  if (state == State::kCold) {
    if (sightings < kSightings || !entry->tier.compare_exchange_strong(from, State::kQueued)) return;
    if (!enqueue(entry, 0)) entry->tier.store(State::kCold, std::memory_order_release);
  } else {
    if (sightings < kPromoteAt || !entry->tier.compare_exchange_strong(from, State::kPromoted)) return;
    if (!enqueue(entry, 1)) entry->tier.store(State::kCompiled, std::memory_order_release);
  }
}

void Tiering::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return (queue_.empty() && !running_) || stopping_; });
}

void Tiering::main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !queue_.empty() || stopping_; });
    if (stopping_) return;
    Request request = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    lock.unlock();
    compile(*request.entry, request.level, true);
    request.entry.reset();
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace nax
