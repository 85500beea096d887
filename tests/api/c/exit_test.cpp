// A process that ends while programs are being compiled and plans written: it ends cleanly, without being asked to destroy
// anything. The child is this very executable, started anew with the skipped case below.
#include <doctest/doctest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "nax/nax.h"

extern char** environ;

namespace {

constexpr char kFolderVariable[] = "NAX_EXIT_TEST_CACHE";

bool ok(nax_status* status) {
  const bool good = status == nullptr;
  nax_status_destroy(status);
  return good;
}

// Windows of different ops, each often enough to be compiled, and no wait at the end.
int leave_work_behind(const char* folder) {
  nax_runtime_options options{};
  options.struct_size = sizeof options;
  options.abi_version = NAX_ABI_VERSION;
  options.mode = NAX_MODE_ADAPTIVE;
  options.tier = "auto";
  options.cache_dir = folder;
  options.hbm_bytes = 64 << 20;
  nax_runtime* runtime = nullptr;
  if (!ok(nax_runtime_create(&options, &runtime))) return 3;
  nax_stream* stream = nax_runtime_default_stream(runtime);
  nax_operand x{};
  x.cls = NAX_TENSOR;
  x.dtype = NAX_F32;
  x.rank = 1;
  x.sizes[0] = 1024;
  x.strides[0] = 1;
  const std::vector<float> values(1024, 0.5f);
  if (!ok(nax_buffer_create(runtime, stream, 4096, &x.buffer))) return 3;
  if (!ok(nax_buffer_write(stream, x.buffer, 0, values.data(), 4096))) return 3;
  const nax_op_id ops[] = {NAX_OP_TANH, NAX_OP_SIGMOID, NAX_OP_SILU, NAX_OP_ERF};
  for (int pattern = 0; pattern < 40; ++pattern)
    for (int sighting = 0; sighting < 3; ++sighting) {
      for (int i = 0; i < 6; ++i) {
        nax_op op{};
        op.struct_size = sizeof op;
        op.id = ops[(pattern >> i ^ i) & 3];
        op.input_count = op.output_count = 1;
        op.inputs = op.outputs = &x;
        if (!ok(nax_stream_record(stream, &op))) return 3;
      }
      if (!ok(nax_stream_flush(stream))) return 3;
    }
  return 0;
}

TEST_CASE("child of the exit test" * doctest::skip()) {
  const char* folder = getenv(kFolderVariable);
  if (folder) exit(leave_work_behind(folder));
}

TEST_CASE("a process may end at any time while compiles and stores are pending") {
  char folder[] = "/tmp/nax_exit_XXXXXX";
  REQUIRE(mkdtemp(folder));
  char self[4096] = "";
  REQUIRE(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  for (int round = 0; round < 30; ++round) {
    // Every third process starts with an empty cache: all of its plans are new.
    const std::string cache = std::string(folder) + "/" + std::to_string(round / 3 * 3);
    setenv(kFolderVariable, cache.c_str(), 1);
    char name[] = "--test-case=child of the exit test", all[] = "--no-skip";
    char* argv[] = {self, name, all, nullptr};
    pid_t pid = 0;
    REQUIRE(posix_spawn(&pid, self, nullptr, nullptr, argv, environ) == 0);
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    INFO("round ", round, ", wait status ", status);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  unsetenv(kFolderVariable);
  CHECK_FALSE(std::filesystem::is_empty(folder));  // plans did reach the disk
  std::filesystem::remove_all(folder);
}

}  // namespace
