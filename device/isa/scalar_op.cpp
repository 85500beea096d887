#include "device/isa/scalar_op.h"

#include <array>

namespace nax {
namespace {

constexpr uint8_t kF = 1 << static_cast<int>(Lane::kF32) | 1 << static_cast<int>(Lane::kF64);
constexpr uint8_t kI = 1 << static_cast<int>(Lane::kI64) | 1 << static_cast<int>(Lane::kI32);
constexpr uint8_t kAll = kF | kI;
constexpr auto kSame = ScalarResult::kSame;
constexpr auto kBool = ScalarResult::kBool;
constexpr auto kACT = ScalarEngine::kACT;
constexpr auto kDVE = ScalarEngine::kDVE;
constexpr auto kPOOL = ScalarEngine::kPOOL;
constexpr auto kSimple = ScalarCost::kSimple;
constexpr auto kTable = ScalarCost::kTable;
constexpr auto kDivide = ScalarCost::kDivide;
constexpr auto kSoftware = ScalarCost::kSoftware;

struct Row {
  ScalarOp op;
  ScalarOpInfo info;
};

constexpr Row kRows[] = {
    {ScalarOp::kCopy, {"copy", 1, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kNegative, {"negative", 1, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kAbs, {"abs", 1, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kSign, {"sign", 1, kAll, kSame, kACT, kTable}},
    {ScalarOp::kSquare, {"square", 1, kAll, kSame, kACT, kTable}},
    {ScalarOp::kCube, {"x.cube", 1, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kSqrt, {"sqrt", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kRsqrt, {"rsqrt", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kReciprocal, {"reciprocal", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kReciprocalSquare, {"x.reciprocal_square", 1, kF, kSame, kDVE, kDivide}},
    {ScalarOp::kExp, {"exp", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kExp2, {"x.exp2", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kExpm1, {"x.expm1", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kLog, {"x.log", 1, kF, kSame, kACT, kTable}},  // ACT's log ends at 2^64
    {ScalarOp::kLog2, {"x.log2", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kLog10, {"x.log10", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kLog1p, {"x.log1p", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kSin, {"x.sin", 1, kF, kSame, kACT, kTable}},  // ACT's sin ends at pi
    {ScalarOp::kCos, {"x.cos", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kTan, {"x.tan", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kAsin, {"x.asin", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kAcos, {"x.acos", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kAtan, {"x.atan", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kSinh, {"x.sinh", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kCosh, {"x.cosh", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kTanh, {"tanh", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kAsinh, {"x.asinh", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kAcosh, {"x.acosh", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kAtanh, {"x.atanh", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kErf, {"erf", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kErfc, {"x.erfc", 1, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kSigmoid, {"sigmoid", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kSilu, {"silu", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kGelu, {"gelu", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kGeluTanh, {"gelu_apprx_tanh", 1, kF, kSame, kACT, kTable}},
    {ScalarOp::kRelu, {"relu", 1, kAll, kSame, kACT, kTable}},
    {ScalarOp::kFloor, {"floor", 1, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kCeil, {"ceil", 1, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kTrunc, {"trunc", 1, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kRound, {"x.round", 1, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kIsNan, {"x.isnan", 1, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kIsInf, {"x.isinf", 1, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kIsFinite, {"x.isfinite", 1, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kSignbit, {"x.signbit", 1, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kLogicalNot, {"x.logical_not", 1, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kInvert, {"invert", 1, kI, kSame, kDVE, kSimple}},
    {ScalarOp::kLgamma, {"x.lgamma", 1, kF, kSame, kPOOL, kSoftware}},

    {ScalarOp::kAdd, {"add", 2, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kSubtract, {"subtract", 2, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kMultiply, {"multiply", 2, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kDivide, {"x.divide", 2, kF, kSame, kDVE, kDivide}},
    {ScalarOp::kMaximum, {"maximum", 2, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kMinimum, {"minimum", 2, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kFmax, {"x.fmax", 2, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kFmin, {"x.fmin", 2, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kPower, {"power", 2, kAll, kSame, kPOOL, kSoftware}},
    {ScalarOp::kFmod, {"x.fmod", 2, kAll, kSame, kPOOL, kSoftware, true}},
    {ScalarOp::kRemainder, {"x.remainder", 2, kAll, kSame, kPOOL, kSoftware, true}},
    {ScalarOp::kFloorDivide, {"x.floor_divide", 2, kAll, kSame, kPOOL, kSoftware, true}},
    {ScalarOp::kTruncDivide, {"x.trunc_divide", 2, kAll, kSame, kPOOL, kSoftware, true}},
    {ScalarOp::kAtan2, {"x.atan2", 2, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kHypot, {"x.hypot", 2, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kCopysign, {"x.copysign", 2, kF, kSame, kDVE, kSimple}},
    {ScalarOp::kNextafter, {"x.nextafter", 2, kF, kSame, kPOOL, kSoftware}},
    {ScalarOp::kEqual, {"equal", 2, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kNotEqual, {"not_equal", 2, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kLess, {"less", 2, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kLessEqual, {"less_equal", 2, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kGreater, {"greater", 2, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kGreaterEqual, {"greater_equal", 2, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kLogicalAnd, {"logical_and", 2, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kLogicalOr, {"logical_or", 2, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kLogicalXor, {"logical_xor", 2, kAll, kBool, kDVE, kSimple}},
    {ScalarOp::kBitwiseAnd, {"bitwise_and", 2, kI, kSame, kDVE, kSimple}},
    {ScalarOp::kBitwiseOr, {"bitwise_or", 2, kI, kSame, kDVE, kSimple}},
    {ScalarOp::kBitwiseXor, {"bitwise_xor", 2, kI, kSame, kDVE, kSimple}},
    {ScalarOp::kLeftShift, {"left_shift", 2, kI, kSame, kDVE, kSimple}},
    {ScalarOp::kRightShift, {"x.right_shift", 2, kI, kSame, kPOOL, kSoftware}},  // nki's is logical

    {ScalarOp::kSelect, {"x.select", 3, kAll, kSame, kDVE, kSimple}},
    {ScalarOp::kClamp, {"x.clamp", 3, kAll, kSame, kDVE, kSimple}},
};

constexpr auto kTableByNumber = [] {
  std::array<ScalarOpInfo, kScalarOpLimit> table{};
  for (const Row& row : kRows) table[static_cast<size_t>(row.op)] = row.info;
  return table;
}();
constexpr ScalarOpInfo kUnknown{};

}  // namespace

const ScalarOpInfo& scalar_op_info(ScalarOp op) {
  const auto number = static_cast<size_t>(op);
  return number < kTableByNumber.size() ? kTableByNumber[number] : kUnknown;
}

bool scalar_op_from_name(std::string_view name, ScalarOp* out_op) {
  for (const Row& row : kRows) {
    if (row.info.name != name) continue;
    *out_op = row.op;
    return true;
  }
  return false;
}

}  // namespace nax
