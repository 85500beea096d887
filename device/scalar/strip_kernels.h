// What the kernel files of one ISA share. Each of them is compiled with that ISA's flags, and everything in it has internal
// linkage: values live in an unnamed namespace, so every template over them does too, and no inline function that holds
// wider instructions can be merged by the linker into the narrow path (a test looks for weak symbols). That is also why
// kernel files use no std:: function.
#pragma once

#include <string.h>

#include <cstdint>

#include "device/scalar/functions.h"
#include "device/scalar/strip_tables.h"
#include "device/scalar/value.h"
#ifdef __AVX512F__
#include "device/scalar/value_avx512.h"
#define NAX_ISA_TABLE(name) name##_avx512
#else
#include "device/scalar/value_avx2.h"
#define NAX_ISA_TABLE(name) name##_avx2
#endif

namespace nax {
namespace {

constexpr int arity_of(ScalarOp op) {
  return op < ScalarOp::kAdd ? 1 : op < ScalarOp::kSelect ? 2 : 3;
}
constexpr bool is_bool_result(ScalarOp op) {
  return (op >= ScalarOp::kIsNan && op <= ScalarOp::kLogicalNot) ||
         (op >= ScalarOp::kEqual && op <= ScalarOp::kLogicalXor);
}

// Calls f.operator()<number>() for every op number.
template <int Number = 0, class F>
constexpr void for_each_op(F f) {
  if constexpr (Number < kScalarOpLimit) {
    f.template operator()<Number>();
    for_each_op<Number + 1>(f);
  }
}

// Calls f.operator()<form>() for every form that an op has.
template <ScalarOp Op, class F>
constexpr void for_each_form(F f) {
  f.template operator()<kStripAll>();
  if constexpr (arity_of(Op) >= 2) {
    f.template operator()<kScalarA>();
    f.template operator()<kScalarB>();
  }
  if constexpr (arity_of(Op) == 3) {
    f.template operator()<kScalarC>();
    f.template operator()<kScalarA | kScalarB>();
    f.template operator()<kScalarA | kScalarC>();
    f.template operator()<kScalarB | kScalarC>();
  }
}

template <int Round>
inline F32 round_to(F32 x) {
  if constexpr (Round == kRoundBF16) return scalar::round_bf16(x);
  else if constexpr (Round == kRoundF16) return round_f16(x);
  else return x;
}

// The last n < kLanes lanes of a strip go through a full buffer.
template <class V>
inline V load_tail(const void* p, int64_t n) {
  alignas(64) int32_t buffer[V::kLanes] = {};
  memcpy(buffer, p, static_cast<size_t>(n) * 4);
  return V::load(buffer);
}
template <class V>
inline void store_tail(V x, void* p, int64_t n) {
  alignas(64) int32_t buffer[V::kLanes];
  x.store(buffer);
  memcpy(p, buffer, static_cast<size_t>(n) * 4);
}

template <int Round>
inline void round_strip(float* x, int64_t n) {
  if constexpr (Round != kRoundNone) {
    int64_t i = 0;
    for (; i + F32::kLanes <= n; i += F32::kLanes) round_to<Round>(F32::load(x + i)).store(x + i);
    if (i < n) store_tail(round_to<Round>(load_tail<F32>(x + i, n - i)), x + i, n - i);
  }
}

}  // namespace
}  // namespace nax
