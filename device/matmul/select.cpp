#include <atomic>

#include "device/base/host_isa.h"
#include "device/matmul/kernel_table.h"

namespace nax::matmul_detail {
namespace {
std::atomic<const KernelTable*> g_forced{nullptr};
}

void force_kernels(const KernelTable* table) { g_forced.store(table, std::memory_order_relaxed); }

const KernelTable& active_kernels() {
  if (const KernelTable* forced = g_forced.load(std::memory_order_relaxed)) return *forced;
  return host_isa() == HostIsa::kAvx2 ? avx2_kernels() : avx512_kernels();
}

}  // namespace nax::matmul_detail
