// A window on its way: filled by its stream until the cut, then owned by the queue, then recycled with its capacity.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "device/queue/hardware_queue.h"
#include "fusion/window.h"
#include "runtime/stats.h"

namespace nax {

class Buffer;
class Executor;
class Stream;

struct WindowWork final : HardwareQueue::Work {
  Executor* executor = nullptr;
  Stream* stream = nullptr;          // from the cut on: holds a reference
  Window window;
  std::vector<Buffer*> buffers;      // of Window::buffers; each holds a reference. Null once let go early
  std::vector<uint8_t> written;      // of buffers: some op of the window writes it
  std::unordered_map<Buffer*, int32_t> guests;  // buffers of other streams, by number
  const char* policy = "";           // static text
  CutReason cut = CutReason::k_flush;  // why it ended
  bool may_compile = false;          // the tier rules of adaptive mode hold
  uint64_t tag = 0;                  // unique in the stream
  uint64_t work_estimate = 0;        // elements touched: whether an inline run is worth a wait hook

  void run() override;
  void clear() {
    window.ops.clear();
    window.operands.clear();
    window.attrs.clear();
    window.buffers.clear();
    buffers.clear();
    written.clear();
    if (!guests.empty()) guests.clear();
    work_estimate = 0;
    ops = 0;
    bytes = 0;
    stream = nullptr;
  }
};

}  // namespace nax
