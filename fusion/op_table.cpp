#include "fusion/op_table.h"

#include <array>
#include <string>

#include "fusion/lowering/expand.h"

namespace nax {
namespace {

constexpr auto kPw = OpKind::kPointwise;
constexpr auto kRed = OpKind::kReduction;
constexpr auto kRow = OpKind::kRow;
constexpr auto kMat = OpKind::kMatmul;
constexpr auto kIdx = OpKind::kIndex;
constexpr auto kBc = ShapeRule::kBroadcast;
constexpr auto kComp = DTypeRule::kCompute;
constexpr auto kBoolOut = DTypeRule::kBool;
constexpr uint8_t kF = kComputeFloat, kI = kComputeInt, kA = kComputeArith, kAll = kComputeAny;

// Plain scalar functions of one, two inputs.
constexpr OpInfo unary(OpId id, std::string_view name, uint8_t compute, ScalarOp fn,
                       DTypeRule dtype = kComp) {
  return {.id = id,
          .name = name,
          .dtype = dtype,
          .compute = compute,
          .fn = fn,
          .expand = expand_function};
}
constexpr OpInfo binary(OpId id, std::string_view name, uint8_t compute, ScalarOp fn,
                        DTypeRule dtype = kComp, bool may_fail = false) {
  return {.id = id,
          .name = name,
          .dtype = dtype,
          .compute = compute,
          .min_inputs = 2,
          .max_inputs = 2,
          .tensors = 0,
          .fn = fn,
          .expand = expand_function,
          .may_fail = may_fail};
}
// Expressions over `inputs` operands, of which the bits of `tensors` must be tensors and those of
// `optional` may be absent.
constexpr OpInfo expression(OpId id, std::string_view name, uint8_t compute, uint8_t inputs,
                            uint8_t tensors, uint8_t optional, void (*expand)(OpBuilder&)) {
  return {.id = id,
          .name = name,
          .compute = compute,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .tensors = tensors,
          .optional = optional,
          .expand = expand};
}
constexpr OpInfo reduction(OpId id, std::string_view name, uint8_t compute,
                           void (*expand)(OpBuilder&), DTypeRule dtype = kComp, OpKind kind = kRed,
                           uint8_t inputs = 1) {
  return {.id = id,
          .name = name,
          .kind = kind,
          .shape = ShapeRule::kReduce,
          .dtype = dtype,
          .compute = compute,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .min_attrs = 2,
          .max_attrs = 2,
          .expand = expand};
}
constexpr OpInfo row(OpId id, std::string_view name, uint8_t inputs, void (*expand)(OpBuilder&)) {
  return {.id = id,
          .name = name,
          .kind = kRow,
          .shape = ShapeRule::kSame,
          .compute = kF,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .min_attrs = 1,
          .max_attrs = 1,
          .tensors = static_cast<uint8_t>((1 << inputs) - 1),
          .expand = expand};
}
constexpr OpInfo matmul(OpId id, std::string_view name, ShapeRule shape, uint8_t inputs,
                        uint8_t tensors, uint8_t optional) {
  return {.id = id,
          .name = name,
          .kind = kMat,
          .shape = shape,
          .compute = kA,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .tensors = tensors,
          .optional = optional,
          .expand = expand_matmul};
}

// Ordered by id.
constexpr OpInfo kTable[] = {
    {.id = OpId::k_copy, .name = "copy", .compute = kAll | kComputeStorage, .expand = expand_copy},
    unary(OpId::k_neg, "neg", kA, ScalarOp::kNegative),
    unary(OpId::k_abs, "abs", kA, ScalarOp::kAbs),
    unary(OpId::k_sign, "sign", kA, ScalarOp::kSign),
    unary(OpId::k_exp, "exp", kF, ScalarOp::kExp),
    unary(OpId::k_log, "log", kF, ScalarOp::kLog),
    unary(OpId::k_log1p, "log1p", kF, ScalarOp::kLog1p),
    unary(OpId::k_expm1, "expm1", kF, ScalarOp::kExpm1),
    unary(OpId::k_exp2, "exp2", kF, ScalarOp::kExp2),
    unary(OpId::k_log2, "log2", kF, ScalarOp::kLog2),
    unary(OpId::k_log10, "log10", kF, ScalarOp::kLog10),
    unary(OpId::k_sqrt, "sqrt", kF, ScalarOp::kSqrt),
    unary(OpId::k_rsqrt, "rsqrt", kF, ScalarOp::kRsqrt),
    unary(OpId::k_reciprocal, "reciprocal", kF, ScalarOp::kReciprocal),
    unary(OpId::k_square, "square", kA, ScalarOp::kSquare),
    unary(OpId::k_cube, "cube", kA, ScalarOp::kCube),
    unary(OpId::k_sin, "sin", kF, ScalarOp::kSin),
    unary(OpId::k_cos, "cos", kF, ScalarOp::kCos),
    unary(OpId::k_tan, "tan", kF, ScalarOp::kTan),
    unary(OpId::k_tanh, "tanh", kF, ScalarOp::kTanh),
    unary(OpId::k_sigmoid, "sigmoid", kF, ScalarOp::kSigmoid),
    unary(OpId::k_silu, "silu", kF, ScalarOp::kSilu),
    unary(OpId::k_relu, "relu", kA, ScalarOp::kRelu),
    unary(OpId::k_gelu, "gelu", kF, ScalarOp::kGelu),
    unary(OpId::k_gelu_tanh, "gelu_tanh", kF, ScalarOp::kGeluTanh),
    unary(OpId::k_erf, "erf", kF, ScalarOp::kErf),
    unary(OpId::k_erfc, "erfc", kF, ScalarOp::kErfc),
    unary(OpId::k_floor, "floor", kA, ScalarOp::kFloor),
    unary(OpId::k_ceil, "ceil", kA, ScalarOp::kCeil),
    unary(OpId::k_trunc, "trunc", kA, ScalarOp::kTrunc),
    unary(OpId::k_round, "round", kA, ScalarOp::kRound),
    unary(OpId::k_isnan, "isnan", kAll, ScalarOp::kIsNan, kBoolOut),
    unary(OpId::k_isinf, "isinf", kAll, ScalarOp::kIsInf, kBoolOut),
    unary(OpId::k_logical_not, "logical_not", kAll, ScalarOp::kLogicalNot, kBoolOut),
    expression(OpId::k_bitwise_not, "bitwise_not", kI | kComputeBool, 1, 1, 0, expand_bitwise_not),
    unary(OpId::k_recip_square, "recip_square", kF, ScalarOp::kReciprocalSquare),
    expression(OpId::k_softplus, "softplus", kF, 3, 1, 0, expand_softplus),

    expression(OpId::k_add, "add", kAll, 3, 0, 4, expand_add),
    expression(OpId::k_sub, "sub", kA, 3, 0, 4, expand_sub),
    expression(OpId::k_mul, "mul", kAll, 2, 0, 0, expand_mul),
    binary(OpId::k_div, "div", kF, ScalarOp::kDivide),
    binary(OpId::k_div_floor, "div_floor", kA, ScalarOp::kFloorDivide, kComp, true),
    binary(OpId::k_div_trunc, "div_trunc", kA, ScalarOp::kTruncDivide, kComp, true),
    binary(OpId::k_remainder, "remainder", kA, ScalarOp::kRemainder, kComp, true),
    binary(OpId::k_fmod, "fmod", kA, ScalarOp::kFmod, kComp, true),
    binary(OpId::k_pow, "pow", kA, ScalarOp::kPower),
    binary(OpId::k_maximum, "maximum", kAll, ScalarOp::kMaximum),
    binary(OpId::k_minimum, "minimum", kAll, ScalarOp::kMinimum),
    binary(OpId::k_eq, "eq", kAll, ScalarOp::kEqual, kBoolOut),
    binary(OpId::k_ne, "ne", kAll, ScalarOp::kNotEqual, kBoolOut),
    binary(OpId::k_lt, "lt", kAll, ScalarOp::kLess, kBoolOut),
    binary(OpId::k_le, "le", kAll, ScalarOp::kLessEqual, kBoolOut),
    binary(OpId::k_gt, "gt", kAll, ScalarOp::kGreater, kBoolOut),
    binary(OpId::k_ge, "ge", kAll, ScalarOp::kGreaterEqual, kBoolOut),
    binary(OpId::k_logical_and, "logical_and", kAll, ScalarOp::kLogicalAnd, kBoolOut),
    binary(OpId::k_logical_or, "logical_or", kAll, ScalarOp::kLogicalOr, kBoolOut),
    binary(OpId::k_logical_xor, "logical_xor", kAll, ScalarOp::kLogicalXor, kBoolOut),
    binary(OpId::k_bitwise_and, "bitwise_and", kI | kComputeBool, ScalarOp::kBitwiseAnd),
    binary(OpId::k_bitwise_or, "bitwise_or", kI | kComputeBool, ScalarOp::kBitwiseOr),
    binary(OpId::k_bitwise_xor, "bitwise_xor", kI | kComputeBool, ScalarOp::kBitwiseXor),
    binary(OpId::k_shift_left, "shift_left", kI, ScalarOp::kLeftShift),
    binary(OpId::k_shift_right, "shift_right", kI, ScalarOp::kRightShift),
    binary(OpId::k_atan2, "atan2", kF, ScalarOp::kAtan2),

    expression(OpId::k_where, "where", kAll, 3, 1, 0, expand_where),
    expression(OpId::k_clamp, "clamp", kA, 3, 1, 6, expand_clamp),
    expression(OpId::k_lerp, "lerp", kF, 3, 3, 0, expand_lerp),
    expression(OpId::k_addcmul, "addcmul", kA, 4, 7, 8, expand_addcmul),
    expression(OpId::k_addcdiv, "addcdiv", kF, 4, 7, 8, expand_addcdiv),
    expression(OpId::k_masked_fill, "masked_fill", kAll, 3, 3, 0, expand_masked_fill),
    {.id = OpId::k_tril,
     .name = "tril",
     .shape = ShapeRule::kSame,
     .min_attrs = 1,
     .max_attrs = 1,
     .expand = expand_tril},
    {.id = OpId::k_triu,
     .name = "triu",
     .shape = ShapeRule::kSame,
     .min_attrs = 1,
     .max_attrs = 1,
     .expand = expand_triu},

    expression(OpId::k_threshold_backward, "threshold_backward", kA, 3, 3, 0,
               expand_threshold_backward),
    expression(OpId::k_sigmoid_backward, "sigmoid_backward", kF, 2, 3, 0, expand_sigmoid_backward),
    expression(OpId::k_tanh_backward, "tanh_backward", kF, 2, 3, 0, expand_tanh_backward),
    expression(OpId::k_silu_backward, "silu_backward", kF, 2, 3, 0, expand_silu_backward),
    expression(OpId::k_gelu_backward, "gelu_backward", kF, 2, 3, 0, expand_gelu_backward),
    expression(OpId::k_gelu_tanh_backward, "gelu_tanh_backward", kF, 2, 3, 0,
               expand_gelu_tanh_backward),

    {.id = OpId::k_fill,
     .name = "fill",
     .shape = ShapeRule::kGiven,
     .tensors = 0,
     .expand = expand_fill},
    {.id = OpId::k_arange,
     .name = "arange",
     .shape = ShapeRule::kGiven,
     .compute = kA,
     .min_inputs = 2,
     .max_inputs = 2,
     .tensors = 0,
     .expand = expand_arange},

    reduction(OpId::k_sum, "sum", kA, expand_sum),
    reduction(OpId::k_mean, "mean", kF, expand_mean),
    reduction(OpId::k_amax, "amax", kAll, expand_amax),
    reduction(OpId::k_amin, "amin", kAll, expand_amin),
    reduction(OpId::k_prod, "prod", kA, expand_prod),
    reduction(OpId::k_any, "any", kAll, expand_any, kBoolOut),
    reduction(OpId::k_all, "all", kAll, expand_all, kBoolOut),
    reduction(OpId::k_argmax, "argmax", kAll, nullptr, DTypeRule::kI64),
    reduction(OpId::k_argmin, "argmin", kAll, nullptr, DTypeRule::kI64),
    reduction(OpId::k_var, "var", kF, expand_var, kComp, kRow, 2),
    reduction(OpId::k_norm2, "norm2", kF, expand_norm2),
    reduction(OpId::k_logsumexp, "logsumexp", kF, expand_logsumexp, kComp, kRow),

    row(OpId::k_softmax, "softmax", 1, expand_softmax),
    row(OpId::k_log_softmax, "log_softmax", 1, expand_log_softmax),
    row(OpId::k_softmax_backward, "softmax_backward", 2, expand_softmax_backward),
    row(OpId::k_log_softmax_backward, "log_softmax_backward", 2, expand_log_softmax_backward),
    {.id = OpId::k_layer_norm,
     .name = "layer_norm",
     .kind = kRow,
     .shape = ShapeRule::kNorm,
     .compute = kF,
     .min_inputs = 4,
     .max_inputs = 4,
     .min_outputs = 1,
     .max_outputs = 3,
     .min_attrs = 1,
     .max_attrs = 1,
     .tensors = 1,
     .optional = 6,
     .expand = expand_layer_norm},
    {.id = OpId::k_layer_norm_backward,
     .name = "layer_norm_backward",
     .kind = kRow,
     .shape = ShapeRule::kNormBackward,
     .compute = kF,
     .min_inputs = 5,
     .max_inputs = 5,
     .min_attrs = 1,
     .max_attrs = 1,
     .tensors = 15,
     .optional = 16,
     .expand = expand_layer_norm_backward},
    {.id = OpId::k_rms_norm,
     .name = "rms_norm",
     .kind = kRow,
     .shape = ShapeRule::kNorm,
     .compute = kF,
     .min_inputs = 3,
     .max_inputs = 3,
     .min_outputs = 1,
     .max_outputs = 2,
     .min_attrs = 1,
     .max_attrs = 1,
     .tensors = 1,
     .optional = 2,
     .expand = expand_rms_norm},
    {.id = OpId::k_cumsum,
     .name = "cumsum",
     .kind = OpKind::kScan,
     .shape = ShapeRule::kSame,
     .compute = kA,
     .min_attrs = 1,
     .max_attrs = 1,
     .expand = expand_cumsum},

    matmul(OpId::k_mm, "mm", ShapeRule::kMm, 2, 3, 0),
    matmul(OpId::k_bmm, "bmm", ShapeRule::kBmm, 2, 3, 0),
    matmul(OpId::k_addmm, "addmm", ShapeRule::kAddmm, 5, 7, 24),
    matmul(OpId::k_baddbmm, "baddbmm", ShapeRule::kBaddbmm, 5, 7, 24),

    {.id = OpId::k_index_select,
     .name = "index_select",
     .kind = kIdx,
     .shape = ShapeRule::kIndexSelect,
     .min_inputs = 2,
     .max_inputs = 2,
     .min_attrs = 1,
     .max_attrs = 1,
     .tensors = 3,
     .expand = expand_index_select,
     .may_fail = true},
    {.id = OpId::k_gather,
     .name = "gather",
     .kind = kIdx,
     .shape = ShapeRule::kGather,
     .min_inputs = 2,
     .max_inputs = 2,
     .min_attrs = 1,
     .max_attrs = 1,
     .tensors = 3,
     .expand = expand_gather,
     .may_fail = true},
    {.id = OpId::k_scatter_add,
     .name = "scatter_add",
     .kind = kIdx,
     .shape = ShapeRule::kScatterAdd,
     .compute = kA,
     .min_inputs = 3,
     .max_inputs = 3,
     .min_attrs = 1,
     .max_attrs = 1,
     .tensors = 7,
     .expand = expand_scatter_add,
     .may_fail = true},
    {.id = OpId::k_index_add,
     .name = "index_add",
     .kind = kIdx,
     .shape = ShapeRule::kIndexAdd,
     .compute = kA,
     .min_inputs = 4,
     .max_inputs = 4,
     .min_attrs = 1,
     .max_attrs = 1,
     .tensors = 7,
     .optional = 8,
     .expand = expand_index_add,
     .may_fail = true},
};

constexpr int kIdLimit = 260;
constexpr auto kRowOfId = [] {
  std::array<int16_t, kIdLimit> rows{};
  for (auto& r : rows) r = -1;
  for (size_t i = 0; i < std::size(kTable); ++i)
    rows[static_cast<size_t>(kTable[i].id)] = static_cast<int16_t>(i);
  return rows;
}();

constexpr bool every_id_has_a_row() {
#define NAX_HAS_ROW(name, number) \
  if (kRowOfId[number] < 0) return false;
  NAX_OPS(NAX_HAS_ROW)
#undef NAX_HAS_ROW
  return true;
}
static_assert(every_id_has_a_row());

}  // namespace

const OpInfo* op_info(OpId id) {
  const auto n = static_cast<size_t>(id);
  return n < kIdLimit && kRowOfId[n] >= 0 ? &kTable[kRowOfId[n]] : nullptr;
}

bool lowering_covers(OpId id) {
  const OpInfo* info = op_info(id);
  return info && info->expand;
}

std::string_view covered_op_names() {
  static const std::string names = [] {
    std::string s;
    for (const OpInfo& info : kTable) {
      if (!info.expand) continue;
      if (!s.empty()) s += ", ";
      s += info.name;
    }
    return s;
  }();
  return names;
}

}  // namespace nax
