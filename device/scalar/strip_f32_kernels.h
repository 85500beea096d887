// fp32 strip functions: the vector loop around each function of functions.h, and the element loop around those of libm.h.
// Compiled once an ISA: strip_f32_avx2.cpp, strip_f32_avx512.cpp.
#include <type_traits>

#include "device/scalar/libm.h"
#include "device/scalar/strip_kernels.h"

namespace nax {
namespace {

template <class V, bool Broadcast>
struct Operand {
  const int32_t* p;
  V value;
  explicit Operand(const void* q) : p(static_cast<const int32_t*>(q)) {
    if constexpr (Broadcast) {
      int32_t buffer[V::kLanes];
      for (int32_t& x : buffer) memcpy(&x, q, 4);
      value = V::load(buffer);
    }
  }
  V at(int64_t i) const {
    if constexpr (Broadcast) return value;
    else return V::load(p + i);
  }
  V tail(int64_t i, int64_t n) const {
    if constexpr (Broadcast) return value;
    else return load_tail<V>(p + i, n);
  }
};

template <int Round>
inline F32 finish(F32 x) {
  return round_to<Round>(x);
}
template <int Round>
inline I32 finish(M32 m) {
  return as_int(m);
}

inline bool any(M32 m) {
#ifdef __AVX512F__
  return m.v != 0;
#else
  return _mm256_movemask_epi8(m.v) != 0;
#endif
}

// sin and cos: arguments beyond the vector code's range, one by one.
template <ScalarOp Op>
inline F32 apply_trig(F32 x) {
  F32 y = scalar::trig(x, Op == ScalarOp::kCos ? 1 : 0);
  const M32 large = ~(abs(x) <= x.lit(scalar::kTrigLimit));
  if (__builtin_expect(any(large), false)) {
    alignas(64) float in[F32::kLanes], out[F32::kLanes];
    x.store(in);
    for (int l = 0; l < F32::kLanes; ++l) out[l] = static_cast<float>(libm1<Op>(in[l]));
    y = select(large, F32::load(out), y);
  }
  return y;
}

inline F32 apply3(I32 condition, F32 a, F32 b) { return select(condition != condition.lit(0), a, b); }  // kSelect
inline F32 apply3(F32 x, F32 low, F32 high) { return scalar::clamp(x, low, high); }                     // kClamp

template <ScalarOp Op, unsigned Form, int Round>
void strip_f32(void* dst, const void* pa, const void* pb, const void* pc, int64_t n, uint8_t*) {
  constexpr int kStep = F32::kLanes;
  int32_t* out = static_cast<int32_t*>(dst);
  int64_t i = 0;
  if constexpr (Op == ScalarOp::kSin || Op == ScalarOp::kCos) {
    const Operand<F32, false> a(pa);
    for (; i + kStep <= n; i += kStep) finish<Round>(apply_trig<Op>(a.at(i))).store(out + i);
    if (i < n) store_tail(finish<Round>(apply_trig<Op>(a.tail(i, n - i))), out + i, n - i);
  } else if constexpr (arity_of(Op) == 1) {
    const Operand<F32, false> a(pa);
    for (; i + kStep <= n; i += kStep) finish<Round>(scalar::apply1<Op>(a.at(i))).store(out + i);
    if (i < n) store_tail(finish<Round>(scalar::apply1<Op>(a.tail(i, n - i))), out + i, n - i);
  } else if constexpr (arity_of(Op) == 2) {
    const Operand<F32, (Form & kScalarA) != 0> a(pa);
    const Operand<F32, (Form & kScalarB) != 0> b(pb);
    for (; i + kStep <= n; i += kStep) finish<Round>(scalar::apply2<Op>(a.at(i), b.at(i))).store(out + i);
    if (i < n)
      store_tail(finish<Round>(scalar::apply2<Op>(a.tail(i, n - i), b.tail(i, n - i))), out + i, n - i);
  } else {
    using First = std::conditional_t<Op == ScalarOp::kSelect, I32, F32>;
    const Operand<First, (Form & kScalarA) != 0> a(pa);
    const Operand<F32, (Form & kScalarB) != 0> b(pb);
    const Operand<F32, (Form & kScalarC) != 0> c(pc);
    for (; i + kStep <= n; i += kStep) finish<Round>(apply3(a.at(i), b.at(i), c.at(i))).store(out + i);
    if (i < n) {
      const int64_t rest = n - i;
      store_tail(finish<Round>(apply3(a.tail(i, rest), b.tail(i, rest), c.tail(i, rest))), out + i, rest);
    }
  }
}

// Element by element; the rounding is a second pass.
template <ScalarOp Op, unsigned Form, int Round>
void strip_f32_called(void* dst, const void* pa, const void* pb, const void*, int64_t n, uint8_t* errors) {
  if (n <= 0) return;
  float* out = static_cast<float*>(dst);
  const float* a = static_cast<const float*>(pa);
  const float* b = static_cast<const float*>(pb);
  if constexpr (arity_of(Op) == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(libm1<Op>(a[i]));
  } else {
    const float a0 = *a, b0 = *b;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = libm2<Op>(Form & kScalarA ? a0 : a[i], Form & kScalarB ? b0 : b[i], errors);
  }
  round_strip<Round>(out, n);
}

template <ScalarOp Op, unsigned Form, int Round>
constexpr StripFn entry() {
  if constexpr (Op == ScalarOp::kSin || Op == ScalarOp::kCos || scalar::is_inline(Op, Lane::kF32))
    return &strip_f32<Op, Form, Round>;
  else if constexpr (is_called(Op, Lane::kF32))
    return &strip_f32_called<Op, Form, Round>;
  else
    return nullptr;
}

template <ScalarOp Op, unsigned Form>
constexpr void set_rounds(StripTableF32& table) {
  auto& row = table.fn[static_cast<int>(Op)][Form];
  row[kRoundNone] = entry<Op, Form, kRoundNone>();
  if constexpr (!is_bool_result(Op)) {
    row[kRoundBF16] = entry<Op, Form, kRoundBF16>();
    row[kRoundF16] = entry<Op, Form, kRoundF16>();
  }
}

constexpr StripTableF32 make_table() {
  StripTableF32 table{};
  for_each_op([&]<int Number> {
    constexpr auto Op = static_cast<ScalarOp>(Number);
    for_each_form<Op>([&]<unsigned Form> { set_rounds<Op, Form>(table); });
  });
  return table;
}

}  // namespace

extern constexpr StripTableF32 NAX_ISA_TABLE(kStripF32) = make_table();

}  // namespace nax
