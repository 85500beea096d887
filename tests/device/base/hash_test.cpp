#include "device/base/hash.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

using nax::Hash128;

namespace {

struct WithHashBits {
  explicit WithHashBits(int bits) { nax::set_hash_bits(bits); }
  ~WithHashBits() { nax::set_hash_bits(128); }
};

}  // namespace

TEST_CASE("the empty string has the digest that the XXH3 specification gives") {
  CHECK(nax::hash_bytes("").hex() == "99aa06d3014798d86001c324468d497f");
  CHECK(nax::checksum64("", 0) == 0x2D06800538D394C2u);
}

TEST_CASE("every byte counts, and so does the seed") {
  std::string text(300, 'x');
  const Hash128 before = nax::hash_bytes(text);
  CHECK(before == nax::hash_bytes(std::string(300, 'x')));
  CHECK(before != nax::hash_bytes(text, 1));
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] ^= 1;
    CHECK(before != nax::hash_bytes(text));
    text[i] ^= 1;
  }
}

TEST_CASE("hex is high then low, fixed width") {
  CHECK(Hash128{0xabcu, 0x1u}.hex() == "00000000000000010000000000000abc");
  CHECK(Hash128{}.hex() == std::string(32, '0'));
}

TEST_CASE("a cut hash keeps the lowest bits only; the checksum is not cut") {
  const Hash128 full = nax::hash_bytes("nax");
  const uint64_t sum = nax::checksum64("nax", 3);
  for (int bits : {0, 1, 4, 63, 64, 65, 127, 128}) {
    WithHashBits scope(bits);
    const Hash128 cut = nax::hash_bytes("nax");
    const uint64_t low_mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
    const uint64_t high_mask = bits >= 128 ? ~0ull : bits <= 64 ? 0 : (1ull << (bits - 64)) - 1;
    CHECK(cut == Hash128{full.low & low_mask, full.high & high_mask});
    CHECK(nax::checksum64("nax", 3) == sum);
  }
  WithHashBits scope(-5);
  CHECK(nax::hash_bits() == 0);
  nax::set_hash_bits(999);
  CHECK(nax::hash_bits() == 128);
}
