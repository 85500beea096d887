// Plans and programs on disk, and the key rules.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "device/base/hash.h"
#include "runtime/plan_io.h"
#include "tests/runtime/support.h"

namespace nax::test {
namespace {

struct CacheFolder {
  CacheFolder() {
    char pattern[] = "/tmp/nax_cache_XXXXXX";
    path = mkdtemp(pattern);
  }
  ~CacheFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

std::map<std::string, double> run(const std::string& cache, std::vector<float>* out) {
  Settings settings = quiet_settings(Mode::kAdaptive);
  settings.cache_dir = cache;
  Device device(settings);
  const Tensor a = device.tensor(iota(600, 1), {20, 30}), row = device.tensor(iota(30), {30}), b = device.empty({20, 30}),
               s = device.empty({20});
  device.add(a, row, b);
  check_ok(device.record(OpId::k_exp, {b.operand()}, {b.operand()}));
  check_ok(device.record(OpId::k_sum, {b.operand()}, {s.operand()}, {2, 0}));
  *out = device.read(s);
  device.mul(b, 0.5, b);
  const auto more = device.read(b);
  out->insert(out->end(), more.begin(), more.end());
  for (const Tensor& t : {a, row, b, s}) device.release(t);
  device->executor().plans().settle();
  return device.stats();
}

TEST_CASE("a warm process lowers nothing and gives the same bits") {
  CacheFolder folder;
  std::vector<float> cold_values, warm_values;
  auto cold = run(folder.path, &cold_values);
  CHECK(cold["programs_compiled"] > 0);
  CHECK(cold["cache_disk_stores"] == cold["plan_misses"]);
  auto warm = run(folder.path, &warm_values);
  CHECK(warm["programs_compiled"] == 0);
  CHECK(warm["programs_loaded"] == cold["programs_compiled"]);
  CHECK(warm["cache_disk_hits"] == cold["plan_misses"]);
  CHECK(warm["misses.new_window"] == 0);
  CHECK(warm_values == cold_values);
}

TEST_CASE("damaged entries are misses, never errors") {
  CacheFolder folder;
  std::vector<float> expected, values;
  auto cold = run(folder.path, &expected);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path)) {
    if (!entry.is_regular_file() || entry.file_size() < 64) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.put('\x5a');
    file.put('\xa5');
    ++files;
  }
  CHECK(files == cold["plan_misses"]);
  auto after = run(folder.path, &values);
  CHECK(after["cache_disk_hits"] == 0);
  CHECK(after["misses.disk_damaged"] == cold["plan_misses"]);
  CHECK(after["programs_compiled"] == cold["programs_compiled"]);
  CHECK(values == expected);
}

TEST_CASE("what is new reaches the disk though the program ends without destroying its runtime") {
  CacheFolder folder;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Settings settings = quiet_settings(Mode::kAdaptive);
    settings.cache_dir = folder.path;
    auto created = Runtime::create(settings);
    Runtime* runtime = created.ok() ? created.value().release() : nullptr;
    if (!runtime) std::_Exit(1);
    auto buffer = runtime->create_buffer(nullptr, 64);
    nax_operand out{};
    out.cls = NAX_TENSOR;
    out.dtype = NAX_F32;
    out.buffer = reinterpret_cast<nax_buffer*>(*buffer);
    out.rank = 1;
    out.sizes[0] = 16;
    out.strides[0] = 1;
    const nax_operand value = scalar(1);
    nax_op op{};
    op.struct_size = sizeof op;
    op.id = static_cast<uint32_t>(OpId::k_fill);
    op.inputs = &value;
    op.outputs = &out;
    op.input_count = op.output_count = 1;
    if (!runtime->default_stream().record(op).ok() || !runtime->synchronize().ok()) std::_Exit(2);
    std::exit(0);  // runs the handlers of the end of a process
  }
  int result = 0;
  REQUIRE(waitpid(child, &result, 0) == child);
  CHECK(WIFEXITED(result));
  CHECK(WEXITSTATUS(result) == 0);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path)) files += entry.is_regular_file();
  CHECK(files >= 1);
}

TEST_CASE("a cache folder that cannot be used costs a warning") {
  Settings settings = quiet_settings(Mode::kAdaptive);
  settings.cache_dir = "/proc/nax";
  Device device(settings);
  std::string log;
  device->set_log_sink([](void* user, int, const char* message) { *static_cast<std::string*>(user) += message; }, &log);
  CHECK(log.find("/proc/nax") != std::string::npos);
  const Tensor a = device.tensor(iota(4), {4});
  device.mul(a, 2, a);
  CHECK(device.read(a) == iota(4, 0, 2));
  device.release(a);
}

TEST_CASE("plan bytes: any truncation and any flipped byte is refused or harmless") {
  Window window;
  const auto operand = [&](BufferIndex buffer) {
    WindowOperand o;
    o.cls = OperandClass::kTensor;
    o.view.buffer = buffer;
    o.view.dtype = DType::kF32;
    o.view.rank = 1;
    o.view.sizes[0] = 8;
    o.view.strides[0] = 1;
    return o;
  };
  for (int i = 0; i < 2; ++i) {
    WindowOp op;
    op.id = i ? OpId::k_exp : OpId::k_neg;
    op.compute = DType::kF32;
    op.input_count = op.output_count = 1;
    op.first_operand = static_cast<uint32_t>(window.operands.size());
    window.ops.push_back(op);
    window.operands.push_back(operand(i));
    window.operands.push_back(operand(i + 1));
    window.buffers.push_back({true, false, 32});
  }
  window.buffers.push_back({true, true, 32});
  const auto plan = make_plan(window, "greedy", *find_target("trn2"));
  INFO(std::string(plan.status().message()));
  REQUIRE(plan.ok());
  const std::string bytes = encode_plan(**plan);
  const auto same = decode_plan(bytes, window);
  INFO(std::string(same.status().message()));
  REQUIRE(same.ok());
  CHECK(encode_plan(**same) == bytes);
  for (size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(decode_plan(std::string_view(bytes).substr(0, n), window).ok());
  int refused = 0;
  for (size_t n = 0; n < bytes.size(); ++n) {
    std::string damaged = bytes;
    damaged[n] = static_cast<char>(damaged[n] ^ 0xff);
    refused += !decode_plan(damaged, window).ok();  // what is left is caught by the store's checksum
  }
  CHECK(refused > static_cast<int>(bytes.size() / 4));
}

TEST_CASE("keys hold under colliding hashes") {
  for (int bits : {4, 0}) {
    Settings settings = quiet_settings(Mode::kAdaptive);
    settings.hash_bits = bits;
    Device device(settings);
    const Tensor a = device.tensor(iota(24, 1), {4, 6}), b = device.empty({4, 6}), s = device.empty({6});
    device.mul(a, 2, b);
    CHECK(device.read(b)[5] == 12);
    check_ok(device.record(OpId::k_neg, {a.operand()}, {b.operand()}));
    CHECK(device.read(b)[5] == -6);
    check_ok(device.record(OpId::k_sum, {a.operand()}, {s.operand()}, {1, 0}));
    CHECK(device.read(s)[0] == 1 + 7 + 13 + 19);
    device.mul(a, 3, b);
    CHECK(device.read(b)[5] == 18);
    for (const Tensor& t : {a, b, s}) device.release(t);
  }
  set_hash_bits(128);
}

}  // namespace
}  // namespace nax::test
