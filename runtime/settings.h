// The settings of one runtime: an options struct first, the environment where a field is unset, then the default.
// A value that is not allowed is kInvalidArgument / kBadEnvironment and names the variable, the value and what is allowed.
// Thread: parse_settings reads the environment; do not change it at the same time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "device/base/function_ref.h"
#include "device/base/status.h"

namespace nax {

enum class Mode : uint8_t { kEager = 1, kAdaptive = 2 };  // numbers of nax_mode
enum class Tier : uint8_t { kAuto = 0, kInterpret = 1, kJit = 2 };
enum class FallbackRule : uint8_t { kAllow = 0, kWarn = 1, kError = 2 };

struct Settings {
  Mode mode = Mode::kEager;             // TORCH_NEURON_ADAPTIVE
  bool launch_blocking = false;         // NEURON_LAUNCH_BLOCKING
  int cores = 1;                        // NEURON_RT_NUM_CORES
  std::string fusion_policy = "adaptive";  // NAX_FUSION_POLICY
  std::string cache_dir;                // NAX_CACHE_DIR; empty: memory only
  std::string dump_dir;                 // NAX_DUMP_DIR: new windows are written there; empty: not at all
  uint64_t cache_bytes = uint64_t{1} << 30;  // NAX_CACHE_BYTES
  FallbackRule fallback = FallbackRule::kAllow;  // NAX_FALLBACK
  std::string target = "trn2";          // NAX_TARGET
  int num_threads = 0;                  // NAX_NUM_THREADS; 0: one per processor
  uint64_t hbm_bytes = 0;               // NAX_HBM_BYTES
  std::string host_isa = "auto";        // NAX_HOST_ISA
  int hash_bits = 128;                  // NAX_HASH_BITS
  Tier tier = Tier::kAuto;              // NAX_TIER
  int log_level = 1;                    // NAX_LOG: error 0, warning 1, info 2, debug 3
};

// Fields that a caller set; beats the environment.
struct SettingsOverrides {
  std::optional<Mode> mode;
  std::optional<bool> launch_blocking;
  std::optional<std::string> fusion_policy, cache_dir, dump_dir, target, host_isa, tier;
  std::optional<uint64_t> cache_bytes, hbm_bytes;
  std::optional<int> num_threads;
};

using EnvironmentReader = FunctionRef<const char*(const char* name)>;  // null where unset
StatusOr<Settings> parse_settings(const SettingsOverrides& overrides, EnvironmentReader read);
StatusOr<Settings> parse_settings(const SettingsOverrides& overrides);  // of this process

// 96 GiB over 8 cores, but no more than 60% of what this machine or control group has.
uint64_t default_hbm_bytes();

// Whether make_plan knows the policy; the error lists the names.
Status check_policy_name(const std::string& name, const char* where);

}  // namespace nax
