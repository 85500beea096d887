#include "device/matmul/scratch.h"

#include <sys/mman.h>

#include <new>

namespace nax::matmul_detail {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

void* allocate(size_t bytes) {
  const size_t align = bytes >= kHugePage ? kHugePage : 64;
  void* p = ::operator new(bytes, std::align_val_t(align));
  if (bytes >= kHugePage) madvise(p, bytes & ~(kHugePage - 1), MADV_HUGEPAGE);
  return p;
}
void release(void* p, size_t bytes) {
  ::operator delete(p, std::align_val_t(bytes >= kHugePage ? kHugePage : 64));
}

struct Buffer {
  void* data = nullptr;
  size_t bytes = 0;
  bool lent = false;
  ~Buffer() {
    if (data) release(data, bytes);
  }
};
thread_local Buffer t_buffers[2];

}  // namespace

Scratch::Scratch(int slot, size_t bytes) : slot_(slot) {
  Buffer& buffer = t_buffers[slot];
  if (buffer.lent) {
    slot_ = -1;
    data_ = ::operator new(bytes, std::align_val_t(64));
    return;
  }
  if (buffer.bytes < bytes) {
    if (buffer.data) release(buffer.data, buffer.bytes);
    buffer.data = nullptr;
    buffer.bytes = 0;
    buffer.data = allocate(bytes);
    buffer.bytes = bytes;
  }
  buffer.lent = true;
  data_ = buffer.data;
}

Scratch::~Scratch() {
  if (slot_ < 0)
    ::operator delete(data_, std::align_val_t(64));
  else
    t_buffers[slot_].lent = false;
}

}  // namespace nax::matmul_detail
