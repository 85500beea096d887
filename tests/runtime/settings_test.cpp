#include "runtime/settings.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace nax {
namespace {

using Environment = std::map<std::string, std::string>;

StatusOr<Settings> parse(const Environment& environment, const SettingsOverrides& overrides = {}) {
  return parse_settings(overrides, [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("defaults") {
  const auto s = parse({});
  REQUIRE(s.ok());
  CHECK(s->mode == Mode::kEager);
  CHECK(s->fusion_policy == "adaptive");
  CHECK(s->target == "trn2");
  CHECK(s->tier == Tier::kAuto);
  CHECK(s->hbm_bytes > 0);
  CHECK(s->hbm_bytes <= uint64_t{12} << 30);
  CHECK(s->cache_dir.empty());  // neither XDG_CACHE_HOME nor HOME
  CHECK(parse({{"HOME", "/home/somebody"}})->cache_dir == "/home/somebody/.cache/nax");
}

TEST_CASE("every variable is read") {
  const auto s = parse({{"TORCH_NEURON_ADAPTIVE", "1"}, {"NEURON_LAUNCH_BLOCKING", "1"}, {"NEURON_RT_NUM_CORES", "1"},
                        {"NAX_FUSION_POLICY", "greedy"}, {"NAX_CACHE_DIR", ""}, {"NAX_CACHE_BYTES", "2M"},
                        {"NAX_FALLBACK", "error"}, {"NAX_TARGET", "trn1"}, {"NAX_NUM_THREADS", "3"},
                        {"NAX_HBM_BYTES", "1G"}, {"NAX_HOST_ISA", "avx2"}, {"NAX_HASH_BITS", "4"},
                        {"NAX_TIER", "interpret"}, {"NAX_LOG", "debug"}});
  INFO(std::string(s.status().message()));
  REQUIRE(s.ok());
  CHECK(s->mode == Mode::kAdaptive);
  CHECK(s->launch_blocking);
  CHECK(s->fusion_policy == "greedy");
  CHECK(s->cache_bytes == 2 << 20);
  CHECK(s->fallback == FallbackRule::kError);
  CHECK(s->target == "trn1");
  CHECK(s->num_threads == 3);
  CHECK(s->hbm_bytes == uint64_t{1} << 30);
  CHECK(s->host_isa == "avx2");
  CHECK(s->hash_bits == 4);
  CHECK(s->tier == Tier::kInterpret);
  CHECK(s->log_level == 3);
}

TEST_CASE("a value that is not allowed names the variable, the value and what is allowed") {
  const Environment bad = {{"TORCH_NEURON_ADAPTIVE", "yes"}, {"NEURON_LAUNCH_BLOCKING", "2"}, {"NEURON_RT_NUM_CORES", "99"},
                           {"NAX_FUSION_POLICY", "fastest"}, {"NAX_CACHE_BYTES", "many"}, {"NAX_FALLBACK", "never"},
                           {"NAX_NUM_THREADS", "0"}, {"NAX_HBM_BYTES", "-1"}, {"NAX_HOST_ISA", "sse"},
                           {"NAX_HASH_BITS", "129"}, {"NAX_TIER", "fast"}, {"NAX_LOG", "loud"}};
  for (const auto& [name, value] : bad) {
    const auto s = parse({{name, value}});
    CAPTURE(name);
    REQUIRE_FALSE(s.ok());
    INFO(std::string(s.status().message()));
    CHECK(s.status().reason() == ErrorReason::kBadEnvironment);
    const std::string message(s.status().message());
    CHECK(message.find(name) != std::string::npos);
    CHECK(message.find(value) != std::string::npos);
    CHECK(message.find("allowed") != std::string::npos);
  }
  CHECK(std::string(parse({{"NAX_TIER", "fast"}}).status().message()).find("auto, interpret, jit") != std::string::npos);
}

TEST_CASE("options beat the environment, also a wrong one") {
  SettingsOverrides o;
  o.mode = Mode::kAdaptive;
  o.tier = "jit";
  o.hbm_bytes = 123456;
  o.cache_dir = "";
  const auto s = parse({{"TORCH_NEURON_ADAPTIVE", "nonsense"}, {"NAX_TIER", "nonsense"}, {"HOME", "/home/somebody"}}, o);
  REQUIRE(s.ok());
  CHECK(s->mode == Mode::kAdaptive);
  CHECK(s->tier == Tier::kJit);
  CHECK(s->hbm_bytes == 123456);
  o.hbm_bytes = 4095;
  const auto small = parse({}, o);
  REQUIRE_FALSE(small.ok());
  CHECK(small.status().message() ==
        "NAX_HBM_BYTES=\"4095\" is not allowed; allowed: a whole number from 4096 to 17592186044416");
  CHECK(s->cache_dir.empty());
  o.tier = "slow";
  CHECK_FALSE(parse({}, o).ok());
}

}  // namespace
}  // namespace nax
