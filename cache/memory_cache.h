// A bounded map from key bytes to shared values, least recently used out first.
//
// Values are shared_ptr: an entry that is evicted while a caller still uses it lives until the caller lets go, it only
// stops being found. A budget of no entries or no bytes is allowed; then nothing is kept and every find is a miss.
//
// Thread: every member may be called from any thread. One mutex guards the map; it is never held while a value is
// destroyed, so a value's destructor may use the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "cache/key.h"

namespace nax {

struct CacheBudget {
  size_t entries = 0;
  size_t bytes = 0;  // of keys and values together
};

struct MemoryCacheStats {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;
  uint64_t too_large = 0;  // inserts that were not kept: larger than the whole budget
  size_t entries = 0;      // now
  size_t bytes = 0;        // now
};

template <class Value>
class MemoryCache {
 public:
  using Pointer = std::shared_ptr<Value>;

  explicit MemoryCache(CacheBudget budget) : budget_(budget) {}
  MemoryCache(const MemoryCache&) = delete;
  MemoryCache& operator=(const MemoryCache&) = delete;

  // Null where there is no entry with exactly these bytes. Counts a hit or a miss.
  Pointer find(const CacheKey& key) {
    std::lock_guard lock(mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) {
      ++stats_.misses;
      return nullptr;
    }
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->value;
  }

  // Keeps `value`, which takes `value_bytes` (the key is counted on top), and returns it. Where an equal key is there
  // already, the older value stays and is returned: two threads that built the same thing end up sharing one.
  Pointer insert(const CacheKey& key, Pointer value, size_t value_bytes) {
    const size_t bytes = key.bytes.size() + value_bytes;
    std::list<Entry> evicted;  // destroyed after the lock is released
    std::lock_guard lock(mutex_);
    const auto found = index_.find(key);
    if (found != index_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->value;
    }
    if (budget_.entries == 0 || bytes > budget_.bytes || bytes < value_bytes) {
      ++stats_.too_large;
      return value;
    }
    shrink(budget_.entries - 1, budget_.bytes - bytes, evicted);
    entries_.push_front(Entry{std::string(key.bytes), key.hash, value, bytes});
    index_.emplace(entries_.front().key(), entries_.begin());
    stats_.entries += 1;
    stats_.bytes += bytes;
    return value;
  }

  // Whether there was such an entry.
  bool erase(const CacheKey& key) {
    std::list<Entry> erased;
    std::lock_guard lock(mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) return false;
    take_out(found->second, erased);
    return true;
  }

  void clear() {
    std::list<Entry> erased;
    std::lock_guard lock(mutex_);
    while (!entries_.empty()) take_out(entries_.begin(), erased);
  }

  // Takes effect at once; what no longer fits is evicted.
  void set_budget(CacheBudget budget) {
    std::list<Entry> evicted;
    std::lock_guard lock(mutex_);
    budget_ = budget;
    shrink(budget.entries, budget.bytes, evicted);
  }

  MemoryCacheStats stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  struct Entry {
    std::string key_bytes;
    Hash128 hash;
    Pointer value;
    size_t bytes;

    CacheKey key() const {
      CacheKey key;
      key.bytes = key_bytes;
      key.hash = hash;
      return key;
    }
  };
  using Position = typename std::list<Entry>::iterator;

  void take_out(Position entry, std::list<Entry>& out) {
    index_.erase(entry->key());
    stats_.entries -= 1;
    stats_.bytes -= entry->bytes;
    out.splice(out.end(), entries_, entry);
  }

  void shrink(size_t entries, size_t bytes, std::list<Entry>& out) {
    while (stats_.entries > entries || stats_.bytes > bytes) {
      take_out(std::prev(entries_.end()), out);
      ++stats_.evictions;
    }
  }

  mutable std::mutex mutex_;
  CacheBudget budget_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<CacheKey, Position, CacheKeyHasher> index_;  // its keys borrow from entries_
  MemoryCacheStats stats_;
};

}  // namespace nax
