// Compiled with AVX-512's flags (packing); runs only where host_supports(kAmx), which also holds the
// operating system's permission to use the tile registers.
#include <immintrin.h>

#include <cstdint>

#include "device/matmul/kernel_table.h"

namespace nax::matmul_detail {
namespace {

#include "device/matmul/kernel_sources.h"
#include "device/matmul/lanes_avx512.h"
//
#include "device/matmul/kernel_impl.h"
//
#include "device/matmul/amx_impl.h"

// The instructions themselves: the compiler's intrinsics take the register as a macro argument, and
// some versions forget that a tile load reads memory.
struct HardwareTiles {
  static void configure(const TileConfig& config) {
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
  }
  static void release() { __asm__ volatile("tilerelease"); }
  template <int kTile>
  static void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  static void load(const float* from, int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile)
                     : "memory");
  }
  template <int kTile>
  static void store(float* to, int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile)
                     : "memory");
  }
  template <int kC, int kA, int kB>
  static void dot() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
  }
};

}  // namespace

const TypeKernels& amx_bf16_dot() {
  static constexpr TypeKernels kernels = make_amx_kernels<HardwareTiles>();
  return kernels;
}

}  // namespace nax::matmul_detail
