#include <atomic>

#include "device/base/host_isa.h"
#include "device/matmul/kernel_table.h"

namespace nax::matmul_detail {
namespace {
std::atomic<const KernelTable*> g_forced{nullptr};

KernelTable host_table() {
  if (host_isa() == HostIsa::kAvx2) return avx2_kernels();
  KernelTable table = avx512_kernels();
  if (host_isa() == HostIsa::kAmx)
    table.bf16 = amx_bf16_dot();
  else if (host_has_avx512_bf16())
    table.bf16 = avx512_bf16_dot();
  return table;
}

}

void force_kernels(const KernelTable* table) { g_forced.store(table, std::memory_order_relaxed); }

const KernelTable& active_kernels() {
  if (const KernelTable* forced = g_forced.load(std::memory_order_relaxed)) return *forced;
  static const KernelTable table = host_table();
  return table;
}

}  // namespace nax::matmul_detail
