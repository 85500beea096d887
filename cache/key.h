// A cache key: the full bytes of what it names, with their hash. The hash finds candidates, the bytes decide (I5).
// Whoever builds the bytes makes them unambiguous: fixed-width fields, or lengths in front of variable ones.
#pragma once

#include <string_view>

#include "device/base/hash.h"

namespace nax {

// Borrows the bytes, so that a look-up copies nothing; they must live as long as the view.
struct CacheKey {
  std::string_view bytes;
  Hash128 hash;

  CacheKey() = default;
  explicit CacheKey(std::string_view key) : bytes(key), hash(hash_bytes(key)) {}

  friend bool operator==(const CacheKey& a, const CacheKey& b) {
    return a.hash == b.hash && a.bytes == b.bytes;
  }
};

struct CacheKeyHasher {
  size_t operator()(const CacheKey& key) const { return Hash128Hasher()(key.hash); }
};

}  // namespace nax
