// The emulated HBM of one core: device addresses, memory behind them, and the account of both.
//
// A buffer gets a unique device address at birth (reserve) and host memory only when something is
// about to write it (materialize). Device addresses lie in a PROT_NONE reservation: using one as a
// host pointer faults. The memory is a separate mapping, given by Allocation::host(). Freed memory
// stays mapped in free lists until trim() or until new memory needs the room. Capacity bounds the
// bytes of all live buffers, whether they have memory or not.
//
// Thread-safe throughout. An Allocation belongs to whoever reserved it until release().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/base/status.h"

namespace nax {

class Allocation {
 public:
  uintptr_t address() const { return address_; }  // 512-byte aligned
  size_t bytes() const { return bytes_; }
  // Null until materialized. 64-byte aligned, page aligned above 64 KiB.
  void* host() const { return host_; }
  // What is accounted: bytes rounded up to 512.
  size_t charged() const { return (bytes_ + 511) & ~size_t{511}; }

  void* owner = nullptr;  // for the user of the allocation (its buffer object); null after reserve
  // Room for that object: it lives and dies with the allocation, and costs no allocation of its own.
  static constexpr size_t kOwnerBytes = 128;
  alignas(16) std::byte owner_storage[kOwnerBytes];

 private:
  friend class Hbm;
  friend class AddressSpace;
  uintptr_t address_ = 0;
  size_t bytes_ = 0;
  void* host_ = nullptr;
  Allocation* next_free_ = nullptr;
  bool live_ = false;
};

struct HbmStats {
  uint64_t capacity = 0;
  uint64_t charged = 0;        // bytes of live buffers
  uint64_t charged_peak = 0;   // since reset_peaks
  uint64_t physical = 0;       // bytes of live buffers that have memory
  uint64_t physical_peak = 0;  // since reset_peaks
  uint64_t mapped = 0;         // host bytes held by blocks, live ones and those in free lists
  uint64_t allocations = 0;    // reserve calls that succeeded
  uint64_t frees = 0;
  uint64_t ooms = 0;  // reserve and materialize calls that failed for lack of memory
};

class Hbm {
 public:
  struct Options {
    uint64_t capacity = 0;  // bytes
    uint64_t address_space = uint64_t{1}
                             << 40;  // wanted size of the reservation; raised to 64 x capacity,
                                     // halved where the host refuses, down to 8 x capacity
    bool poison =
        false;  // fill memory with 0xff (NaN, -1) when it is handed out and when it is freed
    uint64_t fail_reserve_at =
        0;  // tests: the k-th reserve from now (1-based) fails as if HBM were full; 0 never
  };

  static StatusOr<std::unique_ptr<Hbm>> create(const Options& options);
  ~Hbm();  // unmaps everything; all allocations die
  Hbm(const Hbm&) = delete;
  Hbm& operator=(const Hbm&) = delete;

  // An address range of its own and `bytes` on the account; no memory. Size 0 is fine and gets an
  // address too. Over capacity: kResourceExhausted / kHbmExhausted with the numbers.
  StatusOr<Allocation*> reserve(size_t bytes);

  // Gives the allocation memory if it has none, and returns it. Contents are whatever was there.
  // Fails with kHbmExhausted if the host refuses. One thread per allocation at a time. Size 0 gets
  // a valid pointer too.
  StatusOr<void*> materialize(Allocation& allocation);

  // Takes back memory and address. The pointer is dead afterwards; its address may be given out
  // again.
  void release(Allocation* allocation);

  struct Found {
    Allocation* allocation = nullptr;  // null: no live buffer there
    size_t offset = 0;                 // up to and including bytes()
  };
  // The live buffer that contains a device address; one past a buffer's end still belongs to it.
  Found find(uintptr_t device_address) const;
  bool is_device_address(uintptr_t address) const;

  HbmStats stats() const;
  void reset_peaks();  // peaks become the present values
  // Gives free blocks above 64 KiB back to the host, and returns how many bytes that were.
  uint64_t trim();
  void set_fail_reserve_at(uint64_t k);

 private:
  struct Impl;
  explicit Hbm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nax
