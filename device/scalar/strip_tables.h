// The tables that each ISA's kernel files fill and strip.cpp looks up. Internal to device/scalar.
#pragma once

#include "device/scalar/strip.h"

namespace nax {

inline constexpr int kFormCount = 8;

// Roundings that a strip function may end with, by lane of its result.
enum : int { kRoundNone = 0, kRoundBF16 = 1, kRoundF16 = 2, kF32Rounds = 3 };
enum : int { kRoundI16 = 1, kRoundI8 = 2, kRoundU8 = 3, kRoundBool = 4, kI32Rounds = 5 };

struct StripTableF32 {
  StripFn fn[kScalarOpLimit][kFormCount][kF32Rounds];
};
struct StripTableI32 {
  StripFn fn[kScalarOpLimit][kFormCount][kI32Rounds];
};
struct StripTableWide {  // f64 and i64: nothing to round
  StripFn fn[kScalarOpLimit][kFormCount];
};

struct MemoryTable {
  LoadFn load[kDTypeCount];
  StoreFn store[kDTypeCount];
  RoundFn round[kDTypeCount];
  CastFn cast[kLaneCount][kDTypeCount];
};

inline constexpr int kReduceFnCount = 6;
struct ReduceTable {
  RowReduceFn row[kReduceFnCount][kLaneCount];
  ColumnReduceFn column[kReduceFnCount][kLaneCount];
  CombineFn combine[kReduceFnCount][kLaneCount];
  ScanFn scan[kReduceFnCount][kLaneCount];
};

extern const StripTableF32 kStripF32_avx2, kStripF32_avx512;
extern const StripTableWide kStripF64_avx2, kStripF64_avx512;
extern const StripTableWide kStripI64_avx2, kStripI64_avx512;
extern const StripTableI32 kStripI32_avx2, kStripI32_avx512;
extern const MemoryTable kMemory_avx2, kMemory_avx512;
extern const ReduceTable kReduce_avx2, kReduce_avx512;

}  // namespace nax
