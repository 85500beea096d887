#include "device/hbm/address_space.h"

#include <sys/mman.h>

#include <bit>
#include <iterator>
#include <new>
#include <string>

namespace nax {
namespace {
constexpr uint64_t kChunk = uint64_t{1} << 22;
}

void* AddressSpace::map(size_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

StatusOr<std::unique_ptr<AddressSpace>> AddressSpace::create(uint64_t wanted, uint64_t least) {
  least = (least + kChunk - 1) / kChunk * kChunk;
  uint64_t size = std::max(least, wanted / kChunk * kChunk);
  for (;;) {
    // One chunk more, so that the first one can be aligned.
    if (void* p = map(size + kChunk, PROT_NONE)) {
      const uintptr_t start = reinterpret_cast<uintptr_t>(p);
      const uintptr_t base = (start + kChunk - 1) / kChunk * kChunk;
      if (base > start) munmap(p, base - start);
      if (base + size < start + size + kChunk)
        munmap(reinterpret_cast<void*>(base + size), start + kChunk - base);
      std::unique_ptr<AddressSpace> space(new AddressSpace(base, size));
      if (space->chunks_) return space;
    }
    if (size == least)
      return Status(
          StatusCode::kResourceExhausted,
          "cannot reserve " + std::to_string(least) + " bytes of address space for device memory",
          ErrorReason::kHbmExhausted);
    size = std::max(least, size / 2 / kChunk * kChunk);
  }
}

AddressSpace::AddressSpace(uintptr_t base, uint64_t size) : base_(base), size_(size) {
  chunks_ = static_cast<Chunk*>(map(size / kChunk * sizeof(Chunk), PROT_READ | PROT_WRITE));
  free_chunks_.emplace(0, size / kChunk);
}

AddressSpace::~AddressSpace() {
  munmap(reinterpret_cast<void*>(base_), size_);
  if (chunks_) munmap(chunks_, size_ / kChunk * sizeof(Chunk));
  for (auto& [table, bytes] : slot_tables_) munmap(table, bytes);
}

Allocation* AddressSpace::take(size_t bytes) {
  if (bytes >= size_t{1} << kMaxSlotShift) return take_large(bytes);
  const int shift = std::max<int>(kMinSlotShift, std::bit_width(bytes));  // 2^shift > bytes
  SlotClass& slots = slots_[shift];
  if (Allocation* a = slots.free) {
    slots.free = a->next_free_;
    return a;
  }
  return take_fresh_slot(slots, shift);
}

Allocation* AddressSpace::take_fresh_slot(SlotClass& slots, int shift) {
  if (slots.fresh == slots.fresh_end) {
    uint64_t chunk;
    if (!take_chunks(1, chunk)) return nullptr;
    const size_t count = kChunk >> shift;
    void* table = map(count * sizeof(Allocation), PROT_READ | PROT_WRITE);
    if (!table) {
      give_back_chunks(chunk, 1);
      return nullptr;
    }
    slot_tables_.emplace_back(table, count * sizeof(Allocation));
    slots.fresh =
        static_cast<Allocation*>(table);  // zero bytes read as an allocation that is not live
    slots.fresh_end = slots.fresh + count;
    slots.fresh_address = base_ + chunk * kChunk;
    chunks_[chunk] = {slots.fresh, shift};
  }
  Allocation* a = new (slots.fresh++) Allocation;
  a->address_ = slots.fresh_address;
  slots.fresh_address += uintptr_t{1} << shift;
  return a;
}

Allocation* AddressSpace::take_large(size_t bytes) {
  const uint64_t count = bytes / kChunk + 1;
  uint64_t chunk;
  if (!take_chunks(count, chunk)) return nullptr;
  Allocation* a = free_large_;
  if (a)
    free_large_ = a->next_free_;
  else
    a = &large_.emplace_back();
  a->address_ = base_ + chunk * kChunk;
  for (uint64_t i = 0; i < count; ++i) chunks_[chunk + i] = {a, 0};
  return a;
}

void AddressSpace::give_back(Allocation* a) {
  const uint64_t chunk = (a->address_ - base_) >> kChunkShift;
  if (const int shift = chunks_[chunk].slot_shift) {
    a->next_free_ = slots_[shift].free;
    slots_[shift].free = a;
    return;
  }
  const uint64_t count = a->bytes_ / kChunk + 1;
  for (uint64_t i = 0; i < count; ++i) chunks_[chunk + i] = {};
  give_back_chunks(chunk, count);
  a->next_free_ = free_large_;
  free_large_ = a;
}

Allocation* AddressSpace::find(uintptr_t address) const {
  if (!contains(address)) return nullptr;
  const Chunk& chunk = chunks_[(address - base_) >> kChunkShift];
  if (!chunk.first || chunk.slot_shift == 0) return chunk.first;
  return chunk.first + (((address - base_) & (kChunk - 1)) >> chunk.slot_shift);
}

bool AddressSpace::take_chunks(uint64_t count, uint64_t& first) {
  for (auto it = free_chunks_.begin(); it != free_chunks_.end(); ++it) {
    if (it->second < count) continue;
    first = it->first;
    const uint64_t rest = it->second - count;
    if (rest == 0) {
      free_chunks_.erase(it);
    } else {
      auto node = free_chunks_.extract(it);  // reuses the node
      node.key() = first + count;
      node.mapped() = rest;
      free_chunks_.insert(std::move(node));
    }
    return true;
  }
  return false;
}

void AddressSpace::give_back_chunks(uint64_t first, uint64_t count) {
  auto next = free_chunks_.lower_bound(first);
  if (next != free_chunks_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == first) {
      before->second += count;
      if (next != free_chunks_.end() && first + count == next->first) {
        before->second += next->second;
        free_chunks_.erase(next);
      }
      return;
    }
  }
  if (next != free_chunks_.end() && first + count == next->first) {
    auto node = free_chunks_.extract(next);
    node.key() = first;
    node.mapped() += count;
    free_chunks_.insert(std::move(node));
    return;
  }
  free_chunks_.emplace(first, count);
}

}  // namespace nax
