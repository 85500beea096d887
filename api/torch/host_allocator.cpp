// Pinned host memory. The emulated device copies from host memory when an op is recorded, so pinned memory is page-aligned
// memory that knows it is pinned.
#include "api/torch/host_allocator.h"

#include <ATen/core/CachingHostAllocator.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace nax::binding {
namespace {

constexpr size_t kPage = 4096;

struct PinnedBlocks {
  std::mutex mutex;
  std::map<const char*, size_t> live;
  at::HostStats stats;
};

PinnedBlocks& blocks() {
  static auto* one = new PinnedBlocks();
  return *one;
}

void free_pinned(void* memory) {
  PinnedBlocks& b = blocks();
  {
    std::lock_guard lock(b.mutex);
    auto found = b.live.find(static_cast<const char*>(memory));
    b.stats.active_requests.decrease(1);
    b.stats.allocations.decrease(1);
    b.stats.active_bytes.decrease(found->second);
    b.stats.allocated_bytes.decrease(found->second);
    ++b.stats.num_host_free;
    b.live.erase(found);
  }
  std::free(memory);
}

struct HostAllocator final : at::HostAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_nothing, at::kCPU};
    void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
    TORCH_CHECK(memory != nullptr, "cannot allocate ", bytes, " bytes of pinned host memory");
    PinnedBlocks& b = blocks();
    std::lock_guard lock(b.mutex);
    b.live.emplace(static_cast<const char*>(memory), bytes);
    b.stats.active_requests.increase(1);
    b.stats.allocations.increase(1);
    b.stats.active_bytes.increase(bytes);
    b.stats.allocated_bytes.increase(bytes);
    ++b.stats.num_host_alloc;
    return {memory, memory, &free_pinned, at::kCPU};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
  // Copies snapshot their source when recorded: nothing ever waits for a stream.
  bool record_event(void* /*pointer*/, void* /*context*/, c10::Stream /*stream*/) override {
    return true;
  }
  void empty_cache() override {}

  at::HostStats get_stats() override {
    std::lock_guard lock(blocks().mutex);
    return blocks().stats;
  }
  void reset_accumulated_stats() override {
    std::lock_guard lock(blocks().mutex);
    at::HostStats& s = blocks().stats;
    for (auto* stat : {&s.active_requests, &s.allocations, &s.active_bytes, &s.allocated_bytes}) {
      stat->reset_accumulated();
    }
    s.num_host_alloc = s.num_host_free = 0;
  }
  void reset_peak_stats() override {
    std::lock_guard lock(blocks().mutex);
    at::HostStats& s = blocks().stats;
    for (auto* stat : {&s.active_requests, &s.allocations, &s.active_bytes, &s.allocated_bytes}) {
      stat->reset_peak();
    }
  }

 private:
  static void free_nothing(void*) {}
};

HostAllocator& allocator() {
  static auto* one = new HostAllocator();
  return *one;
}

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &allocator())

}  // namespace

bool is_pinned(const void* pointer) {
  PinnedBlocks& b = blocks();
  std::lock_guard lock(b.mutex);
  const auto* p = static_cast<const char*>(pointer);
  auto after = b.live.upper_bound(p);
  return after != b.live.begin() && p < std::prev(after)->first + std::prev(after)->second;
}

}  // namespace nax::binding
