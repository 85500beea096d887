// Which vector instructions of the host the kernels may use.
// The choice is made once per process and never changes afterwards: bf16 matmul bits depend on it
// (DESIGN I2).
#pragma once

#include <string_view>

#include "device/base/status.h"

namespace nax {

// Ascending: each level contains the ones before it.
enum class HostIsa : int {
  kAvx2 = 0,    // AVX2 + FMA + F16C: the baseline
  kAvx512 = 1,  // + AVX-512 F, BW, DQ, VL
  kAmx = 2,     // + AMX-TILE and AMX-BF16, with the operating system's permission
};

std::string_view host_isa_name(HostIsa isa);

// Fails where the machine or its operating system lacks AVX2, FMA or F16C. Nothing of nax runs
// without them.
Status check_baseline();

// Does this machine, under this operating system, run `isa`? Asking for kAmx also asks the kernel
// for permission to use the tile registers (the process keeps it). Any thread.
bool host_supports(HostIsa isa);

// AVX512-BF16, which kAvx512 does not imply.
bool host_has_avx512_bf16();

// The best level this machine supports.
HostIsa detect_host_isa();

// auto | avx2 | avx512 | amx. Another word, or a level that this machine lacks, is an error that
// says what is allowed.
StatusOr<HostIsa> parse_host_isa(std::string_view text);

// The level of this process. The first call of either function fixes it (host_isa() to
// detect_host_isa()); setting another value later fails, setting the same one is fine. Any thread.
Status set_host_isa(HostIsa isa);
HostIsa host_isa();

}  // namespace nax
