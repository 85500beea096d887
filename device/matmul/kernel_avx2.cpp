// Compiled with -mavx2 -mfma -mf16c, the baseline.
#include <immintrin.h>

#include <cstdint>

#include "device/matmul/kernel_table.h"

namespace nax::matmul_detail {
namespace {

#include "device/matmul/kernel_sources.h"

struct F32 {
  using T = float;
  using V = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kMr = 6;  // 12 accumulators of 16 registers
  static constexpr int kStep = 1;
  static constexpr bool kSimdPack = true;
  static V zero() { return _mm256_setzero_ps(); }
  static V load(const T* p) { return _mm256_loadu_ps(p); }
  static void store(T* p, V v) { _mm256_storeu_ps(p, v); }
  static V broadcast(const T* p) { return _mm256_broadcast_ss(p); }
  static V fma(V a, V b, V acc) { return _mm256_fmadd_ps(a, b, acc); }

  template <class L>
  static V widen(__m128i v) {
    if constexpr (kSame<L, FromBF16>)
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
    return _mm256_cvtph_ps(v);
  }
  template <class L>
  static V load_as(const typename L::T* p) {
    if constexpr (kSame<L, FromF32>)
      return load(p);
    else
      return widen<L>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  template <class L>
  static V load_part_as(const typename L::T* p, int n) {
    if constexpr (kSame<L, FromF32>) {
      static constexpr int32_t kMask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
      return _mm256_maskload_ps(
          p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMask + 8 - n)));
    } else {
      alignas(16) uint16_t part[8] = {};
      for (int i = 0; i < n; ++i) part[i] = p[i];
      return widen<L>(_mm_load_si128(reinterpret_cast<const __m128i*>(part)));
    }
  }
  static void transpose(V (&r)[8]) {
    V t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
      r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const V low = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
      r[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
      r[i] = low;
    }
  }
};

struct F64 {
  using T = double;
  using V = __m256d;
  static constexpr int kLanes = 4;
  static constexpr int kMr = 6;
  static constexpr int kStep = 1;
  static constexpr bool kSimdPack = false;
  static V zero() { return _mm256_setzero_pd(); }
  static V load(const T* p) { return _mm256_loadu_pd(p); }
  static void store(T* p, V v) { _mm256_storeu_pd(p, v); }
  static V broadcast(const T* p) { return _mm256_broadcast_sd(p); }
  static V fma(V a, V b, V acc) { return _mm256_fmadd_pd(a, b, acc); }
};

struct I32 {
  using T = int32_t;
  using V = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kMr = 4;
  static constexpr int kStep = 1;
  static constexpr bool kSimdPack = false;
  static V zero() { return _mm256_setzero_si256(); }
  static V load(const T* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store(T* p, V v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static V broadcast(const T* p) { return _mm256_set1_epi32(*p); }
  static V fma(V a, V b, V acc) { return _mm256_add_epi32(acc, _mm256_mullo_epi32(a, b)); }
};

struct I64 {
  using T = int64_t;
  using V = __m256i;
  static constexpr int kLanes = 4;
  static constexpr int kMr = 4;
  static constexpr int kStep = 1;
  static constexpr bool kSimdPack = false;
  static V zero() { return _mm256_setzero_si256(); }
  static V load(const T* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store(T* p, V v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static V broadcast(const T* p) { return _mm256_set1_epi64x(*p); }
  // The low 64 bits of the product from 32-bit halves.
  static V fma(V a, V b, V acc) {
    const V cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b),
                                     _mm256_mul_epu32(a, _mm256_srli_epi64(b, 32)));
    return _mm256_add_epi64(acc,
                            _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(cross, 32)));
  }
};

#include "device/matmul/kernel_impl.h"

}  // namespace

const KernelTable& avx2_kernels() {
  static constexpr KernelTable table = make_table<F32, F64, I32, I64>();
  return table;
}

}  // namespace nax::matmul_detail
