#include "device/base/hash.h"

#include <algorithm>
#include <atomic>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nax {
namespace {

std::atomic<int> g_hash_bits{128};

uint64_t low_bits(int bits) { return bits >= 64 ? ~uint64_t{0} : bits <= 0 ? 0 : (uint64_t{1} << bits) - 1; }

}  // namespace

std::string Hash128::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[(high >> (4 * i)) & 15];
    text[31 - i] = kDigits[(low >> (4 * i)) & 15];
  }
  return text;
}

Hash128 hash_bytes(const void* data, size_t size, uint64_t seed) {
  const XXH128_hash_t full = XXH3_128bits_withSeed(data, size, seed);
  const int bits = hash_bits();
  return {full.low64 & low_bits(bits), full.high64 & low_bits(bits - 64)};
}

void set_hash_bits(int bits) { g_hash_bits.store(std::clamp(bits, 0, 128), std::memory_order_relaxed); }
int hash_bits() { return g_hash_bits.load(std::memory_order_relaxed); }

uint64_t checksum64(const void* data, size_t size, uint64_t seed) { return XXH3_64bits_withSeed(data, size, seed); }

}  // namespace nax
