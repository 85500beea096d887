// A device buffer: an address from birth, memory when something that survives writes it, and who still needs it.
//
// References: one for the user's handle and one for each window or queued work that uses the buffer; the last one
// frees address and memory. So a release never waits, and memory is never reused before recorded work is through with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "device/base/status.h"
#include "device/hbm/hbm.h"
#include "runtime/error_log.h"

namespace nax {

class Runtime;
class Stream;

class Buffer {
 public:
  // Made in the allocation's own room, which it gives back with the address when the last reference goes.
  static Buffer* make(Runtime& runtime, Stream& owner, Allocation* allocation);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Runtime& runtime() const { return runtime_; }
  Stream& owner() const { return owner_; }
  uintptr_t address() const { return allocation_->address(); }
  uint64_t bytes() const { return allocation_->bytes(); }

  // The user lets go. Any thread, never waits. On the owner stream's thread it counts at once; from another thread,
  // where a window that is still open uses the buffer, at that window's cut (DESIGN I8).
  void release_handle();
  bool handle_alive() const { return state_.load(std::memory_order_relaxed) & kHandle; }
  // Part of a window that is still open.
  bool in_open_window() const { return (state_.load(std::memory_order_acquire) & kOpenMask) != 0; }

  // A window begins to use it; it takes a reference.
  void enter_window() { state_.fetch_add(kOpenOne + 1, std::memory_order_relaxed); }
  // The window is cut, its reference stays. True where the contents must survive it.
  bool leave_window() {
    const uint64_t before = state_.fetch_sub(kOpenOne, std::memory_order_acq_rel);
    return (before & kHandle) || ((before & kOpenMask) >> kOpenShift) > 1;
  }
  // Undoes enter_window.
  void abandon_window() {
    state_.fetch_sub(kOpenOne, std::memory_order_relaxed);
    unref();
  }
  void ref() { state_.fetch_add(1, std::memory_order_relaxed); }
  void unref() {
    if ((state_.fetch_sub(1, std::memory_order_acq_rel) & kRefMask) == 1) destroy();
  }
  // For releases that waited for a cut.
  void drop_handle() {
    if ((state_.fetch_sub(kHandle + 1, std::memory_order_acq_rel) & kRefMask) == 1) destroy();
  }

  // Host address of its memory; gives it memory first where it has none. Any thread.
  StatusOr<void*> host();
  // Null where it has no memory yet.
  void* host_or_null() const { return host_.load(std::memory_order_acquire); }

  // Something was recorded that writes it.
  bool written() const { return written_.load(std::memory_order_relaxed); }
  void set_written() { written_.store(true, std::memory_order_relaxed); }

  // Tickets of the last queued work that uses or writes it; set under the queue's lock, in ascending order.
  void set_used(uint64_t ticket, bool write) {
    last_use_.store(ticket, std::memory_order_release);
    if (write) last_write_.store(ticket, std::memory_order_release);
  }
  uint64_t last_use() const { return last_use_.load(std::memory_order_acquire); }
  uint64_t last_write() const { return last_write_.load(std::memory_order_acquire); }

  // The error that made its contents meaningless. Thread-safe.
  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }
  ErrorRef poison() const;
  void set_poison(ErrorRef error);  // null clears

  // Number in the owner stream's open window, valid where the tag is that window's. Guarded by the owner's lock.
  uint64_t window_tag = 0;
  int32_t window_index = -1;
  Buffer* next_released = nullptr;  // in the owner's list of releases from other threads

 private:
  Buffer(Runtime& runtime, Stream& owner, Allocation* allocation);
  ~Buffer() = default;
  void destroy();

  static constexpr uint64_t kRefMask = 0xffffffff;
  static constexpr int kOpenShift = 32;
  static constexpr uint64_t kOpenOne = uint64_t{1} << kOpenShift;
  static constexpr uint64_t kOpenMask = uint64_t{0xffffff} << kOpenShift;
  static constexpr uint64_t kHandle = uint64_t{1} << 60;

  Runtime& runtime_;
  Stream& owner_;  // holds a reference on it
  Allocation* const allocation_;
  std::atomic<uint64_t> state_{kHandle + 1};
  std::atomic<void*> host_{nullptr};
  std::atomic<bool> written_{false};
  std::atomic<bool> poisoned_{false};
  std::atomic<uint64_t> last_use_{0}, last_write_{0};
  ErrorRef poison_;  // guarded by the runtime's poison mutex
};

}  // namespace nax
