// f64, i64 and i32 strip functions: plain loops that the compiler vectorises. Compiled once an ISA.
#include "device/scalar/libm.h"
#include "device/scalar/strip_kernels.h"

namespace nax {
namespace {

template <class T>
constexpr Lane lane_for() {
  return Scalar<T>::kIsFloat ? Lane::kF64 : sizeof(T) == 8 ? Lane::kI64 : Lane::kI32;
}

template <class T>
inline T result_of(Scalar<T> x) {
  return x.v;
}
template <class T>
inline int32_t result_of(bool m) {
  return m;
}

// Operands may be dst itself: no iteration reads what another one writes.
template <class T, ScalarOp Op, unsigned Form>
void strip_wide(void* dst, const void* pa, const void* pb, const void* pc, int64_t n, uint8_t* errors) {
  using Out = std::conditional_t<is_bool_result(Op), int32_t, T>;
  using V = Scalar<T>;
  Out* out = static_cast<Out*>(dst);
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  const T* c = static_cast<const T*>(pc);
  (void)b, (void)c;
  constexpr bool kInline = scalar::is_inline(Op, lane_for<T>());
  if (n <= 0) return;
  if constexpr (!kInline && arity_of(Op) == 1) {
    for (int64_t i = 0; i < n; ++i) out[i] = libm1<Op>(a[i]);
  } else if constexpr (!kInline) {
    for (int64_t i = 0; i < n; ++i)
      out[i] = libm2<Op>(a[Form & kScalarA ? 0 : i], b[Form & kScalarB ? 0 : i], errors);
  } else if constexpr (arity_of(Op) == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = result_of<T>(scalar::apply1<Op>(V{a[i]}));
  } else if constexpr (arity_of(Op) == 2) {
    const T a0 = *a, b0 = *b;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      out[i] = result_of<T>(scalar::apply2<Op>(V{Form & kScalarA ? a0 : a[i]}, V{Form & kScalarB ? b0 : b[i]}));
  } else if constexpr (Op == ScalarOp::kSelect) {
    const int32_t* condition = static_cast<const int32_t*>(pa);
    const int32_t condition0 = *condition;
    const T b0 = *b, c0 = *c;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T x = Form & kScalarB ? b0 : b[i], y = Form & kScalarC ? c0 : c[i];
      out[i] = (Form & kScalarA ? condition0 : condition[i]) != 0 ? x : y;
    }
  } else {
    const T a0 = *a, b0 = *b, c0 = *c;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      out[i] = scalar::clamp(V{Form & kScalarA ? a0 : a[i]}, V{Form & kScalarB ? b0 : b[i]}, V{Form & kScalarC ? c0 : c[i]}).v;
  }
}

template <class T, ScalarOp Op, unsigned Form>
constexpr StripFn wide_entry() {
  if constexpr (scalar::is_inline(Op, lane_for<T>()) || is_called(Op, lane_for<T>()))
    return &strip_wide<T, Op, Form>;
  else
    return nullptr;
}

template <class T>
constexpr StripTableWide make_wide_table() {
  StripTableWide table{};
  for_each_op([&]<int Number> {
    constexpr auto Op = static_cast<ScalarOp>(Number);
    for_each_form<Op>([&]<unsigned Form> { table.fn[Number][Form] = wide_entry<T, Op, Form>(); });
  });
  return table;
}

// Narrow integers: the int32 result, then a pass that wraps it to the tile's width.
template <ScalarOp Op, unsigned Form, class Narrow>
void strip_narrow(void* dst, const void* a, const void* b, const void* c, int64_t n, uint8_t* errors) {
  strip_wide<int32_t, Op, Form>(dst, a, b, c, n, errors);
  int32_t* out = static_cast<int32_t*>(dst);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Narrow>(out[i]);
}

constexpr StripTableI32 make_i32_table() {
  StripTableI32 table{};
  for_each_op([&]<int Number> {
    constexpr auto Op = static_cast<ScalarOp>(Number);
    for_each_form<Op>([&]<unsigned Form> {
      auto& row = table.fn[Number][Form];
      if constexpr (scalar::is_inline(Op, Lane::kI32) || is_called(Op, Lane::kI32)) {
        row[kRoundNone] = wide_entry<int32_t, Op, Form>();
        if constexpr (is_bool_result(Op)) {
          row[kRoundBool] = row[kRoundNone];
        } else {
          row[kRoundI16] = &strip_narrow<Op, Form, int16_t>;
          row[kRoundI8] = &strip_narrow<Op, Form, int8_t>;
          row[kRoundU8] = &strip_narrow<Op, Form, uint8_t>;
          row[kRoundBool] = &strip_narrow<Op, Form, bool>;
        }
      }
    });
  });
  return table;
}

}  // namespace

extern constexpr StripTableWide NAX_ISA_TABLE(kStripF64) = make_wide_table<double>();
extern constexpr StripTableWide NAX_ISA_TABLE(kStripI64) = make_wide_table<int64_t>();
extern constexpr StripTableI32 NAX_ISA_TABLE(kStripI32) = make_i32_table();

}  // namespace nax
