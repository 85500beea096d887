// Compiled with AVX-512's flags, as device/matmul/kernel_amx.cpp is.
#include "tests/device/matmul/amx_model.h"

#include <immintrin.h>

#include <cstdint>

namespace nax::matmul_detail {
namespace {

#include "device/matmul/kernel_sources.h"
#include "device/matmul/lanes_avx512.h"
//
#include "device/matmul/kernel_impl.h"
//
#include "device/matmul/amx_impl.h"

struct TileState {
  TileConfig config;
  bool configured = false;
  uint8_t data[8][16][64];
};
thread_local TileState t_tiles;

// A fault of the instruction: ends the test program.
void require(bool ok) {
  if (!ok) __builtin_trap();
}

float widen(const uint8_t* bf16) {
  uint32_t bits = static_cast<uint32_t>(bf16[0]) << 16 | static_cast<uint32_t>(bf16[1]) << 24;
  if ((bits & 0x7f800000) == 0) bits &= 0x80000000;  // subnormal operands are zero
  float f;
  __builtin_memcpy(&f, &bits, 4);
  return f;
}
float flush(float f) {
  uint32_t bits;
  __builtin_memcpy(&bits, &f, 4);
  if ((bits & 0x7f800000) == 0) bits &= 0x80000000;
  __builtin_memcpy(&f, &bits, 4);
  return f;
}

struct ModelTiles {
  static void configure(const TileConfig& config) {
    require(config.palette == 1 && config.start_row == 0);
    for (int t = 0; t < 16; ++t) {
      require(config.rows[t] <= 16 && config.row_bytes[t] <= 64);
      require((config.rows[t] == 0) == (config.row_bytes[t] == 0));
      if (t >= 8) require(config.rows[t] == 0);
    }
    t_tiles.config = config;
    t_tiles.configured = true;
    __builtin_memset(t_tiles.data, 0, sizeof(t_tiles.data));
  }
  static void release() { t_tiles.configured = false; }

  template <int kTile>
  static void zero() {
    require(t_tiles.configured && t_tiles.config.rows[kTile] > 0);
    __builtin_memset(t_tiles.data[kTile], 0, sizeof(t_tiles.data[kTile]));
  }
  template <int kTile>
  static void load(const float* from, int64_t stride) {
    zero<kTile>();
    for (int r = 0; r < t_tiles.config.rows[kTile]; ++r)
      __builtin_memcpy(t_tiles.data[kTile][r],
                       reinterpret_cast<const uint8_t*>(from) + r * stride,
                       t_tiles.config.row_bytes[kTile]);
  }
  template <int kTile>
  static void store(float* to, int64_t stride) {
    require(t_tiles.configured && t_tiles.config.rows[kTile] > 0);
    for (int r = 0; r < t_tiles.config.rows[kTile]; ++r)
      __builtin_memcpy(reinterpret_cast<uint8_t*>(to) + r * stride, t_tiles.data[kTile][r],
                       t_tiles.config.row_bytes[kTile]);
  }
  template <int kC, int kA, int kB>
  static void dot() {
    const TileConfig& config = t_tiles.config;
    require(t_tiles.configured && kC != kA && kC != kB && kA != kB);
    require(config.rows[kC] == config.rows[kA] && config.row_bytes[kC] == config.row_bytes[kB] &&
            config.row_bytes[kA] == 4 * config.rows[kB]);
    for (int m = 0; m < config.rows[kC]; ++m)
      for (int n = 0; n < config.row_bytes[kC] / 4; ++n) {
        float even = 0, odd = 0;
        for (int k = 0; k < config.rows[kB]; ++k) {
          const uint8_t* const a = &t_tiles.data[kA][m][4 * k];
          const uint8_t* const b = &t_tiles.data[kB][k][4 * n];
          even = flush(__builtin_fmaf(widen(a), widen(b), even));
          odd = flush(__builtin_fmaf(widen(a + 2), widen(b + 2), odd));
        }
        float c;
        __builtin_memcpy(&c, &t_tiles.data[kC][m][4 * n], 4);
        c = flush(flush(c) + flush(even + odd));
        __builtin_memcpy(&t_tiles.data[kC][m][4 * n], &c, 4);
      }
  }
};

}  // namespace
}  // namespace nax::matmul_detail

namespace nax::test {

const matmul_detail::TypeKernels& amx_model_bf16_dot() {
  static constexpr matmul_detail::TypeKernels kernels =
      matmul_detail::make_amx_kernels<matmul_detail::ModelTiles>();
  return kernels;
}

}  // namespace nax::test
