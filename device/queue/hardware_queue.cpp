#include "device/queue/hardware_queue.h"

#include <immintrin.h>

namespace nax {
namespace {

constexpr auto kSpin = std::chrono::microseconds(50);

// Spins until the predicate holds or the time is over.
template <class Predicate>
bool spin_until(Predicate predicate) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (predicate()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return predicate();
}

}  // namespace

HardwareQueue::HardwareQueue(Limits limits) : limits_(limits) {}

HardwareQueue::~HardwareQueue() {
  drain([](bool) {});
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_arrived_.notify_all();
  if (engine_.joinable()) engine_.join();
}

void HardwareQueue::update_room() {
  room_.store(entries_ == 0 || (entries_ < limits_.entries && ops_ < limits_.ops && bytes_ < limits_.bytes),
              std::memory_order_release);
}

// With the lock held. True where the caller must notify work_arrived_.
bool HardwareQueue::wake_engine() {
  if (engine_started_.load(std::memory_order_relaxed)) return engine_parked_;
  engine_ = std::thread([this] { engine_main(); });
  engine_started_.store(true, std::memory_order_release);
  return false;
}

uint64_t HardwareQueue::push(Work* work, Start start, FunctionRef<void(uint64_t ticket)> on_ticket) {
  bool notify = false;
  uint64_t ticket;
  {
    std::lock_guard lock(mutex_);
    ticket = pushed_.load(std::memory_order_relaxed) + 1;
    on_ticket(ticket);
    work->next_ = nullptr;
    (tail_ ? tail_->next_ : head_) = work;
    tail_ = work;
    ++entries_;
    ops_ += work->ops;
    bytes_ += work->bytes;
    if (entries_ > deepest_.load(std::memory_order_relaxed)) deepest_.store(entries_, std::memory_order_relaxed);
    update_room();
    queued_.fetch_add(1, std::memory_order_release);
    pushed_.store(ticket, std::memory_order_release);
    if (start == Start::kNow) notify = wake_engine();
  }
  if (notify) work_arrived_.notify_one();
  return ticket;
}

// With the lock held and the right to execute free: takes the first entry and runs it unlocked.
bool HardwareQueue::run_one(std::unique_lock<std::mutex>& lock) {
  if (executing_ || !head_) return false;
  Work* work = head_;
  head_ = work->next_;
  if (!head_) tail_ = nullptr;
  const uint32_t ops = work->ops;
  const uint64_t bytes = work->bytes;
  queued_.fetch_sub(1, std::memory_order_relaxed);
  executing_ = true;
  lock.unlock();
  work->run();
  lock.lock();
  executing_ = false;
  --entries_;
  ops_ -= ops;
  bytes_ -= bytes;
  update_room();
  completed_.fetch_add(1, std::memory_order_acq_rel);
  if (waiters_ > 0) work_done_.notify_all();
  return true;
}

template <class Done>
bool HardwareQueue::help_until(Done done, Hook hook, const Interrupt* interrupt) {
  if (done()) return true;
  hook(true);
  bool interrupted = false;
  {
    auto next_check = std::chrono::steady_clock::now() + kCheckInterval;
    std::unique_lock lock(mutex_);
    while (!done()) {
      if (interrupt && std::chrono::steady_clock::now() >= next_check) {
        lock.unlock();
        interrupted = (*interrupt)();
        next_check = std::chrono::steady_clock::now() + kCheckInterval;
        lock.lock();
        if (interrupted) {
          if (head_ && wake_engine()) work_arrived_.notify_one();
          break;
        }
        continue;
      }
      const bool leave_it = interrupt && head_ && head_->heavy;
      if (!leave_it && run_one(lock)) continue;
      if (leave_it && !executing_ && wake_engine()) work_arrived_.notify_one();
      // Another thread executes. Most programs are short: spin before sleeping.
      const uint64_t seen = completed_.load(std::memory_order_acquire);
      lock.unlock();
      spin_until([&] { return completed_.load(std::memory_order_acquire) != seen; });
      lock.lock();
      if (completed_.load(std::memory_order_acquire) != seen || !(executing_ || leave_it)) continue;
      ++waiters_;
      if (interrupt)
        work_done_.wait_until(lock, next_check);
      else
        work_done_.wait(lock);
      --waiters_;
    }
  }
  hook(false);
  return !interrupted;
}

void HardwareQueue::wait(uint64_t ticket, Hook hook) {
  help_until([&] { return this->done(ticket); }, hook, nullptr);
}

bool HardwareQueue::wait(uint64_t ticket, Hook hook, Interrupt interrupt) {
  return help_until([&] { return this->done(ticket); }, hook, &interrupt);
}

void HardwareQueue::wait_for_room(Hook hook) {
  help_until([&] { return has_room(); }, hook, nullptr);
}

bool HardwareQueue::wait_for_room(Hook hook, Interrupt interrupt) {
  return help_until([&] { return has_room(); }, hook, &interrupt);
}

void HardwareQueue::engine_main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (run_one(lock)) continue;
    if (head_) {  // a waiting thread executes; it may leave entries behind when it has what it wanted
      ++waiters_;
      work_done_.wait(lock);
      --waiters_;
      continue;
    }
    if (stopping_) return;
    lock.unlock();
    const bool found = spin_until([&] { return queued_.load(std::memory_order_acquire) != 0; });
    lock.lock();
    if (found || head_ || stopping_) continue;
    engine_parked_ = true;
    work_arrived_.wait(lock, [&] { return head_ || stopping_; });
    engine_parked_ = false;
  }
}

}  // namespace nax
