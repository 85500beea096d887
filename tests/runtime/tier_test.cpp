// Which tier runs what, and that nobody can tell by the bits.
#include <atomic>
#include <thread>

#include "runtime/compiler.h"
#include "tests/runtime/support.h"

namespace nax::test {
namespace {

Settings with_tier(Tier tier) {
  Settings settings = quiet_settings(Mode::kAdaptive);
  settings.tier = tier;
  return settings;
}

std::vector<float> chain(Device& device, int64_t n, float seed) {
  const Tensor a = device.tensor(iota(n, seed, 0.001f), {n}), b = device.empty({n}), c = device.empty({n});
  device.mul(a, 1.25, b);
  check_ok(device.record(OpId::k_exp, {b.operand()}, {b.operand()}));
  device.add(b, a, c, -0.5);
  check_ok(device.record(OpId::k_tanh, {c.operand()}, {c.operand()}));
  std::vector<float> out = device.read(c);
  for (const Tensor& t : {a, b, c}) device.release(t);
  return out;
}

TEST_CASE("every tier gives the same bits") {
  std::vector<float> reference;
  for (Tier tier : {Tier::kInterpret, Tier::kJit, Tier::kAuto}) {
    CAPTURE(static_cast<int>(tier));
    Device device(with_tier(tier));
    for (int round = 0; round < 6; ++round) {
      const std::vector<float> out = chain(device, 5000, -2);
      if (reference.empty()) reference = out;
      REQUIRE(std::memcmp(out.data(), reference.data(), out.size() * 4) == 0);
      if (round == 3) device->executor().tiering().settle();
    }
    if (tier == Tier::kInterpret || !host_compiler()) {
      CHECK(device.stat("jit_launches") == 0);
      CHECK(device.stat("jit_compiles") == 0);
      continue;
    }
    CHECK(device.stat("jit_compiles") > 0);
    CHECK(device.stat("jit_launches") > 0);
    CHECK(device.stat(tier == Tier::kJit ? "compile_seconds_foreground" : "compile_seconds_background") > 0);
    if (tier == Tier::kJit) CHECK(device.stat("interpreted_launches") == 0);
  }
}

TEST_CASE("a failed compile leaves the program with the interpreter, once") {
  if (!host_compiler()) return;
  Device device(with_tier(Tier::kJit));
  device->faults().compile.arm(1);
  const std::vector<float> first = chain(device, 300, 0);
  CHECK(chain(device, 300, 0) == first);
  CHECK(device.stat("jit_failures") == 1);
  CHECK(device.stat("jit_launches") == 0);
  CHECK(device.stat("interpreted_launches") > 0);
}

TEST_CASE("automatic: the first sighting is interpreted, the second asks for one compile") {
  if (!host_compiler()) return;
  Device device(with_tier(Tier::kAuto));
  chain(device, 300, 0);
  device->executor().tiering().settle();
  CHECK(device.stat("jit_compiles") == 0);
  chain(device, 400, 0);
  device->executor().tiering().settle();
  const double compiles = device.stat("jit_compiles");
  CHECK(compiles > 0);
  for (int i = 0; i < 5; ++i) chain(device, 300 + i, 0);
  device->executor().tiering().settle();
  CHECK(device.stat("jit_compiles") == compiles);
  CHECK(device.stat("jit_launches") >= 5);
}

TEST_CASE("a program that runs often is compiled again, once, with the same bits") {
  if (!host_compiler()) return;
  Device device(with_tier(Tier::kAuto));
  const std::vector<float> first = chain(device, 300, 0);
  for (uint32_t i = 0; i < 2 * Tiering::kPromoteAt; ++i) {
    REQUIRE(chain(device, 300, 0) == first);
    if (i == 2) device->executor().tiering().settle();
  }
  device->executor().tiering().settle();
  CHECK(device.stat("jit_promotions") == device.stat("jit_compiles"));
  CHECK(chain(device, 300, 0) == first);
}

std::atomic<int> compiled{0};

TEST_CASE("single flight: many sightings at once compile once") {
  Stats stats;
  FaultInjection faults;
  compiled = 0;
  Tiering tiering(
      Tier::kAuto,
      [](PreparedProgram&, int, int* kernels) -> Status {
        ++compiled;
        *kernels = 0;
        return {};
      },
      stats, faults);
  const auto parsed = make_plan(
      [] {
        Window w;
        w.ops.resize(1);
        w.ops[0].id = OpId::k_neg;
        w.ops[0].compute = DType::kF32;
        w.ops[0].input_count = w.ops[0].output_count = 1;
        for (int i = 0; i < 2; ++i) {
          WindowOperand o;
          o.cls = OperandClass::kTensor;
          o.view.buffer = i;
          o.view.dtype = DType::kF32;
          o.view.rank = 1;
          o.view.sizes[0] = 4;
          o.view.strides[0] = 1;
          w.operands.push_back(o);
          w.buffers.push_back({true, false, 16});
        }
        return w;
      }(),
      "strict", *find_target("trn2"));
  REQUIRE(parsed.ok());
  auto entry = std::make_shared<ProgramEntry>();
  auto prepared = PreparedProgram::prepare((*parsed)->launches[0].programs[0]);
  REQUIRE(prepared.ok());
  entry->prepared = *prepared;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) tiering.sight(entry, true);
    });
  for (std::thread& t : threads) t.join();
  tiering.settle();
  CHECK(compiled == 1);
  CHECK(entry->tier == ProgramEntry::Tier::kNotCompiled);
  tiering.sight(entry, true);
  tiering.settle();
  CHECK(compiled == 1);
}

}  // namespace
}  // namespace nax::test
