#include "api/torch/allocator.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <utility>

#include "api/torch/gil.h"
#include "api/torch/record.h"
#include "api/torch/status.h"

namespace nax::binding {
namespace {

using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

// What the program asked for, as if nothing were deferred. Totals only grow, so that an allocation costs two locked
// additions: what is live is their difference. `*_base` are the totals at the last reset.
struct Usage {
  std::atomic<int64_t> bytes_in{0}, bytes_out{0}, count_in{0}, count_out{0};
  std::atomic<int64_t> peak_bytes{0}, peak_count{0}, out_of_memory{0};
  std::atomic<int64_t> bytes_in_base{0}, bytes_out_base{0}, count_in_base{0}, count_out_base{0};

  int64_t live_bytes() const { return bytes_in - bytes_out; }
  int64_t live_count() const { return count_in - count_out; }
};
Usage usage[kMaxDevices];

void raise_peak(std::atomic<int64_t>& peak, int64_t now) {
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

void count_allocation(int device, int64_t bytes) {
  Usage& u = usage[device];
  constexpr auto relaxed = std::memory_order_relaxed;
  raise_peak(u.peak_bytes, u.bytes_in.fetch_add(bytes, relaxed) + bytes - u.bytes_out.load(relaxed));
  raise_peak(u.peak_count, u.count_in.fetch_add(1, relaxed) + 1 - u.count_out.load(relaxed));
}

// A deleter sees the context alone; one function per device spares an allocation that would carry the index.
template <int kDevice>
void release_buffer(void* context) {
  if (in_bad_fork()) return;  // the parent owns it; its locks may be held here for ever
  auto* buffer = static_cast<nax_buffer*>(context);
  const auto bytes = static_cast<int64_t>(nax_buffer_bytes(buffer));
  Usage& u = usage[kDevice];
  u.bytes_out.fetch_add(bytes, std::memory_order_relaxed);
  u.count_out.fetch_add(1, std::memory_order_relaxed);
  nax_buffer_release(buffer);
}

template <int... kIndices>
constexpr auto make_deleters(std::integer_sequence<int, kIndices...>) {
  return std::array<c10::DeleterFnPtr, sizeof...(kIndices)>{&release_buffer<kIndices>...};
}
constexpr auto kDeleters = make_deleters(std::make_integer_sequence<int, kMaxDevices>());

void fill(c10::CachingAllocator::Stat& stat, int64_t current, int64_t peak, int64_t allocated,
          int64_t freed) {
  stat.current = current;
  stat.peak = peak;
  stat.allocated = allocated;
  stat.freed = freed;
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override { return allocate_on(current_device(), bytes); }

  // raw_allocate needs a context that is the data; a device address cannot be released by address alone.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    for (c10::DeviceIndex d = 0; d < device_count(); ++d) {
      if (!has_runtime(d)) continue;
      nax_buffer* to = nax_runtime_find_buffer(runtime(d), target);
      nax_buffer* from = nax_runtime_find_buffer(runtime(d), source);
      if (to == nullptr || from == nullptr) continue;
      copy_bytes(d, to, static_cast<char*>(target) - static_cast<char*>(nax_buffer_address(to)), from,
                 static_cast<const char*>(source) - static_cast<char*>(nax_buffer_address(from)),
                 static_cast<int64_t>(bytes));
      return;
    }
    TORCH_CHECK(bytes == 0, "copy between addresses that are not memory of one neuron device");
  }

  bool initialized() override { return has_runtime(current_device()); }

  void emptyCache(c10::MempoolId_t /*pool*/) override {
    for (c10::DeviceIndex d = 0; d < device_count(); ++d) {
      if (has_runtime(d)) nax_runtime_trim_memory(runtime(d));
    }
  }

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (data.get() == nullptr) return;
    nax_buffer* buffer = nax_runtime_find_buffer(runtime(stream.device_index()), data.get());
    if (buffer != nullptr) {
      nax_buffer_record_stream(buffer, stream_of(stream.device_index(), stream.id()));
    }
  }

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    TORCH_CHECK(device >= 0 && device < device_count(), "invalid neuron device index ", int(device));
    DeviceStats stats;
    const Usage& u = usage[device];
    for (size_t i : {size_t(StatType::AGGREGATE), size_t(StatType::LARGE_POOL)}) {
      fill(stats.allocation[i], u.live_count(), u.peak_count, u.count_in - u.count_in_base,
           u.count_out - u.count_out_base);
      stats.active[i] = stats.segment[i] = stats.allocation[i];
      fill(stats.allocated_bytes[i], u.live_bytes(), u.peak_bytes, u.bytes_in - u.bytes_in_base,
           u.bytes_out - u.bytes_out_base);
      stats.active_bytes[i] = stats.requested_bytes[i] = stats.allocated_bytes[i];
      stats.reserved_bytes[i] = stats.allocated_bytes[i];
    }
    if (has_runtime(device)) {
      nax_memory_info info = {};
      info.struct_size = sizeof(info);
      check(nax_runtime_memory_info(runtime(device), &info));
      const auto held = static_cast<int64_t>(info.physical_bytes + info.cached_bytes);
      for (size_t i : {size_t(StatType::AGGREGATE), size_t(StatType::LARGE_POOL)}) {
        fill(stats.reserved_bytes[i], held, std::max<int64_t>(held, int64_t(info.physical_peak_bytes)),
             held, 0);
      }
    }
    stats.num_ooms = u.out_of_memory;
    stats.num_device_alloc = u.count_in - u.count_in_base;
    stats.num_device_free = u.count_out - u.count_out_base;
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    Usage& u = usage[device];
    u.bytes_in_base = u.bytes_in.load();
    u.bytes_out_base = u.bytes_out.load();
    u.count_in_base = u.count_in.load();
    u.count_out_base = u.count_out.load();
    u.out_of_memory = 0;
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    Usage& u = usage[device];
    u.peak_bytes = u.live_bytes();
    u.peak_count = u.live_count();
    if (has_runtime(device)) nax_runtime_reset_memory_peak(runtime(device));
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    nax_memory_info info = {};
    info.struct_size = sizeof(info);
    check(nax_runtime_memory_info(runtime(device), &info));
    const uint64_t used = std::min(info.charged_bytes, info.capacity_bytes);
    return {static_cast<size_t>(info.capacity_bytes - used), static_cast<size_t>(info.capacity_bytes)};
  }
};

Allocator& allocator() {
  static auto* one = new Allocator();
  return *one;
}

}  // namespace

c10::Allocator* device_allocator() { return &allocator(); }

c10::DataPtr allocate_on(c10::DeviceIndex device, size_t bytes) {
  const c10::Device where(kNeuron, device);
  if (bytes == 0) {
    runtime(device);  // a bad environment shows at first use, whatever that is
    return {nullptr, nullptr, kDeleters[device], where};
  }
  nax_buffer* buffer = nullptr;
  nax_status* status =
      nax_buffer_create(runtime(device), current_stream(device), bytes, &buffer);
  if (status != nullptr) {
    if (nax_status_reason(status) == NAX_REASON_HBM_EXHAUSTED) ++usage[device].out_of_memory;
    check(status);
  }
  count_allocation(device, static_cast<int64_t>(nax_buffer_bytes(buffer)));
  return {nax_buffer_address(buffer), buffer, kDeleters[device], where};
}

nax_buffer* buffer_of(const c10::StorageImpl& storage, int64_t* offset_bytes) {
  const c10::DataPtr& data = storage.data_ptr();
  *offset_bytes = 0;
  if (data.get() == nullptr) return nullptr;
  const c10::DeviceIndex device = storage.device().index();
  if (data.get_deleter() == kDeleters[device]) return static_cast<nax_buffer*>(data.get_context());
  nax_buffer* buffer = nax_runtime_find_buffer(runtime(device), data.get());
  TORCH_CHECK(buffer != nullptr, "a neuron storage at ", data.get(), " is not memory of neuron:",
              int(device));
  *offset_bytes =
      static_cast<const char*>(data.get()) - static_cast<const char*>(nax_buffer_address(buffer));
  return buffer;
}

void resize_storage(c10::StorageImpl& storage, size_t bytes, bool keep) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  const c10::DeviceIndex device = storage.device().index();
  c10::DataPtr fresh = allocate_on(device, bytes);
  const size_t kept = keep ? std::min(bytes, storage.nbytes()) : 0;
  if (kept > 0) {
    int64_t offset = 0;
    nax_buffer* from = buffer_of(storage, &offset);
    copy_bytes(device, static_cast<nax_buffer*>(fresh.get_context()), 0, from, offset,
               static_cast<int64_t>(kept));
  }
  storage.set_data_ptr_noswap(std::move(fresh));
  storage.set_nbytes(bytes);
}

REGISTER_ALLOCATOR(kNeuron, &allocator())

}  // namespace nax::binding
