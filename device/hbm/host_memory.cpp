#include "device/hbm/host_memory.h"

#include <sys/mman.h>

#include <bit>
#include <cstring>

namespace nax {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

void* map_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

}  // namespace

HostMemory::~HostMemory() {
  for (void* slab : slabs_) munmap(slab, kSlab);
  for (auto& [block, size] : large_) munmap(block, size);
}

HostMemory::SizeClass HostMemory::size_class(size_t bytes) {
  if (bytes <= 512) {
    const int i = bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64);
    return {i, static_cast<size_t>(i + 1) * 64};
  }
  const int octave = std::bit_width(bytes - 1) - 1;  // 2^octave < bytes <= 2^(octave+1)
  const size_t step = size_t{1} << (octave - 2);
  const size_t steps = (bytes - (size_t{1} << octave) + step - 1) / step;  // 1..4
  return {8 + 4 * (octave - 9) + static_cast<int>(steps) - 1, (size_t{1} << octave) + steps * step};
}

void* HostMemory::take(size_t bytes) {
  const auto [index, size] = size_class(bytes);
  FreeList& list = free_[index];
  void* block = nullptr;
  if (!list.hot.empty()) {
    block = list.hot.back();
    list.hot.pop_back();
  } else {
    if (mapped_ + size > limit_) trim();
    if (!list.cold.empty()) {
      block = list.cold.back();
      list.cold.pop_back();
    } else {
      block = size > kLarge ? map_large(size) : carve(size);
      if (!block && trim() > 0) block = size > kLarge ? map_large(size) : carve(size);
      if (!block) return nullptr;
    }
    mapped_ += size;
  }
  if (poison_) std::memset(block, 0xff, size);
  return block;
}

void HostMemory::give_back(void* block, size_t bytes) {
  const auto [index, size] = size_class(bytes);
  if (poison_) std::memset(block, 0xff, size);
  free_[index].hot.push_back(block);
}

uint64_t HostMemory::trim() {
  uint64_t freed = 0;
  for (FreeList& list : free_) {
    if (list.hot.empty()) continue;
    const size_t index = static_cast<size_t>(&list - free_);
    if (index < 8) continue;
    const int octave = 9 + static_cast<int>(index - 8) / 4;
    const size_t size = (size_t{1} << octave) + ((index - 8) % 4 + 1) * (size_t{1} << (octave - 2));
    if (size <= kSmall) continue;
    for (void* block : list.hot) {
      if (size > kLarge) {
        munmap(block, size);
        std::erase_if(large_, [&](const auto& m) { return m.first == block; });
      } else {
        madvise(block, size, MADV_DONTNEED);
        list.cold.push_back(block);
      }
      freed += size;
    }
    list.hot.clear();
  }
  mapped_ -= freed;
  return freed;
}

void* HostMemory::carve(size_t size) {
  Bump& bump = bump_[size > kSmall];
  if (bump.end - bump.next <
      size) {  // what is left of the old slab is never used: at most a quarter of it
    void* slab = map_pages(kSlab);
    if (!slab) return nullptr;
    slabs_.push_back(slab);
    bump.next = reinterpret_cast<uintptr_t>(slab);
    bump.end = bump.next + kSlab;
  }
  void* block = reinterpret_cast<void*>(bump.next);
  bump.next += size;
  return block;
}

void* HostMemory::map_large(size_t size) {
  // Aligned to huge pages, which a large copy or matmul feels.
  char* p = static_cast<char*>(map_pages(size + kHugePage));
  if (!p) return nullptr;
  char* block =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(p) + kHugePage - 1) & ~(kHugePage - 1));
  if (block > p) munmap(p, static_cast<size_t>(block - p));
  const size_t behind = static_cast<size_t>(p + kHugePage - block);
  if (behind > 0) munmap(block + size, behind);
  madvise(block, size, MADV_HUGEPAGE);
  large_.emplace_back(block, size);
  return block;
}

}  // namespace nax
