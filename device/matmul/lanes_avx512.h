// The 16-lane element types that several kernel_<isa>.cpp files need. Included by them only, inside
// their anonymous namespace, after kernel_sources.h.

struct F32 {
  using T = float;
  using V = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kMr = 14;  // 28 accumulators of 32 registers
  static constexpr int kStep = 1;
  static constexpr bool kSimdPack = true;
  static V zero() { return _mm512_setzero_ps(); }
  static V load(const T* p) { return _mm512_loadu_ps(p); }
  static void store(T* p, V v) { _mm512_storeu_ps(p, v); }
  static V broadcast(const T* p) { return _mm512_set1_ps(*p); }
  static V fma(V a, V b, V acc) { return _mm512_fmadd_ps(a, b, acc); }

  template <class L>
  static V widen(__m256i v) {
    if constexpr (kSame<L, FromBF16>)
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
    return _mm512_cvtph_ps(v);
  }
  template <class L>
  static V load_as(const typename L::T* p) {
    if constexpr (kSame<L, FromF32>)
      return load(p);
    else
      return widen<L>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  template <class L>
  static V load_part_as(const typename L::T* p, int n) {
    const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1);
    if constexpr (kSame<L, FromF32>)
      return _mm512_maskz_loadu_ps(mask, p);
    else
      return widen<L>(_mm256_maskz_loadu_epi16(mask, p));
  }
  // 16 x 16 in four rounds: pairs of rows, quads of rows, then 128-bit lanes twice.
  static void transpose(V (&r)[16]) {
    V t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      const __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 1]);
      const __m512d c = _mm512_castps_pd(t[i + 2]), d = _mm512_castps_pd(t[i + 3]);
      r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
      r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
      r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
      r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
      t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
      t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
      t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
      r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
      r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
      r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
  }
};

// Two bf16 of neighbouring k in the place of a float, moved as bits only. The file that includes
// this adds `fma`.
struct BF16Pairs {
  using T = float;
  using V = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kMr = F32::kMr;
  static constexpr int kStep = 2;
  static constexpr bool kSimdPack = true;
  static V zero() { return _mm512_setzero_ps(); }
  static V load(const T* p) { return _mm512_loadu_ps(p); }
  static void store(T* p, V v) { _mm512_storeu_ps(p, v); }
  static V broadcast(const T* p) {
    using Cell [[gnu::may_alias]] = int32_t;
    return _mm512_castsi512_ps(_mm512_set1_epi32(*reinterpret_cast<const Cell*>(p)));
  }
  static void set(T* p, uint16_t even, uint16_t odd) {
    using Cell [[gnu::may_alias]] = uint32_t;
    *reinterpret_cast<Cell*>(p) = static_cast<uint32_t>(odd) << 16 | even;
  }
  // n <= kLanes cells of even[x] and odd[x]; odd may be null: zeros.
  static V pair(const uint16_t* even, const uint16_t* odd, int n) {
    const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1);
    __m512i v = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, even));
    if (odd)
      v = _mm512_or_si512(
          v, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, odd)), 16));
    return _mm512_castsi512_ps(v);
  }
  template <class L>
  static V load_as(const uint16_t* p) {
    return _mm512_loadu_ps(p);
  }
  template <class L>
  static V load_part_as(const uint16_t* p, int n) {
    const __mmask32 mask = static_cast<__mmask32>((uint64_t{1} << n) - 1);
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, p));
  }
  static void transpose(V (&r)[16]) { F32::transpose(r); }
};
