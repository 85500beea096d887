// Between memory and lanes, and between lanes: load, store, round, cast. Compiled once an ISA.
#include "device/scalar/strip_kernels.h"

namespace nax {
namespace {

// What a dtype is in memory (the bit patterns of f16 and bf16) and in lanes.
template <DType D> struct Traits;
template <> struct Traits<DType::kBool> { using Memory = uint8_t; using LaneType = int32_t; };
template <> struct Traits<DType::kU8> { using Memory = uint8_t; using LaneType = int32_t; };
template <> struct Traits<DType::kI8> { using Memory = int8_t; using LaneType = int32_t; };
template <> struct Traits<DType::kI16> { using Memory = int16_t; using LaneType = int32_t; };
template <> struct Traits<DType::kI32> { using Memory = int32_t; using LaneType = int32_t; };
template <> struct Traits<DType::kI64> { using Memory = int64_t; using LaneType = int64_t; };
template <> struct Traits<DType::kF16> { using Memory = uint16_t; using LaneType = float; };
template <> struct Traits<DType::kBF16> { using Memory = uint16_t; using LaneType = float; };
template <> struct Traits<DType::kF32> { using Memory = float; using LaneType = float; };
template <> struct Traits<DType::kF64> { using Memory = double; using LaneType = double; };
template <DType D> using MemoryOf = typename Traits<D>::Memory;
template <DType D> using LaneOf = typename Traits<D>::LaneType;

template <class To, class From>
inline To bit_copy(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  memcpy(&y, &x, sizeof(To));
  return y;
}

inline uint16_t bf16_of(float x) {
  const uint32_t i = bit_copy<uint32_t>(x);
  const uint32_t rounded = i + ((i >> 16) & 1) + 0x7fff;
  return static_cast<uint16_t>((x != x ? i | 0x00400000 : rounded) >> 16);
}

template <DType D>
inline LaneOf<D> load_one(MemoryOf<D> m) {
  if constexpr (D == DType::kBF16) return bit_copy<float>(static_cast<uint32_t>(m) << 16);
  else if constexpr (D == DType::kF16) return _cvtsh_ss(m);
  else if constexpr (D == DType::kBool) return m != 0;
  else return m;
}
template <DType D>
inline MemoryOf<D> store_one(LaneOf<D> x) {
  if constexpr (D == DType::kBF16) return bf16_of(x);
  else if constexpr (D == DType::kF16) return static_cast<uint16_t>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT));
  else if constexpr (D == DType::kBool) return x != 0;
  else return static_cast<MemoryOf<D>>(x);
}

template <DType D>
void load(void* lanes, const void* src, int64_t stride, int64_t n) {
  auto* out = static_cast<LaneOf<D>*>(lanes);
  const auto* in = static_cast<const MemoryOf<D>*>(src);
  int64_t i = 0;
  if (stride == 1) {
    if constexpr (D == DType::kF16)
      for (; i + F32::kLanes <= n; i += F32::kLanes) F32::load_f16(in + i).store(out + i);
#pragma GCC ivdep
    for (; i < n; ++i) out[i] = load_one<D>(in[i]);
  } else if (stride == 0) {
    const LaneOf<D> value = n > 0 ? load_one<D>(*in) : LaneOf<D>{};
    for (; i < n; ++i) out[i] = value;
  } else {
    for (; i < n; ++i) out[i] = load_one<D>(in[i * stride]);
  }
}

template <DType D>
void store(void* dst, const void* lanes, int64_t stride, int64_t n) {
  auto* out = static_cast<MemoryOf<D>*>(dst);
  const auto* in = static_cast<const LaneOf<D>*>(lanes);
  int64_t i = 0;
  if (stride == 1) {
    if constexpr (D == DType::kF16)
      for (; i + F32::kLanes <= n; i += F32::kLanes) F32::load(in + i).store_f16(out + i);
#pragma GCC ivdep
    for (; i < n; ++i) out[i] = store_one<D>(in[i]);
  } else {
    for (; i < n; ++i) out[i * stride] = store_one<D>(in[i]);
  }
}

template <DType D>
void round_lanes(void* lanes, int64_t n) {
  if constexpr (D == DType::kBF16) {
    round_strip<kRoundBF16>(static_cast<float*>(lanes), n);
  } else if constexpr (D == DType::kF16) {
    round_strip<kRoundF16>(static_cast<float*>(lanes), n);
  } else {
    auto* x = static_cast<LaneOf<D>*>(lanes);
    for (int64_t i = 0; i < n; ++i) x[i] = load_one<D>(store_one<D>(x[i]));
  }
}

// The instructions themselves: C++ leaves NaN and out of range undefined, and PyTorch's answer is theirs.
inline int32_t to_i32(float x) { return _mm_cvttss_si32(_mm_set_ss(x)); }
inline int32_t to_i32(double x) { return _mm_cvttsd_si32(_mm_set_sd(x)); }
inline int64_t to_i64(float x) { return _mm_cvttss_si64(_mm_set_ss(x)); }
inline int64_t to_i64(double x) { return _mm_cvttsd_si64(_mm_set_sd(x)); }
inline int32_t to_i32(int32_t x) { return x; }
inline int32_t to_i32(int64_t x) { return static_cast<int32_t>(x); }
inline int64_t to_i64(int32_t x) { return x; }
inline int64_t to_i64(int64_t x) { return x; }

// uint8 goes through int64, the other narrow integers through int32: as PyTorch's casts.
template <DType D, class From>
inline LaneOf<D> cast_one(From x) {
  if constexpr (D == DType::kBool) return x != 0;
  else if constexpr (D == DType::kU8) return static_cast<uint8_t>(to_i64(x));
  else if constexpr (D == DType::kI8) return static_cast<int8_t>(to_i32(x));
  else if constexpr (D == DType::kI16) return static_cast<int16_t>(to_i32(x));
  else if constexpr (D == DType::kI32) return to_i32(x);
  else if constexpr (D == DType::kI64) return to_i64(x);
  else if constexpr (D == DType::kF64) return static_cast<double>(x);
  else return static_cast<float>(x);  // f16 and bf16: rounded by the caller's second pass
}

template <DType D, class From>
void cast_lanes(void* dst, const void* src, int64_t n) {
  auto* out = static_cast<LaneOf<D>*>(dst);
  const auto* in = static_cast<const From*>(src);
  int64_t i = 0;
  if constexpr (D == DType::kI32 && Scalar<From>::kIsFloat && sizeof(From) == 4)
    for (; i + F32::kLanes <= n; i += F32::kLanes) to_int(F32::load(in + i)).store(out + i);
#pragma GCC ivdep
  for (; i < n; ++i) out[i] = cast_one<D>(in[i]);
  if constexpr (D == DType::kBF16) round_strip<kRoundBF16>(out, n);
  if constexpr (D == DType::kF16) round_strip<kRoundF16>(out, n);
}

template <DType D>
constexpr void set_dtype(MemoryTable& table) {
  constexpr int i = static_cast<int>(D);
  table.load[i] = &load<D>;
  table.store[i] = &store<D>;
  if (D != DType::kF32 && D != DType::kF64 && D != DType::kI64 && D != DType::kI32) table.round[i] = &round_lanes<D>;
  table.cast[static_cast<int>(Lane::kF32)][i] = &cast_lanes<D, float>;
  table.cast[static_cast<int>(Lane::kF64)][i] = &cast_lanes<D, double>;
  table.cast[static_cast<int>(Lane::kI64)][i] = &cast_lanes<D, int64_t>;
  table.cast[static_cast<int>(Lane::kI32)][i] = &cast_lanes<D, int32_t>;
}

constexpr MemoryTable make_table() {
  MemoryTable table{};
  set_dtype<DType::kBool>(table);
  set_dtype<DType::kU8>(table);
  set_dtype<DType::kI8>(table);
  set_dtype<DType::kI16>(table);
  set_dtype<DType::kI32>(table);
  set_dtype<DType::kI64>(table);
  set_dtype<DType::kF16>(table);
  set_dtype<DType::kBF16>(table);
  set_dtype<DType::kF32>(table);
  set_dtype<DType::kF64>(table);
  return table;
}

}  // namespace

extern constexpr MemoryTable NAX_ISA_TABLE(kMemory) = make_table();

}  // namespace nax
