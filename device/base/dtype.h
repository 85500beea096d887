// Element types of HBM views and tiles. Values are fixed: they cross the C API and stand in cache keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nax {

enum class DType : uint8_t {
  kInvalid = 0,
  kBool = 1,  // one byte, 0 or 1
  kU8 = 2,
  kI8 = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kF16 = 7,
  kBF16 = 8,
  kF32 = 9,
  kF64 = 10,
  // Storage only: they can be allocated, copied byte by byte and handed to fallbacks; no engine op computes on them yet.
  kU16 = 11,
  kU32 = 12,
  kU64 = 13,
  kC32 = 14,
  kC64 = 15,
  kC128 = 16,
  kF8E4M3FN = 17,
  kF8E5M2 = 18,
  kBytes1 = 19,  // any other one-byte type
};
inline constexpr int kDTypeCount = 20;

constexpr size_t dtype_size(DType t) {
  constexpr uint8_t kSizes[kDTypeCount] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1};
  return kSizes[static_cast<int>(t)];
}
constexpr std::string_view dtype_name(DType t) {
  constexpr std::string_view kNames[kDTypeCount] = {"invalid", "bool", "u8",  "i8",  "i16", "i32", "i64",
                                                    "f16",     "bf16", "f32", "f64", "u16", "u32", "u64",
                                                    "c32",     "c64",  "c128", "f8e4m3fn", "f8e5m2", "b8"};
  return kNames[static_cast<int>(t)];
}
// kInvalid where the name is unknown.
constexpr DType dtype_from_name(std::string_view name) {
  for (int i = 1; i < kDTypeCount; ++i)
    if (dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  return DType::kInvalid;
}
constexpr bool is_floating(DType t) {
  return t == DType::kF16 || t == DType::kBF16 || t == DType::kF32 || t == DType::kF64;
}
constexpr bool is_integral(DType t) { return t >= DType::kU8 && t <= DType::kI64; }  // without bool
// Has engine arithmetic: bool, u8..i64, f16, bf16, f32, f64.
constexpr bool is_computable(DType t) { return t >= DType::kBool && t <= DType::kF64; }

}  // namespace nax
