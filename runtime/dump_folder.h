// A folder that receives texts as new files, for NAX_DUMP_DIR. Bounded in files and bytes; never overwrites, follows no
// link, and never fails its caller: after the first failure or past the bound it only says once why it stopped.
// Thread-safe: one lock inside.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "device/base/status.h"

namespace nax {

class DumpFolder {
 public:
  static constexpr uint64_t kMaxFiles = 4096;
  static constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

  // Creates the folder (not its parents) with mode 0700 where it is missing.
  static StatusOr<std::unique_ptr<DumpFolder>> open(const std::string& path);
  ~DumpFolder();
  DumpFolder(const DumpFolder&) = delete;
  DumpFolder& operator=(const DumpFolder&) = delete;

  // Writes "<process>-<number>.nxd". A bad status comes once; afterwards calls return ok and do nothing.
  Status write(std::string_view text);
  bool stopped();

 private:
  DumpFolder(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status write_file(std::string_view text);

  const std::string path_;
  const int fd_;
  std::mutex mutex_;  // guards what follows
  uint64_t next_ = 0, files_ = 0, bytes_ = 0;
  bool stopped_ = false;
};

}  // namespace nax
