// 128-bit hash of bytes, for keys. A hash only finds a candidate: every hit is verified by full equality (DESIGN I5).
// Thread: hash_bytes may be called from any thread; set_hash_bits belongs to start-up, before the first key is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nax {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;

  friend bool operator==(const Hash128&, const Hash128&) = default;
  // 32 lower-case hex digits, most significant first.
  std::string hex() const;
};

// XXH3 with 128 bits, cut to the process-wide number of bits; stable across processes and hosts.
Hash128 hash_bytes(const void* data, size_t size, uint64_t seed = 0);
inline Hash128 hash_bytes(std::string_view bytes, uint64_t seed = 0) {
  return hash_bytes(bytes.data(), bytes.size(), seed);
}

// Keeps only the lowest `bits` bits of every later hash, so that tests can force collisions. Values outside 0..128 are
// clamped. The default is 128.
void set_hash_bits(int bits);
int hash_bits();

// 64 bits that set_hash_bits does not touch: for checksums, where a cut hash would hide damage.
uint64_t checksum64(const void* data, size_t size, uint64_t seed = 0);

// For std::unordered_map with Hash128 or a key that holds one.
struct Hash128Hasher {
  size_t operator()(const Hash128& h) const { return static_cast<size_t>(h.low ^ h.high); }
};

}  // namespace nax
