#include "device/base/host_isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace nax {
namespace {

struct Features {
  bool avx2 = false;    // with FMA and F16C
  bool avx512 = false;  // F, BW, DQ, VL
  bool avx512_bf16 = false;
  bool amx = false;
};

uint64_t read_xcr0() {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (static_cast<uint64_t>(hi) << 32) | lo;
}

// Linux hands out the 8 KiB of tile state only on request.
bool request_amx_permission() {
  constexpr int kArchReqXcompPerm = 0x1023;
  constexpr int kXfeatureTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

Features read_features() {
  Features f;
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
  const bool osxsave = c & (1u << 27), avx = c & (1u << 28), fma = c & (1u << 12),
             f16c = c & (1u << 29);
  if (!osxsave || !avx) return f;
  const uint64_t xcr0 = read_xcr0();
  uint32_t a7, b7, c7, d7;
  if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7)) return f;
  const bool os_avx = (xcr0 & 0x6) == 0x6;
  f.avx2 = os_avx && fma && f16c && (b7 & (1u << 5));
  const bool os_avx512 = (xcr0 & 0xe6) == 0xe6;
  const uint32_t f_dq_bw_vl = (1u << 16) | (1u << 17) | (1u << 30) | (1u << 31);
  f.avx512 = f.avx2 && os_avx512 && (b7 & f_dq_bw_vl) == f_dq_bw_vl;
  uint32_t a71 = 0, b71, c71, d71;
  if (a7 >= 1 && __get_cpuid_count(7, 1, &a71, &b71, &c71, &d71))
    f.avx512_bf16 = f.avx512 && (a71 & (1u << 5));
  const bool os_amx = (xcr0 & 0x60000) == 0x60000;
  const bool amx_bf16_tile = (d7 & (1u << 22)) && (d7 & (1u << 24));
  f.amx = f.avx512 && os_amx && amx_bf16_tile && request_amx_permission();
  return f;
}

const Features& features() {
  static const Features f = read_features();
  return f;
}

std::atomic<int> g_isa{-1};

}  // namespace

std::string_view host_isa_name(HostIsa isa) {
  switch (isa) {
    case HostIsa::kAvx2:
      return "avx2";
    case HostIsa::kAvx512:
      return "avx512";
    case HostIsa::kAmx:
      return "amx";
  }
  return "unknown";
}

Status check_baseline() {
  if (features().avx2) return {};
  return {StatusCode::kFailedPrecondition,
          "nax needs a processor and an operating system with AVX2, FMA and F16C; this machine "
          "lacks at least one"};
}

bool host_supports(HostIsa isa) {
  switch (isa) {
    case HostIsa::kAvx2:
      return features().avx2;
    case HostIsa::kAvx512:
      return features().avx512;
    case HostIsa::kAmx:
      return features().amx;
  }
  return false;
}

bool host_has_avx512_bf16() { return features().avx512_bf16; }

HostIsa detect_host_isa() {
  if (host_supports(HostIsa::kAmx)) return HostIsa::kAmx;
  if (host_supports(HostIsa::kAvx512)) return HostIsa::kAvx512;
  return HostIsa::kAvx2;
}

StatusOr<HostIsa> parse_host_isa(std::string_view text) {
  if (text == "auto") {
    NAX_RETURN_IF_ERROR(check_baseline());
    return detect_host_isa();
  }
  for (HostIsa isa : {HostIsa::kAvx2, HostIsa::kAvx512, HostIsa::kAmx}) {
    if (text != host_isa_name(isa)) continue;
    if (host_supports(isa)) return isa;
    return Status(StatusCode::kInvalidArgument,
                  "host ISA '" + std::string(text) +
                      "' is not supported by this machine; its best is '" +
                      std::string(host_isa_name(detect_host_isa())) + "'",
                  ErrorReason::kBadEnvironment);
  }
  return Status(StatusCode::kInvalidArgument,
                "unknown host ISA '" + std::string(text) + "'; allowed: auto, avx2, avx512, amx",
                ErrorReason::kBadEnvironment);
}

Status set_host_isa(HostIsa isa) {
  if (!host_supports(isa))
    return {StatusCode::kInvalidArgument,
            "host ISA '" + std::string(host_isa_name(isa)) + "' is not supported by this machine",
            ErrorReason::kBadEnvironment};
  int expected = -1;
  if (g_isa.compare_exchange_strong(expected, static_cast<int>(isa)) ||
      expected == static_cast<int>(isa))
    return {};
  return {StatusCode::kFailedPrecondition,
          "the host ISA of this process is already '" +
              std::string(host_isa_name(static_cast<HostIsa>(expected))) + "' and cannot become '" +
              std::string(host_isa_name(isa)) + "'"};
}

HostIsa host_isa() {
  int isa = g_isa.load(std::memory_order_relaxed);
  if (isa < 0) {
    int expected = -1;
    isa = static_cast<int>(detect_host_isa());
    if (!g_isa.compare_exchange_strong(expected, isa)) isa = expected;
  }
  return static_cast<HostIsa>(isa);
}

}  // namespace nax
