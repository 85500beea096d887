// Eight fp32 lanes as a *value* of functions.h, on AVX2 + FMA + F16C. In an unnamed namespace: see strip_kernels.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace nax {
namespace {

struct M32 {
  __m256i v;
  friend M32 operator&(M32 a, M32 b) { return {_mm256_and_si256(a.v, b.v)}; }
  friend M32 operator|(M32 a, M32 b) { return {_mm256_or_si256(a.v, b.v)}; }
  friend M32 operator~(M32 a) { return {_mm256_xor_si256(a.v, _mm256_set1_epi32(-1))}; }
};

struct I32 {
  static constexpr bool kIsFloat = false;
  static constexpr int kLanes = 8;
  static constexpr int kWidth = 32;
  __m256i v;

  static I32 lit(int c) { return {_mm256_set1_epi32(c)}; }
  static I32 load(const void* p) { return {_mm256_loadu_si256(static_cast<const __m256i*>(p))}; }
  void store(void* p) const { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  friend I32 operator+(I32 a, I32 b) { return {_mm256_add_epi32(a.v, b.v)}; }
  friend I32 operator-(I32 a, I32 b) { return {_mm256_sub_epi32(a.v, b.v)}; }
  friend I32 operator&(I32 a, I32 b) { return {_mm256_and_si256(a.v, b.v)}; }
  friend I32 operator|(I32 a, I32 b) { return {_mm256_or_si256(a.v, b.v)}; }
  friend M32 operator==(I32 a, I32 b) { return {_mm256_cmpeq_epi32(a.v, b.v)}; }
  friend M32 operator!=(I32 a, I32 b) { return ~(a == b); }
  friend I32 shl(I32 a, int k) { return {_mm256_slli_epi32(a.v, k)}; }
  friend I32 shr(I32 a, int k) { return {_mm256_srai_epi32(a.v, k)}; }
  friend I32 select(M32 m, I32 a, I32 b) { return {_mm256_blendv_epi8(b.v, a.v, m.v)}; }
};

struct F32 {
  using Int = I32;
  static constexpr bool kIsFloat = true;
  static constexpr int kLanes = 8;
  __m256 v;

  static F32 lit(double c) { return {_mm256_set1_ps(static_cast<float>(c))}; }
  static F32 load(const void* p) { return {_mm256_loadu_ps(static_cast<const float*>(p))}; }
  void store(void* p) const { _mm256_storeu_ps(static_cast<float*>(p), v); }
  friend F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
  friend F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
  friend F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.v, b.v)}; }
  friend F32 operator-(F32 a) { return {_mm256_xor_ps(a.v, _mm256_set1_ps(-0.0f))}; }
  template <int Predicate>
  static M32 compare(F32 a, F32 b) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.v, b.v, Predicate))};
  }
  friend M32 operator<(F32 a, F32 b) { return compare<_CMP_LT_OQ>(a, b); }
  friend M32 operator<=(F32 a, F32 b) { return compare<_CMP_LE_OQ>(a, b); }
  friend M32 operator>(F32 a, F32 b) { return compare<_CMP_GT_OQ>(a, b); }
  friend M32 operator>=(F32 a, F32 b) { return compare<_CMP_GE_OQ>(a, b); }
  friend M32 operator==(F32 a, F32 b) { return compare<_CMP_EQ_OQ>(a, b); }
  friend M32 operator!=(F32 a, F32 b) { return compare<_CMP_NEQ_UQ>(a, b); }
  friend F32 select(M32 m, F32 a, F32 b) { return {_mm256_blendv_ps(b.v, a.v, _mm256_castsi256_ps(m.v))}; }
  friend M32 sign_mask(F32 x) { return {_mm256_srai_epi32(_mm256_castps_si256(x.v), 31)}; }

  friend F32 fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  friend F32 sqrt(F32 x) { return {_mm256_sqrt_ps(x.v)}; }
  friend F32 floor(F32 x) { return {_mm256_floor_ps(x.v)}; }
  friend F32 ceil(F32 x) { return {_mm256_ceil_ps(x.v)}; }
  friend F32 trunc(F32 x) { return {_mm256_round_ps(x.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }
  friend F32 rint(F32 x) { return {_mm256_round_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  friend F32 abs(F32 x) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x.v)}; }
  friend F32 copysign(F32 x, F32 s) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(_mm256_andnot_ps(sign, x.v), _mm256_and_ps(sign, s.v))};
  }
  friend I32 bits(F32 x) { return {_mm256_castps_si256(x.v)}; }
  friend I32 to_int(F32 x) { return {_mm256_cvttps_epi32(x.v)}; }
  // In two factors, the first of them exact.
  friend F32 scale2(F32 p, F32 n) {
    const __m256i i = _mm256_cvtps_epi32(n.v), bias = _mm256_set1_epi32(127);
    const __m256i half = _mm256_srai_epi32(i, 1), rest = _mm256_sub_epi32(i, half);
    const __m256 f = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    const __m256 g = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return {_mm256_mul_ps(_mm256_mul_ps(p.v, f), g)};
  }
  friend F32 round_f16(F32 x) { return {_mm256_cvtph_ps(_mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT))}; }

  static F32 load_f16(const void* p) { return {_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)))}; }
  void store_f16(void* p) const {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
};

inline F32 from_bits(I32 x) { return {_mm256_castsi256_ps(x.v)}; }
inline F32 to_float(I32 x) { return {_mm256_cvtepi32_ps(x.v)}; }
inline I32 as_int(M32 m) { return {_mm256_srli_epi32(m.v, 31)}; }  // 0 or 1

}  // namespace
}  // namespace nax
