// Device addresses: a PROT_NONE reservation cut into 4 MiB chunks. A chunk holds slots of one
// power-of-two size, or is part of one large buffer. Address space is cheap, so nothing is packed
// tightly: what counts is that giving out, taking back and looking up cost no search for small
// buffers. Not thread-safe: Hbm locks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "device/base/status.h"
#include "device/hbm/hbm.h"

namespace nax {

class AddressSpace {
 public:
  // At least `least` bytes, if possible `wanted`.
  static StatusOr<std::unique_ptr<AddressSpace>> create(uint64_t wanted, uint64_t least);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // A range of at least bytes + 1 addresses; null if there is none left.
  Allocation* take(size_t bytes);
  void give_back(Allocation* allocation);
  // The allocation, live or not, whose range holds the address; null where there never was one.
  Allocation* find(uintptr_t address) const;
  bool contains(uintptr_t address) const { return address - base_ < size_; }

 private:
  static constexpr int kChunkShift = 22;
  static constexpr int kMinSlotShift = 9;
  static constexpr int kMaxSlotShift = 20;

  struct Chunk {
    Allocation* first = nullptr;  // its slots, or the one large buffer
    int slot_shift = 0;           // 0: part of a large buffer
  };
  struct SlotClass {
    Allocation* free = nullptr;
    Allocation* fresh = nullptr;  // next slot of the newest chunk that was never used
    Allocation* fresh_end = nullptr;
    uintptr_t fresh_address = 0;
  };

  AddressSpace(uintptr_t base, uint64_t size);
  Allocation* take_fresh_slot(SlotClass& slots, int shift);
  Allocation* take_large(size_t bytes);
  bool take_chunks(uint64_t count, uint64_t& first);
  void give_back_chunks(uint64_t first, uint64_t count);
  static void* map(size_t bytes, int protection);

  uintptr_t base_;
  uint64_t size_;
  Chunk* chunks_ = nullptr;  // a zero mapping, touched as chunks come into use
  SlotClass slots_[kMaxSlotShift + 1];
  std::map<uint64_t, uint64_t> free_chunks_;  // first chunk → count, never adjacent
  std::deque<Allocation> large_;
  Allocation* free_large_ = nullptr;
  std::vector<std::pair<void*, size_t>> slot_tables_;
};

}  // namespace nax
