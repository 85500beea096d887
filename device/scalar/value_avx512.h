// Sixteen fp32 lanes as a *value* of functions.h, on AVX-512 F, BW, DQ, VL. In an unnamed namespace: see strip_kernels.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace nax {
namespace {

struct M32 {
  __mmask16 v;
  friend M32 operator&(M32 a, M32 b) { return {_kand_mask16(a.v, b.v)}; }
  friend M32 operator|(M32 a, M32 b) { return {_kor_mask16(a.v, b.v)}; }
  friend M32 operator~(M32 a) { return {_knot_mask16(a.v)}; }
};

struct I32 {
  static constexpr bool kIsFloat = false;
  static constexpr int kLanes = 16;
  static constexpr int kWidth = 32;
  __m512i v;

  static I32 lit(int c) { return {_mm512_set1_epi32(c)}; }
  static I32 load(const void* p) { return {_mm512_loadu_si512(p)}; }
  void store(void* p) const { _mm512_storeu_si512(p, v); }
  friend I32 operator+(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
  friend I32 operator-(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
  friend I32 operator&(I32 a, I32 b) { return {_mm512_and_si512(a.v, b.v)}; }
  friend I32 operator|(I32 a, I32 b) { return {_mm512_or_si512(a.v, b.v)}; }
  friend M32 operator==(I32 a, I32 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
  friend M32 operator!=(I32 a, I32 b) { return {_mm512_cmpneq_epi32_mask(a.v, b.v)}; }
  friend I32 shl(I32 a, int k) { return {_mm512_slli_epi32(a.v, static_cast<unsigned>(k))}; }
  friend I32 shr(I32 a, int k) { return {_mm512_srai_epi32(a.v, static_cast<unsigned>(k))}; }
  friend I32 select(M32 m, I32 a, I32 b) { return {_mm512_mask_blend_epi32(m.v, b.v, a.v)}; }
};

struct F32 {
  using Int = I32;
  static constexpr bool kIsFloat = true;
  static constexpr int kLanes = 16;
  __m512 v;

  static F32 lit(double c) { return {_mm512_set1_ps(static_cast<float>(c))}; }
  static F32 load(const void* p) { return {_mm512_loadu_ps(p)}; }
  void store(void* p) const { _mm512_storeu_ps(p, v); }
  friend F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
  friend F32 operator-(F32 a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
  template <int Predicate>
  static M32 compare(F32 a, F32 b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, Predicate)};
  }
  friend M32 operator<(F32 a, F32 b) { return compare<_CMP_LT_OQ>(a, b); }
  friend M32 operator<=(F32 a, F32 b) { return compare<_CMP_LE_OQ>(a, b); }
  friend M32 operator>(F32 a, F32 b) { return compare<_CMP_GT_OQ>(a, b); }
  friend M32 operator>=(F32 a, F32 b) { return compare<_CMP_GE_OQ>(a, b); }
  friend M32 operator==(F32 a, F32 b) { return compare<_CMP_EQ_OQ>(a, b); }
  friend M32 operator!=(F32 a, F32 b) { return compare<_CMP_NEQ_UQ>(a, b); }
  friend F32 select(M32 m, F32 a, F32 b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
  friend M32 sign_mask(F32 x) { return {_mm512_movepi32_mask(_mm512_castps_si512(x.v))}; }

  friend F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  friend F32 sqrt(F32 x) { return {_mm512_sqrt_ps(x.v)}; }
  friend F32 floor(F32 x) { return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
  friend F32 ceil(F32 x) { return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
  friend F32 trunc(F32 x) { return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }
  friend F32 rint(F32 x) { return {_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  friend F32 abs(F32 x) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), x.v)}; }
  friend F32 copysign(F32 x, F32 s) {
    const __m512 sign = _mm512_set1_ps(-0.0f);
    return {_mm512_or_ps(_mm512_andnot_ps(sign, x.v), _mm512_and_ps(sign, s.v))};
  }
  friend I32 bits(F32 x) { return {_mm512_castps_si512(x.v)}; }
  friend I32 to_int(F32 x) { return {_mm512_cvttps_epi32(x.v)}; }
  friend F32 scale2(F32 p, F32 n) { return {_mm512_scalef_ps(p.v, n.v)}; }
  friend F32 round_f16(F32 x) { return {_mm512_cvtph_ps(_mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT))}; }

  static F32 load_f16(const void* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))}; }
  void store_f16(void* p) const {
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
};

inline F32 from_bits(I32 x) { return {_mm512_castsi512_ps(x.v)}; }
inline F32 to_float(I32 x) { return {_mm512_cvtepi32_ps(x.v)}; }
inline I32 as_int(M32 m) { return {_mm512_maskz_set1_epi32(m.v, 1)}; }  // 0 or 1

}  // namespace
}  // namespace nax
