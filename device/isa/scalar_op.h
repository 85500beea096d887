// The scalar functions that engine instructions name (Instr::fn), and what a verifier, a lowering or a timing model must
// know about each. Numbers are fixed and append-only: they stand in stored programs. Meaning is ATen's on CPU; the
// implementations are in device/scalar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "device/base/dtype.h"

namespace nax {

// In what a value is held between load and store. f32, bf16 and f16 tiles compute in fp32, integers up to 32 bits and
// bool (0 or 1) in int32; a write rounds or wraps to the tile's dtype.
enum class Lane : uint8_t { kF32 = 0, kF64 = 1, kI64 = 2, kI32 = 3 };
inline constexpr int kLaneCount = 4;

constexpr Lane lane_of(DType t) {
  switch (t) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32: return Lane::kF32;
    case DType::kF64: return Lane::kF64;
    case DType::kI64: return Lane::kI64;
    default: return Lane::kI32;  // computable dtypes: bool, u8, i8, i16, i32
  }
}
constexpr size_t lane_size(Lane k) { return k == Lane::kF32 || k == Lane::kI32 ? 4 : 8; }

enum class ScalarOp : uint16_t {
  // One operand.
  kCopy = 0,
  kNegative = 1,
  kAbs = 2,
  kSign = 3,  // sign(NaN) = 0, as ATen
  kSquare = 4,
  kCube = 5,
  kSqrt = 6,
  kRsqrt = 7,
  kReciprocal = 8,
  kReciprocalSquare = 9,
  kExp = 10,
  kExp2 = 11,
  kExpm1 = 12,
  kLog = 13,
  kLog2 = 14,
  kLog10 = 15,
  kLog1p = 16,
  kSin = 17,
  kCos = 18,
  kTan = 19,
  kAsin = 20,
  kAcos = 21,
  kAtan = 22,
  kSinh = 23,
  kCosh = 24,
  kTanh = 25,
  kAsinh = 26,
  kAcosh = 27,
  kAtanh = 28,
  kErf = 29,
  kErfc = 30,
  kSigmoid = 31,
  kSilu = 32,
  kGelu = 33,
  kGeluTanh = 34,
  kRelu = 35,
  kFloor = 36,
  kCeil = 37,
  kTrunc = 38,
  kRound = 39,  // half to even
  kIsNan = 40,
  kIsInf = 41,
  kIsFinite = 42,
  kSignbit = 43,
  kLogicalNot = 44,
  kInvert = 45,  // bitwise; on bool tiles use kLogicalNot
  kLgamma = 46,

  // Two operands.
  kAdd = 64,
  kSubtract = 65,
  kMultiply = 66,
  kDivide = 67,   // floating only: ATen's true division promotes first
  kMaximum = 68,  // NaN wins
  kMinimum = 69,
  kFmax = 70,  // NaN loses
  kFmin = 71,
  kPower = 72,  // integers: a negative exponent gives 0, or +-1 for base +-1
  kFmod = 73,   // sign of the dividend; integers: zero divisor sets the error bit
  kRemainder = 74,    // sign of the divisor
  kFloorDivide = 75,
  kTruncDivide = 76,
  kAtan2 = 77,
  kHypot = 78,
  kCopysign = 79,
  kNextafter = 80,
  kEqual = 81,
  kNotEqual = 82,
  kLess = 83,
  kLessEqual = 84,
  kGreater = 85,
  kGreaterEqual = 86,
  kLogicalAnd = 87,
  kLogicalOr = 88,
  kLogicalXor = 89,
  kBitwiseAnd = 90,
  kBitwiseOr = 91,
  kBitwiseXor = 92,
  kLeftShift = 93,
  kRightShift = 94,  // arithmetic

  // Three operands.
  kSelect = 128,  // a != 0 ? b : c; a is a bool (I32) lane
  kClamp = 129,   // minimum(maximum(a, b), c)
};
inline constexpr int kScalarOpLimit = 130;  // one above the largest number

enum class ScalarResult : uint8_t {
  kSame = 0,  // the operands' lane
  kBool = 1,  // 0 or 1 in an I32 lane
};

// Where real hardware would run it; POOL is also where software functions run.
enum class ScalarEngine : uint8_t { kACT = 0, kDVE = 1, kPOOL = 2 };

// Relative work of one element on its engine, for the timing model.
enum class ScalarCost : uint8_t {
  kSimple = 0,    // one pass of the ALU
  kTable = 1,     // one pass through ACT's function tables
  kDivide = 2,    // iterative on DVE (8 cycles an element)
  kSoftware = 3,  // a sequence of POOL instructions
};

struct ScalarOpInfo {
  std::string_view name;  // text form; "x." marks what nki.isa does not have. Empty: no op with this number.
  uint8_t arity = 0;
  uint8_t lanes = 0;  // bit (1 << Lane) for each allowed lane of the operands (of b and c for kSelect)
  ScalarResult result = ScalarResult::kSame;
  ScalarEngine engine = ScalarEngine::kDVE;
  ScalarCost cost = ScalarCost::kSimple;
  bool may_fail = false;  // on integer lanes: sets kOpIntegerDivideByZero
  bool extension() const { return name.starts_with("x."); }
  bool allows(Lane k) const { return (lanes >> static_cast<int>(k)) & 1; }
};

// An info with an empty name where the number is unknown.
const ScalarOpInfo& scalar_op_info(ScalarOp op);
inline std::string_view scalar_op_name(ScalarOp op) { return scalar_op_info(op).name; }
// False where no op has this name.
bool scalar_op_from_name(std::string_view name, ScalarOp* out_op);

}  // namespace nax
