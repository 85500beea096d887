#include "device/queue/hardware_queue.h"

#include <immintrin.h>

#include <chrono>

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
    if (start == Start::kNow) {
      if (!engine_started_.load(std::memory_order_relaxed)) {
        engine_ = std::thread([this] { engine_main(); });
        engine_started_.store(true, std::memory_order_release);
      } else {
        notify = engine_parked_;
      }
    }
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
void HardwareQueue::help_until(Done done, Hook hook) {
  if (done()) return;
  hook(true);
  {
    std::unique_lock lock(mutex_);
    while (!done()) {
      if (run_one(lock)) continue;
      // Another thread executes. Most programs are short: spin before sleeping.
      const uint64_t seen = completed_.load(std::memory_order_acquire);
      lock.unlock();
      spin_until([&] { return completed_.load(std::memory_order_acquire) != seen; });
      lock.lock();
      if (done() || !executing_) continue;
      ++waiters_;
      work_done_.wait(lock);
      --waiters_;
    }
  }
  hook(false);
}

void HardwareQueue::wait(uint64_t ticket, Hook hook) {
  help_until([&] { return this->done(ticket); }, hook);
}

void HardwareQueue::wait_for_room(Hook hook) {
  help_until([&] { return has_room(); }, hook);
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
