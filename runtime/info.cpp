#include "runtime/info.h"

#include <cstdio>

#include "device/base/host_isa.h"
#include "device/jit/jit.h"
#include "device/pool/pool.h"
#include "device/targets/target.h"
#include "runtime/build_fingerprint.h"
#include "runtime/executor.h"
#include "runtime/runtime.h"

namespace nax {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

const char* name(Tier tier) {
  switch (tier) {
    case Tier::kAuto: return "auto";
    case Tier::kInterpret: return "interpret";
    case Tier::kJit: return "jit";
  }
  return "";
}

const char* name(FallbackRule rule) {
  switch (rule) {
    case FallbackRule::kAllow: return "allow";
    case FallbackRule::kWarn: return "warn";
    case FallbackRule::kError: return "error";
  }
  return "";
}

}  // namespace

void visit_info(Runtime& runtime, FunctionRef<void(const std::string& key, const std::string& text)> visit) {
  const Settings& s = runtime.settings();
  visit("build", build_fingerprint());
  visit("build.jit", jit_available() ? "yes" : "no");

  visit("host.isa", std::string(host_isa_name(host_isa())));
  visit("host.isa_best", std::string(host_isa_name(detect_host_isa())));
  visit("host.avx512_bf16", host_has_avx512_bf16() ? "yes" : "no");
  visit("host.threads", std::to_string(ThreadPool::process_pool().threads()));

  constexpr const char* kLogLevels[] = {"error", "warning", "info", "debug"};
  visit("setting.TORCH_NEURON_ADAPTIVE", runtime.mode() == Mode::kAdaptive ? "1" : "0");
  visit("setting.NEURON_LAUNCH_BLOCKING", s.launch_blocking ? "1" : "0");
  visit("setting.NEURON_RT_NUM_CORES", std::to_string(s.cores));
  visit("setting.NAX_FUSION_POLICY", runtime.fusion_policy());
  visit("setting.NAX_TIER", name(s.tier));
  visit("setting.NAX_TARGET", s.target);
  visit("setting.NAX_HOST_ISA", s.host_isa);
  visit("setting.NAX_NUM_THREADS", s.num_threads ? std::to_string(s.num_threads) : "one per processor");
  visit("setting.NAX_HBM_BYTES", std::to_string(s.hbm_bytes));
  visit("setting.NAX_CACHE_DIR", s.cache_dir);
  visit("setting.NAX_CACHE_BYTES", std::to_string(s.cache_bytes));
  visit("setting.NAX_DUMP_DIR", s.dump_dir);
  visit("setting.NAX_FALLBACK", name(s.fallback));
  visit("setting.NAX_LOG", s.log_level >= 0 && s.log_level < 4 ? kLogLevels[s.log_level] : "");
  visit("setting.NAX_HASH_BITS", std::to_string(s.hash_bits));

  visit("cache.kept", runtime.executor().plans().on_disk() ? "on disk" : "in memory only");
  visit("cache.folder", s.cache_dir);

  for (const char* target_name : {"trn1", "trn2", "trn3"}) {
    const TargetInfo* t = find_target(target_name);
    if (!t) continue;
    const std::string key = "target." + std::string(target_name) + ".";
    visit(key + "generation", std::string(t->generation));
    visit(key + "sbuf_partition_bytes", std::to_string(t->sbuf_usable_partition_bytes));
    visit(key + "psum_banks", std::to_string(t->psum_banks));
    visit(key + "psum_bank_bytes", std::to_string(t->psum_bank_bytes));
    visit(key + "hbm_bytes", std::to_string(t->hbm_bytes));
    visit(key + "hbm_gigabytes_per_second", number(t->hbm_bytes_per_ns));
    visit(key + "pe_gigahertz", number(t->pe_ghz));
    visit(key + "pe_bf16_teraflops", number(t->pe_bf16_tflops));
  }
}

}  // namespace nax
