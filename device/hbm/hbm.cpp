#include "device/hbm/hbm.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "device/hbm/address_space.h"
#include "device/hbm/host_memory.h"

namespace nax {
namespace {

std::string mib(uint64_t bytes) {
  return std::to_string(bytes) + " bytes (" + std::to_string(bytes >> 20) + " MiB)";
}

}  // namespace

// Two locks: addresses and the account on the recording path; memory, which may call the host, on
// the other.
struct Hbm::Impl {
  Impl(const Options& options, std::unique_ptr<AddressSpace> space)
      : capacity(options.capacity),
        fail_in(options.fail_reserve_at),
        addresses(std::move(space)),
        memory(options.capacity, options.poison) {}

  const uint64_t capacity;

  mutable std::mutex mutex;
  uint64_t charged = 0, charged_peak = 0, allocations = 0, frees = 0, ooms = 0;
  uint64_t fail_in;
  std::unique_ptr<AddressSpace> addresses;

  mutable std::mutex memory_mutex;
  uint64_t physical = 0, physical_peak = 0, memory_ooms = 0;
  HostMemory memory;

  Status full(size_t bytes, const char* what) const {
    return {StatusCode::kResourceExhausted,
            std::string(what) + ": tried to allocate " + mib(bytes) + "; capacity " +
                mib(capacity) + ", in use " + mib(charged) + " by " +
                std::to_string(allocations - frees) + " buffers",
            ErrorReason::kHbmExhausted};
  }
};

Hbm::Hbm(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Hbm::~Hbm() = default;

StatusOr<std::unique_ptr<Hbm>> Hbm::create(const Options& options) {
  if (options.capacity == 0 || options.capacity > uint64_t{1} << 42)
    return invalid_argument("HBM capacity must be from 1 byte to 4 TiB, not " +
                            std::to_string(options.capacity));
  const uint64_t chunk = uint64_t{4} << 20;
  const uint64_t least = std::max(8 * options.capacity, 64 * chunk);
  const uint64_t wanted = std::max(64 * options.capacity, options.address_space);
  NAX_ASSIGN_OR_RETURN(auto space, AddressSpace::create(wanted, least));
  return std::unique_ptr<Hbm>(new Hbm(std::make_unique<Impl>(options, std::move(space))));
}

StatusOr<Allocation*> Hbm::reserve(size_t bytes) {
  Impl& h = *impl_;
  std::lock_guard lock(h.mutex);
  const bool injected = h.fail_in != 0 && --h.fail_in == 0;
  const uint64_t charge = bytes > h.capacity ? bytes : (bytes + 511) & ~size_t{511};
  if (charge > h.capacity - h.charged || injected) {
    ++h.ooms;
    return h.full(bytes, "device memory (HBM) exhausted");
  }
  Allocation* a = h.addresses->take(bytes);
  if (!a) {
    ++h.ooms;
    return h.full(bytes, "device address space exhausted");
  }
  a->bytes_ = bytes;
  a->host_ = nullptr;
  a->owner = nullptr;
  a->live_ = true;
  h.charged += charge;
  h.charged_peak = std::max(h.charged_peak, h.charged);
  ++h.allocations;
  return a;
}

StatusOr<void*> Hbm::materialize(Allocation& a) {
  if (a.host_) return a.host_;
  Impl& h = *impl_;
  {
    std::lock_guard lock(h.memory_mutex);
    a.host_ = h.memory.take(a.bytes_);
    if (a.host_) {
      h.physical += a.charged();
      h.physical_peak = std::max(h.physical_peak, h.physical);
      return a.host_;
    }
    ++h.memory_ooms;
  }
  std::lock_guard lock(h.mutex);
  return h.full(a.bytes_, "the host has no memory for device memory");
}

void Hbm::release(Allocation* a) {
  Impl& h = *impl_;
  if (a->host_) {
    std::lock_guard lock(h.memory_mutex);
    h.memory.give_back(a->host_, a->bytes_);
    h.physical -= a->charged();
    a->host_ = nullptr;
  }
  std::lock_guard lock(h.mutex);
  a->live_ = false;
  h.charged -= a->charged();
  ++h.frees;
  h.addresses->give_back(a);
}

Hbm::Found Hbm::find(uintptr_t address) const {
  std::lock_guard lock(impl_->mutex);
  Allocation* a = impl_->addresses->find(address);
  if (!a || !a->live_ || address - a->address_ > a->bytes_) return {};
  return {a, address - a->address_};
}

bool Hbm::is_device_address(uintptr_t address) const { return impl_->addresses->contains(address); }

HbmStats Hbm::stats() const {
  const Impl& h = *impl_;
  HbmStats s;
  s.capacity = h.capacity;
  {
    std::lock_guard lock(h.mutex);
    s.charged = h.charged;
    s.charged_peak = h.charged_peak;
    s.allocations = h.allocations;
    s.frees = h.frees;
    s.ooms = h.ooms;
  }
  std::lock_guard lock(h.memory_mutex);
  s.physical = h.physical;
  s.physical_peak = h.physical_peak;
  s.mapped = h.memory.mapped();
  s.ooms += h.memory_ooms;
  return s;
}

void Hbm::reset_peaks() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->charged_peak = impl_->charged;
  }
  std::lock_guard lock(impl_->memory_mutex);
  impl_->physical_peak = impl_->physical;
}

uint64_t Hbm::trim() {
  std::lock_guard lock(impl_->memory_mutex);
  return impl_->memory.trim();
}

void Hbm::set_fail_reserve_at(uint64_t k) {
  std::lock_guard lock(impl_->mutex);
  impl_->fail_in = k;
}

}  // namespace nax
