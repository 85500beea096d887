// Compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl; runs only where host_supports(kAvx512).
#include <immintrin.h>

#include <cstdint>

#include "device/matmul/kernel_table.h"

namespace nax::matmul_detail {
namespace {

#include "device/matmul/kernel_sources.h"

#include "device/matmul/lanes_avx512.h"

struct F64 {
  using T = double;
  using V = __m512d;
  static constexpr int kLanes = 8;
  static constexpr int kMr = 8;
  static constexpr int kStep = 1;
  static constexpr bool kSimdPack = false;
  static V zero() { return _mm512_setzero_pd(); }
  static V load(const T* p) { return _mm512_loadu_pd(p); }
  static void store(T* p, V v) { _mm512_storeu_pd(p, v); }
  static V broadcast(const T* p) { return _mm512_set1_pd(*p); }
  static V fma(V a, V b, V acc) { return _mm512_fmadd_pd(a, b, acc); }
};

struct I32 {
  using T = int32_t;
  using V = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kMr = 4;
  static constexpr int kStep = 1;
  static constexpr bool kSimdPack = false;
  static V zero() { return _mm512_setzero_si512(); }
  static V load(const T* p) { return _mm512_loadu_si512(p); }
  static void store(T* p, V v) { _mm512_storeu_si512(p, v); }
  static V broadcast(const T* p) { return _mm512_set1_epi32(*p); }
  static V fma(V a, V b, V acc) { return _mm512_add_epi32(acc, _mm512_mullo_epi32(a, b)); }
};

struct I64 {
  using T = int64_t;
  using V = __m512i;
  static constexpr int kLanes = 8;
  static constexpr int kMr = 4;
  static constexpr int kStep = 1;
  static constexpr bool kSimdPack = false;
  static V zero() { return _mm512_setzero_si512(); }
  static V load(const T* p) { return _mm512_loadu_si512(p); }
  static void store(T* p, V v) { _mm512_storeu_si512(p, v); }
  static V broadcast(const T* p) { return _mm512_set1_epi64(*p); }
  static V fma(V a, V b, V acc) { return _mm512_add_epi64(acc, _mm512_mullo_epi64(a, b)); }
};

#include "device/matmul/kernel_impl.h"

}  // namespace

const KernelTable& avx512_kernels() {
  static constexpr KernelTable table = make_table<F32, F64, I32, I64>();
  return table;
}

}  // namespace nax::matmul_detail
