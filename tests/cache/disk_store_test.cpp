#include "cache/disk_store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using nax::CacheKey;
using nax::DiskMiss;
using nax::DiskStore;
namespace fs = std::filesystem;

namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (fs::temp_directory_path() / "nax_cache_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct WithHashBits {
  explicit WithHashBits(int bits) { nax::set_hash_bits(bits); }
  ~WithHashBits() { nax::set_hash_bits(128); }
};

nax::DiskStoreOptions options_for(const fs::path& directory) {
  nax::DiskStoreOptions options;
  options.directory = directory.string();
  options.fingerprint = "build";
  return options;
}

std::unique_ptr<DiskStore> open_store(const nax::DiskStoreOptions& options) {
  auto store = DiskStore::open(options);
  REQUIRE_MESSAGE(store.ok(), std::string(store.status().message()));
  return std::move(store).value();
}
std::unique_ptr<DiskStore> open_store(const fs::path& directory) { return open_store(options_for(directory)); }

nax::Status open_error(const fs::path& directory) {
  auto store = DiskStore::open(options_for(directory));
  REQUIRE_FALSE(store.ok());
  return store.status();
}

DiskMiss miss_of(DiskStore& store, std::string_view key) {
  DiskMiss reason = DiskMiss::kNone;
  CHECK_FALSE(store.load(CacheKey(key), &reason).has_value());
  return reason;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::vector<fs::path> files_in(const fs::path& directory, std::string_view prefix = "") {
  std::vector<fs::path> found;
  for (const auto& item : fs::directory_iterator(directory))
    if (item.path().filename().string().starts_with(prefix)) found.push_back(item.path());
  return found;
}

fs::path entry_path(const fs::path& directory, std::string_view key) {
  return directory / "v1" / (CacheKey(key).hash.hex() + ".nax");
}

// Runs `body` in a child process; its result is the exit code, 255 stands for death by a signal.
pid_t start_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  return pid;
}
int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}
int in_child(const std::function<int()>& body) { return wait_for(start_child(body)); }

}  // namespace

TEST_CASE("payloads survive the process, under their exact key and build only") {
  TemporaryDirectory dir;
  const std::string binary("\0\xff payload \n", 12);
  {
    auto store = open_store(dir.path() / "a" / "b");
    CHECK(miss_of(*store, "one") == DiskMiss::kNotFound);
    CHECK(store->store(CacheKey("one"), binary).ok());
    CHECK(store->store(CacheKey("two"), "").ok());
    CHECK(store->store(CacheKey("one"), binary).ok());
    CHECK(store->stats().stores == 3);
  }
  auto store = open_store(dir.path() / "a" / "b");
  DiskMiss reason = DiskMiss::kDamaged;
  CHECK(store->load(CacheKey("one"), &reason) == binary);
  CHECK(reason == DiskMiss::kNone);
  CHECK(store->load(CacheKey("two")) == "");
  CHECK(miss_of(*store, "three") == DiskMiss::kNotFound);
  CHECK(store->stats().hits == 2);
  CHECK(store->stats().misses[static_cast<size_t>(DiskMiss::kNotFound)] == 1);

  auto other = options_for(dir.path() / "a" / "b");
  other.fingerprint = "build2";
  CHECK(miss_of(*open_store(other), "one") == DiskMiss::kOtherBuild);
}

TEST_CASE("folders and files are private, and no temporary file stays") {
  TemporaryDirectory dir;
  auto store = open_store(dir.path() / "new");
  CHECK(store->store(CacheKey("k"), "v").ok());
  struct stat info;
  REQUIRE(::stat((dir.path() / "new").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  REQUIRE(::stat((dir.path() / "new" / "v1").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  REQUIRE(::stat(entry_path(dir.path() / "new", "k").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(files_in(dir.path() / "new" / "v1").size() == 1);
}

TEST_CASE("an entry truncated to any length is a miss, and can be stored again") {
  TemporaryDirectory dir;
  auto store = open_store(dir.path());
  REQUIRE(store->store(CacheKey("key"), "payload").ok());
  const fs::path path = entry_path(dir.path(), "key");
  const std::string whole = read_file(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file(path, whole.substr(0, size));
    CAPTURE(size);
    CHECK(miss_of(*store, "key") == DiskMiss::kTruncated);
  }
  CHECK(store->stats().misses[static_cast<size_t>(DiskMiss::kTruncated)] == whole.size());
  CHECK(store->store(CacheKey("key"), "payload").ok());
  CHECK(store->load(CacheKey("key")) == "payload");
}

TEST_CASE("an entry with any byte changed is a miss") {
  TemporaryDirectory dir;
  auto store = open_store(dir.path());
  REQUIRE(store->store(CacheKey("key"), "payload").ok());
  const fs::path path = entry_path(dir.path(), "key");
  const std::string whole = read_file(path);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    write_file(path, damaged);
    CAPTURE(i);
    CHECK(miss_of(*store, "key") != DiskMiss::kNotFound);
  }
  std::string other_version = whole;
  other_version[8]++;
  write_file(path, other_version);
  CHECK(miss_of(*store, "key") == DiskMiss::kOtherFormat);
  write_file(path, whole);
  CHECK(store->load(CacheKey("key")) == "payload");
}

TEST_CASE("what is not this user's plain private file is not read") {
  TemporaryDirectory dir;
  auto store = open_store(dir.path());
  REQUIRE(store->store(CacheKey("key"), "payload").ok());
  const fs::path path = entry_path(dir.path(), "key");

  SUBCASE("writable by others") {
    REQUIRE(::chmod(path.c_str(), 0620) == 0);
    CHECK(miss_of(*store, "key") == DiskMiss::kForeign);
  }
  SUBCASE("symbolic link to a good entry") {
    fs::rename(path, dir.path() / "elsewhere");
    fs::create_symlink(dir.path() / "elsewhere", path);
    CHECK(miss_of(*store, "key") == DiskMiss::kForeign);
  }
  SUBCASE("folder") {
    fs::remove(path);
    fs::create_directory(path);
    CHECK(miss_of(*store, "key") == DiskMiss::kForeign);
    CHECK_FALSE(store->store(CacheKey("key"), "payload").ok());
    CHECK(files_in(dir.path() / "v1", ".tmp-").empty());
  }
  SUBCASE("pipe without a writer does not block") {
    fs::remove(path);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(miss_of(*store, "key") == DiskMiss::kForeign);
  }
  SUBCASE("another owner") {
    if (::geteuid() != 0) return;
    REQUIRE(::chown(path.c_str(), 1, 1) == 0);
    CHECK(miss_of(*store, "key") == DiskMiss::kForeign);
  }
  SUBCASE("larger than any entry may be") {
    auto options = options_for(dir.path());
    options.max_entry_bytes = 16;
    CHECK(miss_of(*open_store(options), "key") == DiskMiss::kTooLarge);
  }
}

TEST_CASE("a folder that is not private or cannot be had is refused with its name") {
  TemporaryDirectory dir;
  SUBCASE("symbolic link") {
    fs::create_directory(dir.path() / "target");
    fs::create_directory_symlink(dir.path() / "target", dir.path() / "v1");
    const auto error = open_error(dir.path());
    CHECK(error.code() == nax::StatusCode::kFailedPrecondition);
    CHECK(error.message().find("symbolic link") != std::string_view::npos);
    CHECK(error.message().find((dir.path() / "v1").string()) != std::string_view::npos);
  }
  SUBCASE("open to others") {
    for (const mode_t mode : {0710, 0701, 0777, 0740}) {
      fs::remove_all(dir.path() / "v1");
      REQUIRE(::mkdir((dir.path() / "v1").c_str(), 0700) == 0);
      REQUIRE(::chmod((dir.path() / "v1").c_str(), mode) == 0);
      CHECK(open_error(dir.path()).code() == nax::StatusCode::kFailedPrecondition);
    }
  }
  SUBCASE("another owner") {
    if (::geteuid() != 0) return;
    REQUIRE(::mkdir((dir.path() / "v1").c_str(), 0700) == 0);
    REQUIRE(::chown((dir.path() / "v1").c_str(), 1, 1) == 0);
    CHECK(open_error(dir.path()).message().find("another user") != std::string_view::npos);
  }
  SUBCASE("a file in the way") {
    write_file(dir.path() / "file", "x");
    CHECK(open_error(dir.path() / "file").message().find("file") != std::string_view::npos);
    CHECK_FALSE(open_error(dir.path() / "file" / "below").message().empty());
    write_file(dir.path() / "v1", "x");
    CHECK(open_error(dir.path()).code() == nax::StatusCode::kFailedPrecondition);
  }
  SUBCASE("nowhere") {
    CHECK_FALSE(open_error("").ok());
    CHECK_FALSE(open_error("/proc/nax-cannot-be-here").ok());
  }
  SUBCASE("without the right to write") {
    REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
    const std::string path = (dir.path() / "sub").string();
    const int code = in_child([&] {
      if (::geteuid() != 0) {
        if (::chmod(dir.path().c_str(), 0500) != 0) return 9;
      } else if (::setgid(65534) != 0 || ::setuid(65534) != 0) {
        return 9;
      }
      auto store = DiskStore::open(options_for(path));
      return !store.ok() && store.status().code() == nax::StatusCode::kPermissionDenied ? 0 : 1;
    });
    REQUIRE(::chmod(dir.path().c_str(), 0700) == 0);
    CHECK(code == 0);
  }
}

TEST_CASE("a folder that was there before may be open to others; only the part below it must be private") {
  TemporaryDirectory dir;
  REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
  auto store = open_store(dir.path());
  CHECK(store->store(CacheKey("k"), "v").ok());
  CHECK(store->load(CacheKey("k")) == "v");
}

TEST_CASE("a write that does not fit is a status, leaves nothing behind, and is given up after a while") {
  TemporaryDirectory dir;
  const int code = in_child([&] {
    auto opened = DiskStore::open(options_for(dir.path()));
    if (!opened.ok()) return 1;
    DiskStore& store = **opened;
    if (!store.store(CacheKey("before"), "small").ok()) return 2;
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 3;
    const std::string large(64 << 10, 'x');
    for (int i = 0; i < DiskStore::kFailuresToGiveUp; ++i) {
      const nax::Status status = store.store(CacheKey("large"), large);
      if (status.code() != nax::StatusCode::kResourceExhausted) return 4;
    }
    if (!store.stats().read_only || !store.store(CacheKey("large"), large).ok()) return 5;
    if (store.stats().store_failures != DiskStore::kFailuresToGiveUp || store.stats().stores_skipped != 1) return 6;
    if (store.load(CacheKey("before")) != "small") return 7;
    if (store.load(CacheKey("large")).has_value()) return 8;
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGXFSZ) == 0 ? 0 : 9;
  });
  CHECK(code == 0);
  CHECK(files_in(dir.path() / "v1").size() == 1);
}

TEST_CASE("a full file system is a status; what was stored stays readable") {
  TemporaryDirectory dir;
  constexpr int kNoMount = 77;
  const int code = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0) return kNoMount;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNoMount;
    if (::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=64k") != 0) return kNoMount;
    auto opened = DiskStore::open(options_for(dir.path()));
    if (!opened.ok()) return 1;
    DiskStore& store = **opened;
    if (!store.store(CacheKey("before"), "small").ok()) return 2;
    if (store.store(CacheKey("large"), std::string(256 << 10, 'x')).code() != nax::StatusCode::kResourceExhausted)
      return 3;
    if (!store.store(CacheKey("after"), "small too").ok()) return 4;  // nothing of the large one takes room
    if (store.stats().read_only) return 5;
    return store.load(CacheKey("before")) == "small" && store.load(CacheKey("after")) == "small too" ? 0 : 6;
  });
  if (code == kNoMount) {
    MESSAGE("no right to mount a small file system: not run");
    return;
  }
  CHECK(code == 0);
}

TEST_CASE("colliding names: the later entry wins, the earlier one is a miss, nothing is mixed up") {
  WithHashBits scope(0);
  TemporaryDirectory dir;
  auto store = open_store(dir.path());
  CHECK(store->store(CacheKey("first"), "1").ok());
  CHECK(store->load(CacheKey("first")) == "1");
  CHECK(miss_of(*store, "second") == DiskMiss::kOtherKey);
  CHECK(store->store(CacheKey("second"), "2").ok());
  CHECK(store->load(CacheKey("second")) == "2");
  CHECK(miss_of(*store, "first") == DiskMiss::kOtherKey);
  CHECK(files_in(dir.path() / "v1").size() == 1);
}

TEST_CASE("the budget holds, and the least recently used entries go first") {
  TemporaryDirectory dir;
  auto options = options_for(dir.path());
  const std::string payload(1000, 'p');
  const size_t entry = nax::kEntryHeaderBytes + 5 + 4 + payload.size();
  options.max_bytes = 8 * entry;
  auto store = open_store(options);
  const auto name = [](int i) { return "k" + std::to_string(100 + i); };
  const auto age = [&](int i, int seconds) {
    const fs::path path = entry_path(dir.path(), name(i));
    fs::last_write_time(path, fs::last_write_time(path) - std::chrono::seconds(seconds));
  };
  for (int i = 0; i < 8; ++i) {
    CHECK(store->store(CacheKey(name(i)), payload).ok());
    age(i, 1000 - i);
  }
  CHECK(files_in(dir.path() / "v1").size() == 8);
  CHECK(store->load(CacheKey(name(0))).has_value());  // the oldest becomes the newest
  CHECK(store->store(CacheKey(name(8)), payload).ok());
  CHECK(files_in(dir.path() / "v1").size() == 7);
  CHECK(store->stats().pruned == 2);
  CHECK(store->load(CacheKey(name(0))).has_value());
  CHECK(store->load(CacheKey(name(8))).has_value());
  CHECK(miss_of(*store, name(1)) == DiskMiss::kNotFound);
  CHECK(miss_of(*store, name(2)) == DiskMiss::kNotFound);

  SUBCASE("a smaller budget at the next start applies at once") {
    options.max_bytes = 3 * entry;
    CHECK(open_store(options)->stats().pruned == 4);
    CHECK(files_in(dir.path() / "v1").size() == 3);
  }
  SUBCASE("budgets of 0 and 1 byte keep nothing and are no error") {
    for (const uint64_t bytes : {0, 1}) {
      options.max_bytes = bytes;
      auto none = open_store(options);
      CHECK(none->store(CacheKey("k"), "v").ok());
      CHECK(none->stats().stores_skipped == 1);
      CHECK(miss_of(*none, "k") == DiskMiss::kNotFound);
      CHECK(files_in(dir.path() / "v1").empty());
    }
  }
}

TEST_CASE("temporary files of dead writers are removed, those of living writers are not") {
  TemporaryDirectory dir;
  open_store(dir.path());
  write_file(dir.path() / "v1" / ".tmp-1-0-0", "left behind");
  const fs::path locked = dir.path() / "v1" / ".tmp-2-0-0";
  write_file(locked, "being written");
  const fs::path unrelated = dir.path() / "v1" / "notes.txt";
  write_file(unrelated, "not ours");
  int ready[2], stop[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(stop) == 0);
  const pid_t writer = start_child([&] {
    const int fd = ::open(locked.c_str(), O_WRONLY);
    char byte = static_cast<char>(::flock(fd, LOCK_EX));
    if (::write(ready[1], &byte, 1) != 1) return 1;
    ::close(stop[1]);
    return ::read(stop[0], &byte, 1) == 0 ? 0 : 1;
  });
  char byte = 1;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  REQUIRE(byte == 0);
  open_store(dir.path());
  CHECK(files_in(dir.path() / "v1", ".tmp-") == std::vector<fs::path>{locked});
  CHECK(fs::exists(unrelated));
  ::close(stop[1]);
  CHECK(wait_for(writer) == 0);
  open_store(dir.path());
  CHECK(files_in(dir.path() / "v1", ".tmp-").empty());
  for (const int fd : {ready[0], ready[1], stop[0]}) ::close(fd);
}

TEST_CASE("a writer killed at any time leaves a whole entry or none") {
  TemporaryDirectory dir;
  const auto payload_of = [](int version) { return std::string(200000 + version, static_cast<char>('a' + version % 26)); };
  int hits = 0;
  for (int round = 0; round < 30; ++round) {
    const pid_t writer = start_child([&] {
      auto store = DiskStore::open(options_for(dir.path()));
      if (!store.ok()) return 1;
      for (int version = 0;; version = (version + 1) % 100)
        if (!(*store)->store(CacheKey("key"), payload_of(version)).ok()) return 1;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 2500 * round));
    ::kill(writer, SIGKILL);
    CHECK(wait_for(writer) == 255);
    auto store = open_store(dir.path());
    DiskMiss reason = DiskMiss::kNone;
    const auto found = store->load(CacheKey("key"), &reason);
    if (found) {
      hits++;
      CHECK(*found == payload_of(static_cast<int>(found->size()) - 200000));
    } else {
      CHECK(reason == DiskMiss::kNotFound);
    }
    CHECK(files_in(dir.path() / "v1", ".tmp-").empty());
  }
  CHECK(hits > 0);
}

TEST_CASE("eight processes at once, on a budget that prunes all the time") {
  TemporaryDirectory dir;
  auto options = options_for(dir.path());
  options.max_bytes = 100 << 10;
  const auto payload_of = [](int k) { return std::string(static_cast<size_t>(1000 + 517 * k), static_cast<char>('A' + k)); };
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p) {
    children.push_back(start_child([&, p] {
      auto store = DiskStore::open(options);
      if (!store.ok()) return 1;
      unsigned state = 99u + static_cast<unsigned>(p);
      for (int i = 0; i < 300; ++i) {
        state = state * 1664525u + 1013904223u;
        const int k = static_cast<int>((state >> 8) % 24);
        const std::string key = "key" + std::to_string(k);
        DiskMiss reason = DiskMiss::kNone;
        const auto found = (*store)->load(CacheKey(key), &reason);
        if (found && *found != payload_of(k)) return 2;
        if (!found && reason != DiskMiss::kNotFound) return 3;
        if (!found && !(*store)->store(CacheKey(key), payload_of(k)).ok()) return 4;
      }
      return (*store)->stats().hits > 0 && (*store)->stats().stores > 0 ? 0 : 5;
    }));
  }
  for (const pid_t child : children) CHECK(wait_for(child) == 0);
  CHECK(files_in(dir.path() / "v1", ".tmp-").empty());
}

TEST_CASE("several threads share one store") {
  TemporaryDirectory dir;
  auto store = open_store(dir.path());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string key = "key" + std::to_string((i + t) % 10);
        if (!store->store(CacheKey(key), key + " payload").ok()) wrong++;
        const auto found = store->load(CacheKey(key));
        if (!found || *found != key + " payload") wrong++;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(store->stats().stores == 400);
  CHECK(store->stats().hits == 400);
}

TEST_CASE("the default folder") {
  CHECK(nax::default_cache_directory("/x/cache", "/home").value() == "/x/cache/nax");
  CHECK(nax::default_cache_directory("", "/h").value() == "/h/.cache/nax");
  CHECK(nax::default_cache_directory("relative", "/h").value() == "/h/.cache/nax");
  CHECK_FALSE(nax::default_cache_directory("", "").ok());
  CHECK_FALSE(nax::default_cache_directory("", "relative").ok());
}
