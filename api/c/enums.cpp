// The C enumerations are the internal ones, number by number.
#include "device/base/dtype.h"
#include "device/base/scalar_value.h"
#include "device/base/status.h"
#include "device/isa/program.h"
#include "fusion/op.h"
#include "fusion/window.h"
#include "nax/nax.h"
#include "runtime/settings.h"

namespace nax {
namespace {

template <class A, class B>
constexpr bool same(A a, B b) {
  return static_cast<long>(a) == static_cast<long>(b);
}

// Every public op id beside its internal name; the count below keeps the list complete.
#define NAX_PUBLIC_OPS(X) \
  X(COPY, copy) X(NEG, neg) X(ABS, abs) X(SIGN, sign) X(EXP, exp) X(LOG, log) X(LOG1P, log1p) X(EXPM1, expm1) \
  X(EXP2, exp2) X(LOG2, log2) X(LOG10, log10) X(SQRT, sqrt) X(RSQRT, rsqrt) X(RECIPROCAL, reciprocal) \
  X(SQUARE, square) X(CUBE, cube) X(SIN, sin) X(COS, cos) X(TAN, tan) X(TANH, tanh) X(SIGMOID, sigmoid) \
  X(SILU, silu) X(RELU, relu) X(GELU, gelu) X(GELU_TANH, gelu_tanh) X(ERF, erf) X(ERFC, erfc) X(FLOOR, floor) \
  X(CEIL, ceil) X(TRUNC, trunc) X(ROUND, round) X(ISNAN, isnan) X(ISINF, isinf) X(LOGICAL_NOT, logical_not) \
  X(BITWISE_NOT, bitwise_not) X(RECIP_SQUARE, recip_square) X(SOFTPLUS, softplus) X(ADD, add) X(SUB, sub) \
  X(MUL, mul) X(DIV, div) X(DIV_FLOOR, div_floor) X(DIV_TRUNC, div_trunc) X(REMAINDER, remainder) \
  X(FMOD, fmod) X(POW, pow) X(MAXIMUM, maximum) X(MINIMUM, minimum) X(EQ, eq) X(NE, ne) X(LT, lt) X(LE, le) \
  X(GT, gt) X(GE, ge) X(LOGICAL_AND, logical_and) X(LOGICAL_OR, logical_or) X(LOGICAL_XOR, logical_xor) \
  X(BITWISE_AND, bitwise_and) X(BITWISE_OR, bitwise_or) X(BITWISE_XOR, bitwise_xor) X(SHIFT_LEFT, shift_left) \
  X(SHIFT_RIGHT, shift_right) X(ATAN2, atan2) X(WHERE, where) X(CLAMP, clamp) X(LERP, lerp) \
  X(ADDCMUL, addcmul) X(ADDCDIV, addcdiv) X(MASKED_FILL, masked_fill) X(TRIL, tril) X(TRIU, triu) \
  X(THRESHOLD_BACKWARD, threshold_backward) X(SIGMOID_BACKWARD, sigmoid_backward) \
  X(TANH_BACKWARD, tanh_backward) X(SILU_BACKWARD, silu_backward) X(GELU_BACKWARD, gelu_backward) \
  X(GELU_TANH_BACKWARD, gelu_tanh_backward) X(FILL, fill) X(ARANGE, arange) X(SUM, sum) X(MEAN, mean) \
  X(AMAX, amax) X(AMIN, amin) X(PROD, prod) X(ANY, any) X(ALL, all) X(ARGMAX, argmax) X(ARGMIN, argmin) \
  X(VAR, var) X(NORM2, norm2) X(LOGSUMEXP, logsumexp) X(SOFTMAX, softmax) X(LOG_SOFTMAX, log_softmax) \
  X(SOFTMAX_BACKWARD, softmax_backward) X(LOG_SOFTMAX_BACKWARD, log_softmax_backward) \
  X(LAYER_NORM, layer_norm) X(LAYER_NORM_BACKWARD, layer_norm_backward) X(RMS_NORM, rms_norm) \
  X(CUMSUM, cumsum) X(MM, mm) X(BMM, bmm) X(ADDMM, addmm) X(BADDBMM, baddbmm) X(INDEX_SELECT, index_select) \
  X(GATHER, gather) X(SCATTER_ADD, scatter_add) X(INDEX_ADD, index_add)
#define NAX_X(name, internal) static_assert(same(NAX_OP_##name, OpId::k_##internal));
NAX_PUBLIC_OPS(NAX_X)
#undef NAX_X
#define NAX_X(name, id) +1
static_assert(0 NAX_PUBLIC_OPS(NAX_X) == 0 NAX_OPS(NAX_X));
#undef NAX_X

static_assert(same(NAX_OK, StatusCode::kOk) && same(NAX_CANCELLED, StatusCode::kCancelled) &&
              same(NAX_UNKNOWN, StatusCode::kUnknown) && same(NAX_INVALID_ARGUMENT, StatusCode::kInvalidArgument) &&
              same(NAX_DEADLINE_EXCEEDED, StatusCode::kDeadlineExceeded) && same(NAX_NOT_FOUND, StatusCode::kNotFound) &&
              same(NAX_ALREADY_EXISTS, StatusCode::kAlreadyExists) &&
              same(NAX_PERMISSION_DENIED, StatusCode::kPermissionDenied) &&
              same(NAX_RESOURCE_EXHAUSTED, StatusCode::kResourceExhausted) &&
              same(NAX_FAILED_PRECONDITION, StatusCode::kFailedPrecondition) && same(NAX_ABORTED, StatusCode::kAborted) &&
              same(NAX_OUT_OF_RANGE, StatusCode::kOutOfRange) && same(NAX_UNIMPLEMENTED, StatusCode::kUnimplemented) &&
              same(NAX_INTERNAL, StatusCode::kInternal) && same(NAX_UNAVAILABLE, StatusCode::kUnavailable) &&
              same(NAX_DATA_LOSS, StatusCode::kDataLoss));

static_assert(same(NAX_REASON_NONE, ErrorReason::kNone) &&
              same(NAX_REASON_INDEX_OUT_OF_RANGE, ErrorReason::kIndexOutOfRange) &&
              same(NAX_REASON_INTEGER_DIVIDE_BY_ZERO, ErrorReason::kIntegerDivideByZero) &&
              same(NAX_REASON_HBM_EXHAUSTED, ErrorReason::kHbmExhausted) &&
              same(NAX_REASON_ENGINE_FAULT, ErrorReason::kEngineFault) &&
              same(NAX_REASON_COMPILE_FAILED, ErrorReason::kCompileFailed) &&
              same(NAX_REASON_VERIFY_FAILED, ErrorReason::kVerifyFailed) &&
              same(NAX_REASON_PARSE_FAILED, ErrorReason::kParseFailed) &&
              same(NAX_REASON_BAD_ENVIRONMENT, ErrorReason::kBadEnvironment) &&
              same(NAX_REASON_POISONED, ErrorReason::kPoisoned) &&
              same(NAX_REASON_ABI_MISMATCH, ErrorReason::kAbiMismatch));

static_assert(same(NAX_INVALID_DTYPE, DType::kInvalid) && same(NAX_BOOL, DType::kBool) && same(NAX_U8, DType::kU8) &&
              same(NAX_I8, DType::kI8) && same(NAX_I16, DType::kI16) && same(NAX_I32, DType::kI32) &&
              same(NAX_I64, DType::kI64) && same(NAX_F16, DType::kF16) && same(NAX_BF16, DType::kBF16) &&
              same(NAX_F32, DType::kF32) && same(NAX_F64, DType::kF64) && same(NAX_U16, DType::kU16) &&
              same(NAX_U32, DType::kU32) && same(NAX_U64, DType::kU64) && same(NAX_C32, DType::kC32) &&
              same(NAX_C64, DType::kC64) && same(NAX_C128, DType::kC128) && same(NAX_F8E4M3FN, DType::kF8E4M3FN) &&
              same(NAX_F8E5M2, DType::kF8E5M2) && same(NAX_BYTES1, DType::kBytes1) && kDTypeCount == NAX_BYTES1 + 1);

static_assert(same(NAX_ABSENT, OperandClass::kAbsent) && same(NAX_TENSOR, OperandClass::kTensor) &&
              same(NAX_SCALAR, OperandClass::kScalar));
static_assert(same(NAX_MODE_EAGER, Mode::kEager) && same(NAX_MODE_ADAPTIVE, Mode::kAdaptive));
static_assert(same(0, ScalarValue::Kind::kF64) && same(1, ScalarValue::Kind::kI64) && same(2, ScalarValue::Kind::kBool));
static_assert(NAX_MAX_RANK == kMaxRank);

}  // namespace
}  // namespace nax
