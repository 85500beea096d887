#include "runtime/buffer.h"

#include <new>

#include "runtime/runtime.h"
#include "runtime/stream.h"

namespace nax {

Buffer::Buffer(Runtime& runtime, Stream& owner, Allocation* allocation)
    : runtime_(runtime), owner_(owner), allocation_(allocation) {
  owner_.ref();
  allocation_->owner = this;
}

Buffer* Buffer::make(Runtime& runtime, Stream& owner, Allocation* allocation) {
  static_assert(sizeof(Buffer) <= Allocation::kOwnerBytes && alignof(Buffer) <= 16);
  return new (allocation->owner_storage) Buffer(runtime, owner, allocation);
}

void Buffer::destroy() {
  Runtime& runtime = runtime_;
  Stream& owner = owner_;
  Allocation* allocation = allocation_;
  this->~Buffer();
  runtime.hbm().release(allocation);  // from here on the room may hold another buffer
  owner.unref();
}

void Buffer::release_handle() {
  if (!runtime_.in_its_process()) return;  // a forked child: the locks may be held for ever
  if (!in_open_window() || owner_.is_owned_by_this_thread())
    drop_handle();
  else
    owner_.release_at_cut(this);
}

StatusOr<void*> Buffer::host() {
  if (void* p = host_.load(std::memory_order_acquire)) return p;
  std::lock_guard lock(runtime_.memory_mutex());
  if (void* p = host_.load(std::memory_order_relaxed)) return p;
  NAX_ASSIGN_OR_RETURN(void* p, runtime_.hbm().materialize(*allocation_));
  host_.store(p, std::memory_order_release);
  return p;
}

ErrorRef Buffer::poison() const {
  if (!poisoned()) return nullptr;
  std::lock_guard lock(runtime_.poison_mutex());
  return poison_;
}

void Buffer::set_poison(ErrorRef error) {
  if (!error && !poisoned()) return;
  std::lock_guard lock(runtime_.poison_mutex());
  poisoned_.store(error != nullptr, std::memory_order_release);
  poison_.swap(error);
}

}  // namespace nax
