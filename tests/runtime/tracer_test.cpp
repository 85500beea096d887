// Traces: what they say agrees with what ran, and they change nothing.
#include "runtime/tracer.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/report_text.h"
#include "tests/runtime/support.h"

namespace nax {
namespace {

using test::check_ok;
using test::Device;
using test::quiet_settings;
using test::scalar;
using test::Tensor;

struct Folder {
  Folder() {
    char name[] = "/tmp/nax-tracer-test-XXXXXX";
    REQUIRE(mkdtemp(name));
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

std::vector<std::string> texts_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> out;
  for (const auto& file : files) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    out.push_back(text.str());
  }
  return out;
}

// y = relu(x + 1) * 2, the temporaries released at once.
Tensor chain(Device& d, const Tensor& x) {
  const Tensor a = d.empty(x.sizes), b = d.empty(x.sizes), y = d.empty(x.sizes);
  check_ok(d.record(OpId::k_add, {x.operand(), scalar(1), scalar(1)}, {a.operand()}, {}, nullptr, 7));
  check_ok(d.record(OpId::k_relu, {a.operand()}, {b.operand()}, {}, nullptr, 8));
  check_ok(d.record(OpId::k_mul, {b.operand(), scalar(2)}, {y.operand()}, {}, nullptr, 9));
  d.release(a);
  d.release(b);
  return y;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a fused chain is one region whose temporaries stay on chip") {
  Device d(Mode::kAdaptive);
  std::vector<WindowReport> windows;
  check_ok(d->set_trace([&](const WindowReport& w) { windows.push_back(w); }, nullptr));
  const Tensor x = d.tensor(std::vector<float>(64, -3.0f), {8, 8});
  const Tensor y = chain(d, x);
  check_ok(d->set_trace(nullptr, nullptr));  // ends the window and waits
  REQUIRE(windows.size() == 1);
  const WindowReport& w = windows[0];
  CHECK(w.cut == "trace");
  CHECK(w.policy == "adaptive");
  CHECK(w.rejected.empty());
  CHECK(w.dead_temporaries == 2);
  REQUIRE(w.regions.size() == 1);
  CHECK(w.regions[0].ops == std::vector<uint32_t>{0, 1, 2});
  CHECK(w.regions[0].device_ns > 0);
  CHECK(w.regions[0].bytes_together == 2 * 256);  // reads x, writes y
  CHECK(w.regions[0].bytes_apart == 6 * 256);
  REQUIRE(w.ops.size() == 3);
  CHECK(w.ops[0].text == "add(f32[8, 8], 1, 1) -> f32[8, 8]");
  CHECK(w.ops[0].origin == "origin 7");
  CHECK(!w.ops[0].reason.empty());
  CHECK(w.ops[1].reason.empty());
  CHECK(w.ops[2].reason.empty());
  CHECK(w.ops[0].on_chip);
  CHECK(w.ops[1].on_chip);
  CHECK_FALSE(w.ops[2].on_chip);
  CHECK(w.ops[2].sequence == w.ops[0].sequence + 2);
  // The time is the clock's, and nothing is told any more.
  d->visit_stats([&](const std::string& key, double value) {
    if (key == "device_seconds") CHECK(value * 1e9 == doctest::Approx(w.regions[0].device_ns));
  });
  const Tensor z = chain(d, x);
  check_ok(d->synchronize());
  CHECK(windows.size() == 1);
  for (const Tensor& t : {x, y, z}) d.release(t);
}

TEST_CASE("ops that share no data stay apart, with a reason") {
  Device d(Mode::kAdaptive);
  std::vector<WindowReport> windows;
  check_ok(d->set_trace([&](const WindowReport& w) { windows.push_back(w); }, nullptr));
  const Tensor x = d.tensor(std::vector<float>(12, 1.0f), {3, 4}), y = d.tensor(std::vector<float>(10, 1.0f), {10});
  const Tensor a = d.empty({3, 4}), b = d.empty({10});
  check_ok(d.record(OpId::k_neg, {x.operand()}, {a.operand()}));
  check_ok(d.record(OpId::k_neg, {y.operand()}, {b.operand()}));
  check_ok(d->set_trace(nullptr, nullptr));
  REQUIRE(windows.size() == 1);
  CHECK(windows[0].regions.size() == 2);
  CHECK(windows[0].ops[1].region == 1);
  CHECK(windows[0].ops[1].reason == "no producer in the window");
  for (const Tensor& t : {x, y, a, b}) d.release(t);
}

TEST_CASE("fallbacks are told with their place in the program") {
  Device d(Mode::kAdaptive);
  std::vector<FallbackReport> fallbacks;
  check_ok(d->set_trace(nullptr, [&](const FallbackReport& f) { fallbacks.push_back(f); }));
  const Tensor x = d.tensor(std::vector<float>(4, 1.0f), {4});
  const Tensor y = chain(d, x);
  d->tracer().fallback(d.stream(), "aten::sort", 5);
  check_ok(d->set_trace(nullptr, nullptr));
  REQUIRE(fallbacks.size() == 1);
  CHECK(fallbacks[0].name == "aten::sort");
  CHECK(fallbacks[0].origin == "origin 5");
  CHECK(fallbacks[0].sequence == 3);
  d.release(x);
  d.release(y);
}

TEST_CASE("a dump folder gets each new window once, readable by its owner alone") {
  Folder folder;
  Settings settings = quiet_settings(Mode::kAdaptive);
  const std::string dump_dir = folder.path + "/dump";
  std::vector<float> plain, dumped;
  for (const bool dump : {false, true}) {
    settings.dump_dir = dump ? dump_dir : "";
    Device d(settings);
    const Tensor x = d.tensor(std::vector<float>{-2, -1, 0, 1, 2, 3}, {6});
    Tensor y;
    for (int step = 0; step < 3; ++step) {
      if (step) d.release(y);
      y = chain(d, x);
      check_ok(d->synchronize());
    }
    std::vector<float>& out = dump ? dumped : plain;
    out.resize(6);
    check_ok(d->read(d.stream(), *y.buffer, 0, out.data(), 24));
    d.release(x);
    d.release(y);
  }
  CHECK(plain == dumped);
  struct stat info {};
  REQUIRE(stat(dump_dir.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  const std::vector<std::string> texts = texts_in(dump_dir);
  // Three equal windows; the first step's may differ in what is written already.
  REQUIRE(texts.size() >= 1);
  CHECK(texts.size() <= 2);
  size_t at = 0;
  for (const char* part : {"== windows ==\n", "op 1: ", "relu(", "# origin 8\n", "== regions ==\n", "region 0: 3 ops", "== programs ==\n",
                           "program ", "== llvm ==\n", "; region 0\n", "== timeline ==\n", "region 0\n"}) {
    at = texts[0].find(part, at);
    REQUIRE_MESSAGE(at != std::string::npos, part);
  }
  CHECK(has(texts[0], "dead: never gets memory"));
  for (const auto& entry : std::filesystem::directory_iterator(dump_dir)) {
    REQUIRE(stat(entry.path().c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
  }
}

TEST_CASE("a dump folder that cannot be had is refused by name; a failing one changes nothing") {
  Folder folder;
  Settings settings = quiet_settings(Mode::kAdaptive);
  settings.dump_dir = folder.path + "/missing/dump";
  auto refused = Runtime::create(settings);
  REQUIRE_FALSE(refused.ok());
  CHECK(has(std::string(refused.status().message()), "NAX_DUMP_DIR"));
  CHECK(has(std::string(refused.status().message()), "missing/dump"));
  CHECK(refused.status().reason() == ErrorReason::kBadEnvironment);

  settings.dump_dir = folder.path + "/gone";
  Device d(settings);
  std::filesystem::remove(settings.dump_dir);
  const Tensor x = d.tensor(std::vector<float>{-2, 5}, {2});
  const Tensor y = chain(d, x);
  check_ok(d->synchronize());
  std::vector<float> out(2);
  check_ok(d->read(d.stream(), *y.buffer, 0, out.data(), 8));
  CHECK(out == std::vector<float>{0, 12});
  d.release(x);
  d.release(y);
}

TEST_CASE("a dump folder keeps to its bound") {
  Folder folder;
  auto opened = DumpFolder::open(folder.path);
  REQUIRE(opened.ok());
  const std::string large(DumpFolder::kMaxBytes / 2, 'x');
  std::ofstream(folder.path + "/" + std::to_string(getpid()) + "-000000.nxd") << "older";
  check_ok((*opened)->write("first"));
  CHECK(texts_in(folder.path) == std::vector<std::string>{"older", "first"});  // nothing is overwritten
  CHECK_FALSE((*opened)->write(large + large).ok());
  CHECK((*opened)->stopped());
  check_ok((*opened)->write("more"));
  CHECK(texts_in(folder.path).size() == 2);
}

}  // namespace
}  // namespace nax
