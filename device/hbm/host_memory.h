// Host memory for buffers: size classes with free lists over mappings that stay. Not thread-safe:
// Hbm locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace nax {

class HostMemory {
 public:
  // Free blocks are given back to the host before live and free ones together pass `limit` bytes.
  HostMemory(uint64_t limit, bool poison) : limit_(limit), poison_(poison) {}
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // 64-byte aligned, page aligned above 64 KiB. Null if the host has none.
  void* take(size_t bytes);
  void give_back(void* block, size_t bytes);  // the same size as taken
  uint64_t trim();                            // returns bytes given back to the host
  uint64_t mapped() const { return mapped_; }

  // The size class of a block: index and rounded size. Four classes an octave.
  struct SizeClass {
    int index;
    size_t size;
  };
  static SizeClass size_class(size_t bytes);

 private:
  static constexpr size_t kSmall = size_t{64} << 10;  // up to here blocks share pages
  static constexpr size_t kLarge = size_t{4} << 20;   // above, a block is a mapping of its own
  static constexpr size_t kSlab = size_t{16} << 20;
  static constexpr int kClasses = 8 + 4 * 54;

  struct FreeList {
    std::vector<void*> hot;   // memory behind it
    std::vector<void*> cold;  // addresses only: trimmed
  };

  void* carve(size_t size);
  void* map_large(size_t size);

  uint64_t limit_;
  bool poison_;
  uint64_t mapped_ = 0;
  FreeList free_[kClasses];
  // Where fresh blocks up to kLarge come from: [0] small ones, [1] page-aligned ones.
  struct Bump {
    uintptr_t next = 0, end = 0;
  } bump_[2];
  std::vector<void*> slabs_;
  std::vector<std::pair<void*, size_t>> large_;  // live and free mappings, unordered
};

}  // namespace nax
