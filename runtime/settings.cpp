#include "runtime/settings.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string_view>

#include "cache/disk_store.h"
#include "device/base/host_isa.h"
#include "fusion/plan.h"

namespace nax {
namespace {

constexpr uint64_t kMinHbmBytes = 4096, kMaxHbmBytes = uint64_t{1} << 44;
constexpr uint64_t kMaxCores = 32;  // each core is a runtime of its own

Status bad_value(std::string_view name, std::string_view value, std::string_view allowed) {
  std::string message(name);
  message.append("=\"").append(value).append("\" is not allowed; allowed: ").append(allowed);
  return {StatusCode::kInvalidArgument, std::move(message), ErrorReason::kBadEnvironment};
}

template <class T>
struct Choice {
  std::string_view name;
  T value;
};

template <class T>
Status choose(std::string_view name, std::string_view text, std::initializer_list<Choice<T>> choices, T* out) {
  std::string allowed;
  for (const Choice<T>& c : choices) {
    if (c.name == text) {
      *out = c.value;
      return {};
    }
    allowed.append(allowed.empty() ? "" : ", ").append(c.name);
  }
  return bad_value(name, text, allowed);
}

// Digits, then an optional K, M or G (powers of 1024) where `suffix`.
bool parse_number(std::string_view text, bool suffix, uint64_t* out) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest == text.data()) return false;
  int shift = 0;
  if (suffix && rest + 1 == end) {
    if (*rest == 'K' || *rest == 'k') shift = 10;
    if (*rest == 'M' || *rest == 'm') shift = 20;
    if (*rest == 'G' || *rest == 'g') shift = 30;
  }
  if (rest + (shift ? 1 : 0) != end) return false;
  if (shift && value > (UINT64_MAX >> shift)) return false;
  *out = value << shift;
  return true;
}

Status parse_range(std::string_view name, std::string_view text, uint64_t low, uint64_t high, bool suffix, uint64_t* out) {
  uint64_t value = 0;
  if (!parse_number(text, suffix, &value) || value < low || value > high)
    return bad_value(name, text,
                     "a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
                         (suffix ? ", with an optional K, M or G" : ""));
  *out = value;
  return {};
}

// The number in a one-line file; 0 where there is none ("max").
uint64_t number_in_file(const char* path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : 0;
}

}  // namespace

uint64_t default_hbm_bytes() {
  const uint64_t card = uint64_t{12} << 30;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t machine = pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : card;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    if (const uint64_t limit = number_in_file(path)) machine = std::min(machine, limit);
  return std::min(card, machine / 10 * 6);
}

Status check_policy_name(const std::string& name, const char* where) {
  std::string allowed;
  for (const char* const* p = fusion_policy_names(); *p; ++p) {
    if (name == *p) return {};
    allowed.append(allowed.empty() ? "" : ", ").append(*p);
  }
  return bad_value(where, name, allowed);
}

StatusOr<Settings> parse_settings(const SettingsOverrides& o, EnvironmentReader read) {
  Settings s;
  uint64_t number = 0;
  // An override is checked like the variable it stands for.
  const auto text = [&](const char* name, const std::optional<std::string>& override_value) -> std::optional<std::string> {
    if (override_value) return override_value;
    const char* value = read(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
  const auto flag = [&](const char* name, bool* out) -> Status {
    const char* value = read(name);
    return value ? choose<bool>(name, value, {{"0", false}, {"1", true}}, out) : Status();
  };

  if (o.mode) {
    s.mode = *o.mode;
  } else if (const char* v = read("TORCH_NEURON_ADAPTIVE")) {
    NAX_RETURN_IF_ERROR(
        choose<Mode>("TORCH_NEURON_ADAPTIVE", v, {{"0", Mode::kEager}, {"1", Mode::kAdaptive}}, &s.mode));
  }
  if (o.launch_blocking) {
    s.launch_blocking = *o.launch_blocking;
  } else {
    NAX_RETURN_IF_ERROR(flag("NEURON_LAUNCH_BLOCKING", &s.launch_blocking));
  }
  if (const char* v = read("NEURON_RT_NUM_CORES")) {
    NAX_RETURN_IF_ERROR(parse_range("NEURON_RT_NUM_CORES", v, 1, kMaxCores, false, &number));
    s.cores = static_cast<int>(number);
  }
  if (auto v = text("NAX_FUSION_POLICY", o.fusion_policy)) {
    NAX_RETURN_IF_ERROR(check_policy_name(*v, "NAX_FUSION_POLICY"));
    s.fusion_policy = *v;
  }
  if (auto v = text("NAX_CACHE_DIR", o.cache_dir)) {
    s.cache_dir = *v;
  } else {
    const char* xdg = read("XDG_CACHE_HOME");
    const char* home = read("HOME");
    if (auto directory = default_cache_directory(xdg ? xdg : "", home ? home : ""); directory.ok()) s.cache_dir = *directory;
  }
  if (auto v = text("NAX_DUMP_DIR", o.dump_dir)) s.dump_dir = *v;
  if (o.cache_bytes) {
    s.cache_bytes = *o.cache_bytes;
  } else if (const char* v = read("NAX_CACHE_BYTES")) {
    NAX_RETURN_IF_ERROR(parse_range("NAX_CACHE_BYTES", v, 0, uint64_t{1} << 50, true, &s.cache_bytes));
  }
  if (const char* v = read("NAX_FALLBACK"))
    NAX_RETURN_IF_ERROR(choose<FallbackRule>(
        "NAX_FALLBACK", v,
        {{"allow", FallbackRule::kAllow}, {"warn", FallbackRule::kWarn}, {"error", FallbackRule::kError}}, &s.fallback));
  if (auto v = text("NAX_TARGET", o.target)) s.target = *v;  // checked against the target tables by the runtime
  if (o.num_threads) {
    if (*o.num_threads < 1 || *o.num_threads > 1024)
      return bad_value("NAX_NUM_THREADS", std::to_string(*o.num_threads), "a whole number from 1 to 1024");
    s.num_threads = *o.num_threads;
  } else if (const char* v = read("NAX_NUM_THREADS")) {
    NAX_RETURN_IF_ERROR(parse_range("NAX_NUM_THREADS", v, 1, 1024, false, &number));
    s.num_threads = static_cast<int>(number);
  }
  if (o.hbm_bytes) {
    if (*o.hbm_bytes < kMinHbmBytes || *o.hbm_bytes > kMaxHbmBytes)
      return bad_value("NAX_HBM_BYTES", std::to_string(*o.hbm_bytes),
                       "a whole number from " + std::to_string(kMinHbmBytes) + " to " + std::to_string(kMaxHbmBytes));
    s.hbm_bytes = *o.hbm_bytes;
  } else if (const char* v = read("NAX_HBM_BYTES")) {
    NAX_RETURN_IF_ERROR(parse_range("NAX_HBM_BYTES", v, kMinHbmBytes, kMaxHbmBytes, true, &s.hbm_bytes));
  }
  if (s.hbm_bytes == 0) s.hbm_bytes = default_hbm_bytes();
  if (auto v = text("NAX_HOST_ISA", o.host_isa)) {
    const auto isa = parse_host_isa(*v);
    if (!isa.ok())
      return Status(StatusCode::kInvalidArgument, "NAX_HOST_ISA: " + std::string(isa.status().message()),
                    ErrorReason::kBadEnvironment);
    s.host_isa = *v;
  }
  if (const char* v = read("NAX_HASH_BITS")) {
    NAX_RETURN_IF_ERROR(parse_range("NAX_HASH_BITS", v, 0, 128, false, &number));
    s.hash_bits = static_cast<int>(number);
  }
  if (auto v = text("NAX_TIER", o.tier))
    NAX_RETURN_IF_ERROR(choose<Tier>(
        "NAX_TIER", *v, {{"auto", Tier::kAuto}, {"interpret", Tier::kInterpret}, {"jit", Tier::kJit}}, &s.tier));
  if (const char* v = read("NAX_LOG"))
    NAX_RETURN_IF_ERROR(
        choose<int>("NAX_LOG", v, {{"error", 0}, {"warning", 1}, {"info", 2}, {"debug", 3}}, &s.log_level));
  return s;
}

StatusOr<Settings> parse_settings(const SettingsOverrides& overrides) {
  return parse_settings(overrides, [](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace nax
