#include "cache/entry_format.h"

#include <bit>
#include <cstring>

#include "device/base/hash.h"

namespace nax {
namespace {

constexpr std::string_view kMagic("nax\x1a\r\n\0e", 8);

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t fingerprint_bytes;
  uint64_t key_bytes;
  uint64_t payload_bytes;
  uint64_t checksum;
};
static_assert(sizeof(Header) == kEntryHeaderBytes);
static_assert(std::endian::native == std::endian::little);

uint64_t checksum_of(Header header, std::string_view body) {
  header.checksum = 0;
  return checksum64(body.data(), body.size(), checksum64(&header, sizeof header));
}

}  // namespace

std::string_view disk_miss_name(DiskMiss reason) {
  static constexpr std::string_view kNames[kDiskMissCount] = {
      "none",      "not_found",    "unreadable", "foreign",     "too_large", "truncated",
      "bad_magic", "other_format", "damaged",    "other_build", "other_key"};
  return kNames[static_cast<int>(reason)];
}

std::string encode_entry(std::string_view fingerprint, std::string_view key,
                         std::string_view payload) {
  Header header{};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.version = kEntryFormatVersion;
  header.fingerprint_bytes = static_cast<uint32_t>(fingerprint.size());
  header.key_bytes = key.size();
  header.payload_bytes = payload.size();

  std::string entry;
  entry.reserve(sizeof header + fingerprint.size() + key.size() + payload.size());
  entry.append(sizeof header, '\0').append(fingerprint).append(key).append(payload);
  header.checksum = checksum_of(header, std::string_view(entry).substr(sizeof header));
  std::memcpy(entry.data(), &header, sizeof header);
  return entry;
}

DiskMiss decode_entry(std::string_view entry, std::string_view fingerprint, std::string_view key,
                      std::string_view* payload) {
  Header header;
  if (entry.size() < sizeof header) return DiskMiss::kTruncated;
  std::memcpy(&header, entry.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic.data(), kMagic.size()) != 0) return DiskMiss::kBadMagic;
  if (header.version != kEntryFormatVersion) return DiskMiss::kOtherFormat;

  // Each size is checked against what is left, so that no sum can overflow.
  const std::string_view body = entry.substr(sizeof header);
  uint64_t left = body.size();
  for (const uint64_t part : {uint64_t{header.fingerprint_bytes}, header.key_bytes}) {
    if (part > left) return DiskMiss::kTruncated;
    left -= part;
  }
  if (header.payload_bytes != left) return DiskMiss::kTruncated;
  if (header.checksum != checksum_of(header, body)) return DiskMiss::kDamaged;
  if (body.substr(0, header.fingerprint_bytes) != fingerprint) return DiskMiss::kOtherBuild;
  if (body.substr(header.fingerprint_bytes, header.key_bytes) != key) return DiskMiss::kOtherKey;
  *payload = body.substr(header.fingerprint_bytes + header.key_bytes);
  return DiskMiss::kNone;
}

}  // namespace nax
