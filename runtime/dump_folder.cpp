#include "runtime/dump_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace nax {
namespace {

Status failed(const std::string& path, const char* what) {
  return {StatusCode::kFailedPrecondition, "NAX_DUMP_DIR: " + std::string(what) + " " + path + ": " + std::strerror(errno),
          ErrorReason::kBadEnvironment};
}

}  // namespace

StatusOr<std::unique_ptr<DumpFolder>> DumpFolder::open(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed(path, "cannot create");
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return failed(path, "cannot open");
  if (faccessat(fd, ".", W_OK | X_OK, 0) != 0) {
    const Status status = failed(path, "cannot write to");
    close(fd);
    return status;
  }
  return std::unique_ptr<DumpFolder>(new DumpFolder(path, fd));
}

DumpFolder::~DumpFolder() { close(fd_); }

bool DumpFolder::stopped() {
  std::lock_guard lock(mutex_);
  return stopped_;
}

Status DumpFolder::write(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (stopped_) return {};
  if (files_ >= kMaxFiles || text.size() > kMaxBytes - bytes_) {
    stopped_ = true;
    return {StatusCode::kResourceExhausted, "NAX_DUMP_DIR: " + path_ + " has " + std::to_string(files_) + " windows in " +
                                                std::to_string(bytes_) + " bytes; no more are written"};
  }
  Status status = write_file(text);
  if (!status.ok()) stopped_ = true;
  ++files_;
  bytes_ += text.size();
  return status;
}

Status DumpFolder::write_file(std::string_view text) {
  char name[64];
  int fd = -1;
  // An earlier process may have had this number.
  do {
    std::snprintf(name, sizeof name, "%ld-%06llu.nxd", static_cast<long>(getpid()), static_cast<unsigned long long>(next_++));
    fd = openat(fd_, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  } while (fd < 0 && errno == EEXIST && next_ < 16 * kMaxFiles);
  if (fd < 0) return failed(path_ + "/" + name, "cannot create");
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const Status status = failed(path_ + "/" + name, "cannot write");
      close(fd);
      unlinkat(fd_, name, 0);  // no half of a window
      return status;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  if (close(fd) != 0) return failed(path_ + "/" + name, "cannot write");
  return {};
}

}  // namespace nax
