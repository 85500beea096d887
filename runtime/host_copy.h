// Host-to-device copies that wait in the queue with a snapshot of their source.
#pragma once

#include <cstdint>
#include <memory>

#include "device/queue/hardware_queue.h"

namespace nax {

class Buffer;

struct HostCopy final : HardwareQueue::Work {
  // Takes a reference on the buffer and a copy of the source.
  HostCopy(Buffer& buffer, uint64_t offset, const void* source, uint64_t bytes);
  void run() override;

 private:
  Buffer& buffer_;
  const uint64_t offset_, bytes_;
  std::unique_ptr<char[]> snapshot_;
};

// Copies now; a whole overwrite clears poison. False where the host has no memory for the buffer.
bool copy_to_buffer(Buffer& buffer, uint64_t offset, const void* source, uint64_t bytes);

}  // namespace nax
