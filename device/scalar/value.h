// One lane as a *value* of functions.h: the plain C++ reference, used for f64 and integer strips (the compiler vectorises
// the loops), for tails and for the last steps of reductions. In an unnamed namespace: see strip_kernels.h.
#pragma once

namespace nax {
namespace {

template <class T>
struct Scalar {
  static constexpr bool kIsFloat = T(0.5) != T(0);
  static constexpr int kWidth = 8 * sizeof(T);
  T v;

  template <class C>
  static Scalar lit(C c) {
    return {static_cast<T>(c)};
  }
  // Integers wrap.
  friend Scalar operator+(Scalar a, Scalar b) { return wrap(a, b, [](auto x, auto y) { return x + y; }); }
  friend Scalar operator-(Scalar a, Scalar b) { return wrap(a, b, [](auto x, auto y) { return x - y; }); }
  friend Scalar operator*(Scalar a, Scalar b) { return wrap(a, b, [](auto x, auto y) { return x * y; }); }
  friend Scalar operator/(Scalar a, Scalar b) { return {a.v / b.v}; }
  friend Scalar operator-(Scalar a) {
    if constexpr (kIsFloat) return {-a.v};
    else return Scalar{0} - a;
  }
  friend bool operator<(Scalar a, Scalar b) { return a.v < b.v; }
  friend bool operator<=(Scalar a, Scalar b) { return a.v <= b.v; }
  friend bool operator>(Scalar a, Scalar b) { return a.v > b.v; }
  friend bool operator>=(Scalar a, Scalar b) { return a.v >= b.v; }
  friend bool operator==(Scalar a, Scalar b) { return a.v == b.v; }
  friend bool operator!=(Scalar a, Scalar b) { return a.v != b.v; }
  friend Scalar select(bool m, Scalar a, Scalar b) { return {m ? a.v : b.v}; }

  friend Scalar operator&(Scalar a, Scalar b) { return {a.v & b.v}; }
  friend Scalar operator|(Scalar a, Scalar b) { return {a.v | b.v}; }
  friend Scalar operator^(Scalar a, Scalar b) { return {a.v ^ b.v}; }
  friend Scalar operator~(Scalar a) { return {~a.v}; }
  friend Scalar shl_by(Scalar a, Scalar b) { return {static_cast<T>(unsigned_of(a.v) << b.v)}; }
  friend Scalar shr_by(Scalar a, Scalar b) { return {a.v >> b.v}; }

  friend bool sign_mask(Scalar x) {
    if constexpr (kIsFloat) return __builtin_signbit(x.v);
    else return x.v < 0;
  }
  friend Scalar sqrt(Scalar x) {
    if constexpr (sizeof(T) == 4) return {__builtin_sqrtf(x.v)};
    else return {__builtin_sqrt(x.v)};
  }
  friend Scalar abs(Scalar x) { return {static_cast<T>(__builtin_fabs(x.v))}; }
  friend Scalar floor(Scalar x) { return {static_cast<T>(__builtin_floor(x.v))}; }
  friend Scalar ceil(Scalar x) { return {static_cast<T>(__builtin_ceil(x.v))}; }
  friend Scalar trunc(Scalar x) { return {static_cast<T>(__builtin_trunc(x.v))}; }
  friend Scalar rint(Scalar x) { return {static_cast<T>(__builtin_rint(x.v))}; }
  friend Scalar copysign(Scalar x, Scalar s) { return {static_cast<T>(__builtin_copysign(x.v, s.v))}; }

 private:
  static auto unsigned_of(T x) {
    if constexpr (sizeof(T) == 8) return static_cast<unsigned long>(x);
    else return static_cast<unsigned>(x);
  }
  template <class F>
  static Scalar wrap(Scalar a, Scalar b, F f) {
    if constexpr (kIsFloat) return {f(a.v, b.v)};
    else return {static_cast<T>(f(unsigned_of(a.v), unsigned_of(b.v)))};
  }
};

}  // namespace
}  // namespace nax
