// A scalar operand by value: 16 bytes, in the type that ATen's promotion gave it.
#pragma once

#include <cstdint>

#include "device/base/dtype.h"

namespace nax {

struct ScalarValue {
  enum class Kind : uint8_t { kF64 = 0, kI64 = 1, kBool = 2 };
  Kind kind = Kind::kF64;
  union {
    double f64;
    int64_t i64;
  };
  ScalarValue() : f64(0) {}
  static ScalarValue from_f64(double v) {
    ScalarValue s;
    s.f64 = v;
    return s;
  }
  static ScalarValue from_i64(int64_t v) {
    ScalarValue s;
    s.kind = Kind::kI64;
    s.i64 = v;
    return s;
  }
  double to_f64() const { return kind == Kind::kF64 ? f64 : static_cast<double>(i64); }
  int64_t to_i64() const { return kind == Kind::kF64 ? static_cast<int64_t>(f64) : i64; }
};
static_assert(sizeof(ScalarValue) == 16);

}  // namespace nax
