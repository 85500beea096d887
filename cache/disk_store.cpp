#include "cache/disk_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>
#include <vector>

namespace nax {
namespace {

constexpr char kFolder[] = "v1";
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kSuffix = ".nax";
constexpr mode_t kOthersAny = S_IRWXG | S_IRWXO;
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Writing beyond RLIMIT_FSIZE raises SIGXFSZ, which ends a process that does not expect it. Inside this scope the
// signal stays with this thread and is dropped, so that only write()'s EFBIG is left.
class FileSizeSignalBlock {
 public:
  FileSizeSignalBlock() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalBlock() {
    if (!was_pending_) {
      const timespec no_wait{};
      while (sigtimedwait(&signal_, nullptr, &no_wait) == -1 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
  FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;

 private:
  sigset_t signal_, before_;
  bool was_pending_;
};

Status failure(int error, const std::string& what) {
  StatusCode code = StatusCode::kUnavailable;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) code = StatusCode::kResourceExhausted;
  if (error == EACCES || error == EPERM || error == EROFS) code = StatusCode::kPermissionDenied;
  return {code, what + ": " + std::generic_category().message(error)};
}

int open_retry(int directory, const char* name, int flags, mode_t mode = 0) {
  int fd;
  do fd = ::openat(directory, name, flags | O_CLOEXEC | O_NOFOLLOW, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

// 0 or errno.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ENOSPC;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

Status make_directories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      const int error = errno;
      struct stat info;
      if (::stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        return failure(error, "cannot create the folder " + part);
    }
    if (end == std::string::npos) return {};
  }
}

// The private sub-folder, open.
StatusOr<int> open_private_directory(const std::string& path) {
  if (path.empty()) return invalid_argument("the cache folder is an empty path");
  NAX_RETURN_IF_ERROR(make_directories(path));
  const std::string name = path + "/" + kFolder;
  const Fd base(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!base.ok()) return failure(errno, "cannot open the folder " + path);
  if (::mkdirat(base.get(), kFolder, 0700) != 0 && errno != EEXIST)
    return failure(errno, "cannot create the folder " + name);

  const auto refuse = [&](const char* why) {
    return Status(StatusCode::kFailedPrecondition, name + " " + why);
  };
  Fd own(open_retry(base.get(), kFolder, O_RDONLY | O_DIRECTORY));
  if (!own.ok() && (errno == ELOOP || errno == ENOTDIR)) return refuse("is not a folder or is a symbolic link");
  if (!own.ok()) return failure(errno, "cannot open the folder " + name);
  struct stat info;
  if (::fstat(own.get(), &info) != 0) return failure(errno, "cannot inspect the folder " + name);
  if (info.st_uid != ::geteuid()) return refuse("belongs to another user");
  if ((info.st_mode & kOthersAny) != 0) return refuse("is open to other users (mode 0700 is needed)");
  if (::faccessat(own.get(), ".", W_OK | X_OK, AT_EACCESS) != 0)
    return failure(errno, "cannot write to the folder " + name);
  return own.release();
}

bool is_entry(std::string_view name) { return name.size() > kSuffix.size() && name.ends_with(kSuffix); }

// A temporary file is locked by its writer for as long as that lives.
bool is_abandoned(int directory, const char* name) {
  const Fd file(open_retry(directory, name, O_RDONLY | O_NONBLOCK));
  return file.ok() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

StatusOr<std::unique_ptr<DiskStore>> DiskStore::open(DiskStoreOptions options) {
  auto directory = open_private_directory(options.directory);
  if (!directory.ok()) return std::move(directory).status();
  std::unique_ptr<DiskStore> store(new DiskStore(std::move(options), *directory));
  store->prune(store->options_.max_bytes);
  return store;
}

DiskStore::DiskStore(DiskStoreOptions options, int directory_fd)
    : options_(std::move(options)), directory_fd_(directory_fd) {}

DiskStore::~DiskStore() { ::close(directory_fd_); }

std::optional<std::string> DiskStore::load(const CacheKey& key, DiskMiss* reason) {
  const std::string name = key.hash.hex().append(kSuffix);
  std::string bytes;
  std::string_view payload;
  DiskMiss miss = read_entry(name.c_str(), &bytes);
  if (miss == DiskMiss::kNone) miss = decode_entry(bytes, options_.fingerprint, key.bytes, &payload);
  if (reason != nullptr) *reason = miss;
  if (miss != DiskMiss::kNone) {
    misses_[static_cast<size_t>(miss)]++;
    return std::nullopt;
  }
  hits_++;
  bytes.erase(0, static_cast<size_t>(payload.data() - bytes.data()));
  return bytes;
}

DiskMiss DiskStore::read_entry(const char* name, std::string* bytes) const {
  const Fd file(open_retry(directory_fd_, name, O_RDONLY | O_NONBLOCK));
  if (!file.ok())
    return errno == ENOENT ? DiskMiss::kNotFound : errno == ELOOP ? DiskMiss::kForeign : DiskMiss::kUnreadable;
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return DiskMiss::kUnreadable;
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & kOthersWrite) != 0)
    return DiskMiss::kForeign;
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size > options_.max_entry_bytes) return DiskMiss::kTooLarge;

  bytes->resize(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(file.get(), bytes->data() + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return DiskMiss::kUnreadable;
    if (n == 0) return DiskMiss::kTruncated;
    done += static_cast<size_t>(n);
  }
  ::futimens(file.get(), nullptr);  // used now: prune goes by this time; where it fails the entry is merely older
  return DiskMiss::kNone;
}

Status DiskStore::store(const CacheKey& key, std::string_view payload) {
  const uint64_t size =
      kEntryHeaderBytes + options_.fingerprint.size() + key.bytes.size() + payload.size();
  if (size > std::min(options_.max_entry_bytes, options_.max_bytes) ||
      failures_in_a_row_.load() >= kFailuresToGiveUp) {
    stores_skipped_++;
    return {};
  }
  const std::string name = key.hash.hex().append(kSuffix);
  Status status = write_entry(name.c_str(), encode_entry(options_.fingerprint, key.bytes, payload));
  if (!status.ok()) {
    store_failures_++;
    failures_in_a_row_++;
    return std::move(status).with_context("cache entry in " + options_.directory);
  }
  stores_++;
  failures_in_a_row_ = 0;
  // Leaves room, so that the folder is not listed again for the very next entry.
  if (bytes_.fetch_add(size) + size > options_.max_bytes) prune(options_.max_bytes - options_.max_bytes / 8);
  return {};
}

Status DiskStore::write_entry(const char* name, std::string_view bytes) {
  static std::atomic<uint64_t> counter{0};
  const FileSizeSignalBlock block;
  // A cleaner may take the file between its creation and its lock for abandoned: then rename finds nothing, once more.
  for (int attempt = 0;; ++attempt) {
    const std::string temporary = std::string(kTemporary) + std::to_string(::getpid()) + "-" +
                                  std::to_string(counter++) + "-" + std::to_string(std::time(nullptr));
    const Fd file(open_retry(directory_fd_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600));
    if (!file.ok()) return failure(errno, "cannot create a file");
    ::flock(file.get(), LOCK_EX | LOCK_NB);
    int error = write_all(file.get(), bytes);
    if (error == 0 && ::fsync(file.get()) != 0) error = errno;
    if (error == 0 && ::renameat(directory_fd_, temporary.c_str(), directory_fd_, name) == 0) return {};
    if (error == 0 && errno == ENOENT && attempt < 3) continue;
    if (error == 0) error = errno;
    ::unlinkat(directory_fd_, temporary.c_str(), 0);
    return failure(error, "cannot write");
  }
}

void DiskStore::prune(uint64_t max_bytes) {
  struct Found {
    std::string name;
    uint64_t bytes;
    timespec used;
  };
  std::lock_guard lock(prune_mutex_);
  const int fd = open_retry(directory_fd_, ".", O_RDONLY | O_DIRECTORY);
  DIR* directory = fd < 0 ? nullptr : ::fdopendir(fd);
  if (directory == nullptr) {
    if (fd >= 0) ::close(fd);
    return;
  }
  std::vector<Found> entries;
  uint64_t total = 0;
  while (const dirent* item = ::readdir(directory)) {
    const std::string_view name = item->d_name;
    struct stat info;
    if (name.starts_with(kTemporary)) {
      if (is_abandoned(directory_fd_, item->d_name)) ::unlinkat(directory_fd_, item->d_name, 0);
    } else if (is_entry(name) && ::fstatat(directory_fd_, item->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
      const uint64_t bytes = static_cast<uint64_t>(info.st_size);
      entries.push_back({std::string(name), bytes, info.st_mtim});
      total += bytes;
    }
  }
  ::closedir(directory);

  if (total > max_bytes) {
    std::sort(entries.begin(), entries.end(), [](const Found& a, const Found& b) {
      return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
    });
    for (const Found& entry : entries) {
      if (total <= max_bytes) break;
      total -= entry.bytes;
      if (::unlinkat(directory_fd_, entry.name.c_str(), 0) == 0) pruned_++;
    }
  }
  bytes_ = total;
}

DiskStoreStats DiskStore::stats() const {
  DiskStoreStats stats;
  stats.hits = hits_;
  stats.stores = stores_;
  stats.store_failures = store_failures_;
  stats.stores_skipped = stores_skipped_;
  stats.pruned = pruned_;
  for (size_t i = 0; i < stats.misses.size(); ++i) stats.misses[i] = misses_[i];
  stats.read_only = failures_in_a_row_ >= kFailuresToGiveUp;
  return stats;
}

StatusOr<std::string> default_cache_directory(std::string_view xdg_cache_home, std::string_view home) {
  // A relative XDG path is invalid by that specification and ignored.
  if (xdg_cache_home.starts_with('/')) return std::string(xdg_cache_home) + "/nax";
  if (home.starts_with('/')) return std::string(home) + "/.cache/nax";
  return Status(StatusCode::kNotFound, "no cache folder: neither XDG_CACHE_HOME nor HOME is an absolute path");
}

}  // namespace nax
