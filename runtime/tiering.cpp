#include "runtime/tiering.h"

#include <chrono>

namespace nax {

Tiering::Tiering(Tier tier, CompileFunction compile, Stats& stats, FaultInjection& faults)
    : tier_(tier), compile_(compile), stats_(stats), faults_(faults) {}

Tiering::~Tiering() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Tiering::compile(ProgramEntry& entry, bool background) {
  const auto start = std::chrono::steady_clock::now();
  int kernels = 0;
  const Status status = faults_.compile.fires()
                            ? Status(StatusCode::kInternal, "injected compile failure", ErrorReason::kCompileFailed)
                            : compile_(*entry.prepared, &kernels);
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  stats_.add_compile_ns(background, static_cast<uint64_t>(ns));
  stats_.add(status.ok() ? Counter::k_jit_compiles : Counter::k_jit_failures);
  entry.tier.store(status.ok() && kernels > 0 ? ProgramEntry::Tier::kCompiled : ProgramEntry::Tier::kNotCompiled,
                   std::memory_order_release);
}

void Tiering::sight(const std::shared_ptr<ProgramEntry>& entry, bool may_compile) {
  if (!compile_ || tier_ == Tier::kInterpret || !may_compile) return;
  auto cold = ProgramEntry::Tier::kCold;
  if (entry->tier.load(std::memory_order_acquire) != cold) return;
  if (tier_ == Tier::kJit) {
    if (entry->tier.compare_exchange_strong(cold, ProgramEntry::Tier::kQueued)) compile(*entry, false);
    return;
  }
  if (entry->sightings.fetch_add(1, std::memory_order_relaxed) + 1 < kSightings) return;
  if (!entry->tier.compare_exchange_strong(cold, ProgramEntry::Tier::kQueued)) return;
  {
    std::lock_guard lock(mutex_);
    if (queue_.size() >= kMaxQueued || stopping_) {
      entry->tier.store(ProgramEntry::Tier::kCold, std::memory_order_release);
      return;
    }
    queue_.push_back(entry);
    if (!thread_.joinable()) thread_ = std::thread([this] { main(); });
  }
  changed_.notify_all();
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
    std::shared_ptr<ProgramEntry> entry = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    lock.unlock();
    compile(*entry, true);
    entry.reset();
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace nax
