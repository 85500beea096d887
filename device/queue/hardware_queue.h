// The hardware queue of one core: work runs in the order in which it was pushed, one at a time.
//
// Whoever waits executes. A thread that waits for a ticket runs the queue itself while nobody else does; an engine
// thread, started by the first asynchronous push and never before, runs it while nobody waits. The engine thread spins
// for at most 50 us, then parks. Only a wait that may be interrupted leaves heavy work to the engine thread: work that has
// begun cannot be left. Because the order is one, a ticket that is done says that all earlier ones are.
//
// Thread-safe throughout. No lock is held while work runs or while a hook is called.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "device/base/function_ref.h"

namespace nax {

class HardwareQueue {
 public:
  // One entry. The queue calls run() once and forgets the object: run() disposes of it, and must not wait for the queue.
  class Work {
   public:
    virtual void run() = 0;
    uint32_t ops = 0;        // run-ahead accounting
    uint64_t bytes = 0;
    bool heavy = false;      // may run for longer than an interruptible wait is deaf

   protected:
    ~Work() = default;  // never deleted through this type

   private:
    friend class HardwareQueue;
    Work* next_ = nullptr;
  };

  // How far the host may run ahead of the device. At least one entry is always admitted.
  struct Limits {
    uint32_t entries = 8;
    uint64_t ops = 8192;
    uint64_t bytes = uint64_t{4} << 30;
  };

  explicit HardwareQueue(Limits limits);
  HardwareQueue() : HardwareQueue(Limits()) {}
  ~HardwareQueue();  // runs what is left
  HardwareQueue(const HardwareQueue&) = delete;
  HardwareQueue& operator=(const HardwareQueue&) = delete;

  enum class Start : uint8_t {
    kWhenWaited = 0,  // the caller is about to wait: nobody is woken
    kNow = 1,         // the engine thread takes it
  };
  // Never waits. Tickets ascend from 1. `on_ticket` is called with the ticket before anything can run the work, with the
  // queue's lock held: it must be short and must not call the queue.
  uint64_t push(Work* work, Start start, FunctionRef<void(uint64_t ticket)> on_ticket);
  uint64_t push(Work* work, Start start) {
    return push(work, start, [](uint64_t) {});
  }

  // Called around a wait: true before it, false after it, on the waiting thread. Not called where there is none.
  using Hook = FunctionRef<void(bool begin)>;
  // Asked on the waiting thread, inside of the hook's pair, every kCheckInterval; true ends the wait, and the engine thread
  // takes what is left.
  using Interrupt = FunctionRef<bool()>;
  static constexpr std::chrono::milliseconds kCheckInterval{10};
  void wait(uint64_t ticket, Hook hook);
  void wait_for_room(Hook hook);
  // These return false where they were interrupted.
  bool wait(uint64_t ticket, Hook hook, Interrupt interrupt);
  bool wait_for_room(Hook hook, Interrupt interrupt);
  // Waits for everything pushed so far.
  void drain(Hook hook) { wait(pushed(), hook); }

  bool done(uint64_t ticket) const { return completed_.load(std::memory_order_acquire) >= ticket; }
  bool has_room() const { return room_.load(std::memory_order_acquire); }
  uint64_t pushed() const { return pushed_.load(std::memory_order_acquire); }
  // Highest number of entries that were in the queue at once.
  uint32_t deepest() const { return deepest_.load(std::memory_order_relaxed); }
  bool engine_started() const { return engine_started_.load(std::memory_order_acquire); }

 private:
  bool run_one(std::unique_lock<std::mutex>& lock);
  void update_room();
  void engine_main();
  bool wake_engine();
  template <class Done>
  bool help_until(Done done, Hook hook, const Interrupt* interrupt);

  const Limits limits_;
  std::mutex mutex_;  // guards what follows, but for the atomics' readers
  std::condition_variable work_arrived_, work_done_;
  Work* head_ = nullptr;
  Work* tail_ = nullptr;
  bool executing_ = false;
  bool stopping_ = false;
  bool engine_parked_ = false;
  int waiters_ = 0;
  uint32_t entries_ = 0;
  uint64_t ops_ = 0, bytes_ = 0;
  std::atomic<uint64_t> pushed_{0}, completed_{0};
  std::atomic<uint32_t> queued_{0};  // entries that nobody has taken: what the engine thread spins on
  std::atomic<bool> room_{true};
  std::atomic<uint32_t> deepest_{0};
  std::atomic<bool> engine_started_{false};
  std::thread engine_;
};

}  // namespace nax
