#include "cache/entry_format.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>

using nax::decode_entry;
using nax::DiskMiss;
using nax::encode_entry;

namespace {

constexpr std::string_view kBuild = "build-1";
constexpr std::string_view kKey("k\0ey", 4);
constexpr std::string_view kPayload("pay\0load", 8);

void write_at(std::string& entry, size_t offset, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) entry[offset + i] = static_cast<char>(value >> (8 * i));
}

DiskMiss decode(std::string_view entry) {
  std::string_view payload;
  return decode_entry(entry, kBuild, kKey, &payload);
}

}  // namespace

TEST_CASE("an entry gives back its payload") {
  for (const std::string_view payload : {kPayload, std::string_view()}) {
    const std::string entry = encode_entry(kBuild, kKey, payload);
    CHECK(entry.size() == nax::kEntryHeaderBytes + kBuild.size() + kKey.size() + payload.size());
    std::string_view out = "unset";
    CHECK(decode_entry(entry, kBuild, kKey, &out) == DiskMiss::kNone);
    CHECK(out == payload);
  }
}

TEST_CASE("another build or another key is a miss with its reason") {
  const std::string entry = encode_entry(kBuild, kKey, kPayload);
  std::string_view payload;
  CHECK(decode_entry(entry, "build-2", kKey, &payload) == DiskMiss::kOtherBuild);
  CHECK(decode_entry(entry, "", kKey, &payload) == DiskMiss::kOtherBuild);
  CHECK(decode_entry(entry, kBuild, "key", &payload) == DiskMiss::kOtherKey);
  CHECK(decode_entry(entry, kBuild, "", &payload) == DiskMiss::kOtherKey);
}

TEST_CASE("every truncation and every extension is a miss") {
  const std::string entry = encode_entry(kBuild, kKey, kPayload);
  for (size_t size = 0; size < entry.size(); ++size) {
    CAPTURE(size);
    CHECK(decode(std::string_view(entry).substr(0, size)) == DiskMiss::kTruncated);
  }
  CHECK(decode(entry + 'x') == DiskMiss::kTruncated);
}

TEST_CASE("every flipped bit is a miss") {
  std::string entry = encode_entry(kBuild, kKey, kPayload);
  for (size_t i = 0; i < entry.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      entry[i] = static_cast<char>(entry[i] ^ (1 << bit));
      CAPTURE(i);
      CAPTURE(bit);
      const DiskMiss miss = decode(entry);
      CHECK(miss != DiskMiss::kNone);
      if (i < 8) CHECK(miss == DiskMiss::kBadMagic);
      if (i >= 8 && i < 12) CHECK(miss == DiskMiss::kOtherFormat);
      if (i >= 32) CHECK(miss == DiskMiss::kDamaged);
      entry[i] = static_cast<char>(entry[i] ^ (1 << bit));
    }
  }
  CHECK(decode(entry) == DiskMiss::kNone);
}

TEST_CASE("sizes that overflow when added are a miss") {
  const std::string entry = encode_entry(kBuild, kKey, kPayload);
  for (const uint64_t size : {UINT64_MAX, UINT64_MAX - 7, uint64_t{1} << 63}) {
    std::string bad = entry;
    write_at(bad, 16, size, 8);
    CHECK(decode(bad) == DiskMiss::kTruncated);
    bad = entry;
    write_at(bad, 24, size, 8);
    CHECK(decode(bad) == DiskMiss::kTruncated);
    bad = entry;
    // Key and payload sizes whose sum is right modulo 2^64.
    write_at(bad, 16, size, 8);
    write_at(bad, 24, kKey.size() + kPayload.size() - size, 8);
    CHECK(decode(bad) == DiskMiss::kTruncated);
  }
}

TEST_CASE("moving the border between key and payload is found") {
  std::string entry = encode_entry(kBuild, kKey, kPayload);
  write_at(entry, 16, kKey.size() + 1, 8);
  write_at(entry, 24, kPayload.size() - 1, 8);
  CHECK(decode(entry) == DiskMiss::kDamaged);
}

TEST_CASE("every reason has a name of its own") {
  for (int a = 0; a < nax::kDiskMissCount; ++a) {
    CHECK_FALSE(nax::disk_miss_name(static_cast<DiskMiss>(a)).empty());
    for (int b = 0; b < a; ++b)
      CHECK(nax::disk_miss_name(static_cast<DiskMiss>(a)) != nax::disk_miss_name(static_cast<DiskMiss>(b)));
  }
}
