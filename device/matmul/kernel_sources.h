// The operand types that packing reads, with their widening. Included by the kernel_<isa>.cpp files
// only, inside their anonymous namespace (see kernel_impl.h).

template <class Stored>
struct FromSame {
  using T = Stored;
  static constexpr int kStep = 1;
  template <class A>
  static A acc(T v) {
    return static_cast<A>(v);
  }
};
using FromF32 = FromSame<float>;
using FromF64 = FromSame<double>;
using FromU8 = FromSame<uint8_t>;
using FromI8 = FromSame<int8_t>;
using FromI16 = FromSame<int16_t>;
using FromI32 = FromSame<int32_t>;
using FromI64 = FromSame<int64_t>;

struct FromBF16 {
  using T = uint16_t;
  static constexpr int kStep = 1;
  template <class A>
  static A acc(T v) {
    return _mm_cvtss_f32(
        _mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(static_cast<uint32_t>(v) << 16))));
  }
};
// Neighbouring k of bf16, taken as one cell of 32 bits.
struct FromBF16Pair {
  using T = uint16_t;
  static constexpr int kStep = 2;
};
struct FromF16 {
  using T = uint16_t;
  static constexpr int kStep = 1;
  template <class A>
  static A acc(T v) {
    return _cvtsh_ss(v);
  }
};

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;
