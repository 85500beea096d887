// A stream: program order, and the window that its ops are recorded into.
//
// record() appends a compact record to the open window; nothing is allocated once vectors have their size. A cut closes
// the window with a reason and hands it to the hardware queue. Thread-safe: one lock inside, never held during a wait or
// a hook. The owner of a stream is the thread that recorded on it last.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "device/base/status.h"
#include "device/queue/hardware_queue.h"
#include "nax/nax.h"
#include "runtime/stats.h"

namespace nax {

class Buffer;
class Runtime;
struct WindowWork;

class Stream {
 public:
  Stream(Runtime& runtime, int id, int priority);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Runtime& runtime() const { return runtime_; }
  int id() const { return id_; }
  int priority() const { return priority_; }

  // Checks and appends one op. Wrong shapes, dtypes and attributes fail here and leave no trace. In eager mode it runs before
  // the call returns; with launch blocking its error is raised here too. May wait where the host runs ahead too far.
  Status record(const nax_op& op);

  // Closes the window, if it has ops, and returns the ticket of the stream's last work.
  uint64_t cut(CutReason reason, HardwareQueue::Start start);
  // The same, but only where the open window uses the buffer (with `writes_only`: writes it).
  void cut_if_used(Buffer& buffer, bool writes_only, CutReason reason, HardwareQueue::Start start);
  // Pushes work in this stream's order, after a cut. Gives its ticket.
  uint64_t push(HardwareQueue::Work* work, CutReason reason, HardwareQueue::Start start,
                FunctionRef<void(uint64_t)> on_ticket);
  uint64_t last_ticket() const { return last_ticket_.load(std::memory_order_acquire); }
  uint64_t next_sequence();  // for work that is no op of a window
  uint64_t recorded();       // the last sequence number

  bool is_owned_by_this_thread() const;
  void release_at_cut(Buffer* buffer);  // lock-free
  void take_releases();                 // releases from other threads, also without a cut

  void ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  bool try_ref();  // false where the last reference is gone already
  void unref();
  void close();  // the user's handle goes: cuts, then waits for the last user

  double device_clock_ns = 0;  // emulated time at which its work so far ends; with the right to execute

 private:
  ~Stream();
  uint64_t cut_locked(CutReason reason, HardwareQueue::Start start);
  void cut_at_repeat(const nax_op& op);
  Status append_locked(const nax_op& op, WindowWork& work);
  Status append_operand(const nax_operand& operand, bool output, WindowWork& work);
  int32_t intern(Buffer* buffer, WindowWork& work);
  void open_window();

  Runtime& runtime_;
  const int id_;
  const int priority_;
  std::atomic<int32_t> refs_{1};
  std::atomic<const void*> owner_thread_{nullptr};
  std::atomic<Buffer*> releases_{nullptr};
  std::atomic<uint64_t> last_ticket_{0};

  std::mutex mutex_;  // guards what follows
  WindowWork* open_ = nullptr;
  uint64_t next_tag_ = 1;
  uint64_t sequence_ = 0;
  uint64_t window_bytes_ = 0;  // of buffers that the open window writes
  // Where a repeating program repeats: the first op after a cut that the program asked for, and how many ops ago it was.
  uint64_t anchor_ = 0;
  uint32_t since_anchor_ = 0;
};

}  // namespace nax
