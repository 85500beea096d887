#include <cstddef>
#include <optional>

#include "api/c/boundary.h"
#include "device/pool/pool.h"
#include "runtime/executor.h"

using namespace nax;
using namespace nax::c;

namespace {

// The caller's options may be of an older version: what its struct lacks is unset.
template <class T>
bool has(const nax_runtime_options& o, T nax_runtime_options::* field) {
  const auto offset = reinterpret_cast<const char*>(&(o.*field)) - reinterpret_cast<const char*>(&o);
  return o.struct_size >= static_cast<size_t>(offset) + sizeof(T);
}

std::optional<std::string> text(const nax_runtime_options& o, const char* nax_runtime_options::* field) {
  return has(o, field) && o.*field ? std::optional<std::string>(o.*field) : std::nullopt;
}

StatusOr<SettingsOverrides> overrides_from(const nax_runtime_options* options) {
  SettingsOverrides out;
  if (!options) return out;
  const nax_runtime_options& o = *options;
  if (o.struct_size < offsetof(nax_runtime_options, mode))
    return invalid_argument("struct_size is " + std::to_string(o.struct_size) + "; it must be sizeof(nax_runtime_options)");
  if (o.abi_version != NAX_ABI_VERSION)
    return Status(StatusCode::kFailedPrecondition,
                  "the caller was built for ABI version " + std::to_string(o.abi_version) + ", this library has " +
                      std::to_string(NAX_ABI_VERSION) + " (set abi_version = NAX_ABI_VERSION)",
                  ErrorReason::kAbiMismatch);
  if (has(o, &nax_runtime_options::mode)) {
    if (o.mode != NAX_MODE_DEFAULT && o.mode != NAX_MODE_EAGER && o.mode != NAX_MODE_ADAPTIVE)
      return invalid_argument("mode is " + std::to_string(o.mode) + "; allowed: NAX_MODE_DEFAULT, NAX_MODE_EAGER, NAX_MODE_ADAPTIVE");
    if (o.mode != NAX_MODE_DEFAULT) out.mode = static_cast<Mode>(o.mode);
  }
  out.fusion_policy = text(o, &nax_runtime_options::fusion_policy);
  out.target = text(o, &nax_runtime_options::target);
  out.host_isa = text(o, &nax_runtime_options::host_isa);
  out.tier = text(o, &nax_runtime_options::tier);
  out.cache_dir = text(o, &nax_runtime_options::cache_dir);
  out.dump_dir = text(o, &nax_runtime_options::dump_dir);
  if (has(o, &nax_runtime_options::cache_bytes) && o.cache_bytes) out.cache_bytes = o.cache_bytes;
  if (has(o, &nax_runtime_options::hbm_bytes) && o.hbm_bytes) out.hbm_bytes = o.hbm_bytes;
  if (has(o, &nax_runtime_options::num_threads) && o.num_threads) out.num_threads = o.num_threads;
  if (has(o, &nax_runtime_options::launch_blocking) && o.launch_blocking) out.launch_blocking = true;
  return out;
}

}  // namespace

nax_status* nax_runtime_create(const nax_runtime_options* options, nax_runtime** out_runtime) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(out_runtime);
    NAX_ASSIGN_OR_RETURN(const SettingsOverrides overrides, overrides_from(options));
    NAX_ASSIGN_OR_RETURN(std::unique_ptr<Runtime> runtime, Runtime::create(overrides));
    *out_runtime = handle(runtime.release());
    return {};
  });
}

void nax_runtime_destroy(nax_runtime* runtime) {
  if (!runtime || !cast(runtime)->in_its_process()) return;  // a forked child leaves the parent's device alone
  guard_void([&] { delete cast(runtime); });
}

nax_mode nax_runtime_mode(nax_runtime* runtime) {
  return runtime ? static_cast<nax_mode>(cast(runtime)->mode()) : NAX_MODE_DEFAULT;
}

nax_status* nax_runtime_set_mode(nax_runtime* runtime, nax_mode mode) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    if (mode != NAX_MODE_EAGER && mode != NAX_MODE_ADAPTIVE)
      return invalid_argument("mode is " + std::to_string(mode) + "; allowed: NAX_MODE_EAGER, NAX_MODE_ADAPTIVE");
    return cast(runtime)->set_mode(static_cast<Mode>(mode));
  });
}

const char* nax_runtime_fusion_policy(nax_runtime* runtime) { return runtime ? cast(runtime)->fusion_policy() : ""; }

nax_status* nax_runtime_set_fusion_policy(nax_runtime* runtime, const char* name) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    NAX_C_REQUIRE(name);
    return cast(runtime)->set_fusion_policy(name);
  });
}

nax_status* nax_runtime_set_num_threads(nax_runtime* runtime, int32_t threads) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    if (threads < 1 || threads > 1024)
      return invalid_argument("threads is " + std::to_string(threads) + "; allowed: a whole number from 1 to 1024");
    ThreadPool::process_pool().set_threads(threads);
    return {};
  });
}

nax_status* nax_runtime_synchronize(nax_runtime* runtime) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    return cast(runtime)->synchronize();
  });
}

void nax_runtime_set_wait_hook(nax_runtime* runtime, nax_wait_hook hook, void* user) {
  if (runtime) guard_void([&] { cast(runtime)->set_wait_hook(hook, user); });
}

void nax_runtime_set_interrupt_check(nax_runtime* runtime, nax_interrupt_check check, void* user) {
  if (runtime) guard_void([&] { cast(runtime)->set_interrupt_check(check, user); });
}

void nax_runtime_set_origin_resolver(nax_runtime* runtime, nax_origin_resolver resolver, void* user) {
  if (runtime) guard_void([&] { cast(runtime)->set_origin_resolver(resolver, user); });
}

void nax_runtime_set_log_sink(nax_runtime* runtime, nax_log_sink sink, void* user) {
  if (runtime) guard_void([&] { cast(runtime)->set_log_sink(sink, user); });
}

nax_status* nax_runtime_visit_stats(nax_runtime* runtime, nax_stat_visitor visit, void* user) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    NAX_C_REQUIRE(visit);
    cast(runtime)->visit_stats([&](const char* key, double value) { visit(user, key, value); });
    return {};
  });
}

void nax_runtime_reset_stats(nax_runtime* runtime) {
  if (runtime) guard_void([&] { cast(runtime)->reset_stats(); });
}

void nax_runtime_count_fallback(nax_runtime* runtime, const char* op_name) {
  if (runtime && op_name) guard_void([&] { cast(runtime)->stats().add_fallback(op_name); });
}

nax_status* nax_runtime_visit_fallbacks(nax_runtime* runtime, nax_stat_visitor visit, void* user) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    NAX_C_REQUIRE(visit);
    cast(runtime)->stats().visit_fallbacks([&](const char* key, double value) { visit(user, key, value); });
    return {};
  });
}

nax_status* nax_runtime_memory_info(nax_runtime* runtime, nax_memory_info* out_info) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(runtime);
    NAX_C_REQUIRE(out_info);
    if (out_info->struct_size < sizeof(nax_memory_info))
      return invalid_argument("struct_size is " + std::to_string(out_info->struct_size) + "; it must be sizeof(nax_memory_info)");
    const HbmStats s = cast(runtime)->hbm().stats();
    nax_memory_info info{};
    info.struct_size = out_info->struct_size;
    info.capacity_bytes = s.capacity;
    info.charged_bytes = s.charged;
    info.charged_peak_bytes = s.charged_peak;
    info.physical_bytes = s.physical;
    info.physical_peak_bytes = s.physical_peak;
    info.cached_bytes = s.mapped > s.physical ? s.mapped - s.physical : 0;
    info.allocations = s.allocations;
    info.releases = s.frees;
    info.out_of_memory = s.ooms;
    *out_info = info;
    return {};
  });
}

void nax_runtime_reset_memory_peak(nax_runtime* runtime) {
  if (runtime) guard_void([&] { cast(runtime)->hbm().reset_peaks(); });
}

void nax_runtime_trim_memory(nax_runtime* runtime) {
  if (runtime) guard_void([&] { cast(runtime)->trim_memory(); });
}
