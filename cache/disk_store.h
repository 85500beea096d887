// Payload bytes on disk by key bytes, private to the user, shared by any number of processes.
//
// One entry is one file named by the key's hash, written beside and renamed into place: a reader sees a whole entry or
// none, whatever is killed when. What does not verify (size, checksum, build, full key) is a miss with a reason, never an
// error. Files live in the sub-folder "v1" of the given folder, which is created with mode 0700 and must be this user's
// alone; where that cannot be had, open() says why and the caller goes on with memory only.
//
// Two keys of one hash share a file name: the later one wins, the earlier one becomes a miss.
//
// Thread: every member may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "cache/entry_format.h"
#include "cache/key.h"
#include "device/base/status.h"

namespace nax {

struct DiskStoreOptions {
  std::string directory;    // created if missing, parents too
  std::string fingerprint;  // of the build: entries of another one are misses
  uint64_t max_bytes = uint64_t{1} << 30;  // of all entries; the least recently used go first
  uint64_t max_entry_bytes = uint64_t{64} << 20;
};

struct DiskStoreStats {
  uint64_t hits = 0;
  uint64_t stores = 0;
  uint64_t store_failures = 0;
  uint64_t stores_skipped = 0;  // too large, or after writing was given up
  uint64_t pruned = 0;          // entries removed to keep the budget
  std::array<uint64_t, kDiskMissCount> misses{};  // by DiskMiss
  bool read_only = false;       // writing failed too often and was given up
};

class DiskStore {
 public:
  // Fails where no private, writable folder can be had; the message names the folder and the reason.
  static StatusOr<std::unique_ptr<DiskStore>> open(DiskStoreOptions options);
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  // The payload stored under exactly these key bytes by the same build. `reason`, if given, says why there is none.
  std::optional<std::string> load(const CacheKey& key, DiskMiss* reason = nullptr);

  // Ok also where the entry is larger than the budget and so is not kept. After kFailuresToGiveUp failures in a row
  // the store stops writing (a full disk stays full) and later calls return ok without doing anything.
  Status store(const CacheKey& key, std::string_view payload);

  DiskStoreStats stats() const;

  // Removes the least recently used entries until at most `max_bytes` are left, and temporary files whose writer is gone.
  void prune(uint64_t max_bytes);

  static constexpr int kFailuresToGiveUp = 3;

 private:
  DiskStore(DiskStoreOptions options, int directory_fd);
  DiskMiss read_entry(const char* name, std::string* bytes) const;
  Status write_entry(const char* name, std::string_view bytes);

  const DiskStoreOptions options_;
  const int directory_fd_;
  std::mutex prune_mutex_;
  std::atomic<uint64_t> bytes_{0};  // estimate: other processes write too; exact after each prune
  std::atomic<int> failures_in_a_row_{0};
  std::atomic<uint64_t> hits_{0}, stores_{0}, store_failures_{0}, stores_skipped_{0}, pruned_{0};
  std::array<std::atomic<uint64_t>, kDiskMissCount> misses_{};
};

// Where the cache lies by default: <xdg_cache_home>/nax if that is absolute, else <home>/.cache/nax. The arguments are
// the environment's XDG_CACHE_HOME and HOME, empty where unset.
StatusOr<std::string> default_cache_directory(std::string_view xdg_cache_home, std::string_view home);

}  // namespace nax
