// One disk entry as bytes: header, build fingerprint, key, payload. Pure functions: nothing here touches a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nax {

// Raise it whenever the layout below or the meaning of payloads changes. A fixed little-endian header:
//   0 magic (8)   8 version (4)   12 fingerprint size (4)   16 key size (8)   24 payload size (8)   32 checksum (8)
// The checksum covers everything but itself.
inline constexpr uint32_t kEntryFormatVersion = 1;
inline constexpr size_t kEntryHeaderBytes = 40;

// Why an entry was not used. kNone is a hit.
enum class DiskMiss : uint8_t {
  kNone = 0,
  kNotFound = 1,
  kUnreadable = 2,   // open or read failed
  kForeign = 3,      // no regular file of this user, or writable by others
  kTooLarge = 4,     // beyond the largest entry that is read
  kTruncated = 5,    // shorter than a header, or not of the size that the header says
  kBadMagic = 6,
  kOtherFormat = 7,
  kDamaged = 8,      // checksum
  kOtherBuild = 9,   // fingerprint
  kOtherKey = 10,    // same hash, other bytes
};
inline constexpr int kDiskMissCount = 11;
std::string_view disk_miss_name(DiskMiss reason);

std::string encode_entry(std::string_view fingerprint, std::string_view key, std::string_view payload);

// Verifies everything, the full key included; `payload` then points into `entry`. Any bytes are a valid argument.
DiskMiss decode_entry(std::string_view entry, std::string_view fingerprint, std::string_view key,
                      std::string_view* payload);

}  // namespace nax
