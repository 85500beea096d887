/* Op ids of nax_op. Append-only: a number never changes its meaning.
 *
 * Operands: inputs in this order, then outputs. "absent" inputs have cls NAX_ABSENT. Pointwise inputs broadcast to the
 * output's shape. attrs are int64. compute_dtype is the common dtype: inputs are converted to it, the result rounds once.
 */
#ifndef NAX_OPS_H_
#define NAX_OPS_H_

typedef enum nax_op_id {
  /* pointwise, one input */
  NAX_OP_COPY = 1, /* x -> y, converting; any strides, also negative */
  NAX_OP_NEG = 2,
  NAX_OP_ABS = 3,
  NAX_OP_SIGN = 4,
  NAX_OP_EXP = 5,
  NAX_OP_LOG = 6,
  NAX_OP_LOG1P = 7,
  NAX_OP_EXPM1 = 8,
  NAX_OP_EXP2 = 9,
  NAX_OP_LOG2 = 10,
  NAX_OP_LOG10 = 11,
  NAX_OP_SQRT = 12,
  NAX_OP_RSQRT = 13,
  NAX_OP_RECIPROCAL = 14,
  NAX_OP_SQUARE = 15,
  NAX_OP_CUBE = 16,
  NAX_OP_SIN = 17,
  NAX_OP_COS = 18,
  NAX_OP_TAN = 19,
  NAX_OP_TANH = 20,
  NAX_OP_SIGMOID = 21,
  NAX_OP_SILU = 22,
  NAX_OP_RELU = 23,
  NAX_OP_GELU = 24, /* exact, erf */
  NAX_OP_GELU_TANH = 25,
  NAX_OP_ERF = 26,
  NAX_OP_ERFC = 27,
  NAX_OP_FLOOR = 28,
  NAX_OP_CEIL = 29,
  NAX_OP_TRUNC = 30,
  NAX_OP_ROUND = 31, /* half to even */
  NAX_OP_ISNAN = 32,
  NAX_OP_ISINF = 33,
  NAX_OP_LOGICAL_NOT = 34,
  NAX_OP_BITWISE_NOT = 35,
  NAX_OP_RECIP_SQUARE = 36, /* x^-2 */
  NAX_OP_SOFTPLUS = 37, /* x, beta, threshold */
  /* pointwise, two inputs */
  NAX_OP_ADD = 64, /* a, b, alpha: a + alpha * b */
  NAX_OP_SUB = 65, /* a, b, alpha: a - alpha * b */
  NAX_OP_MUL = 66,
  NAX_OP_DIV = 67,
  NAX_OP_DIV_FLOOR = 68,
  NAX_OP_DIV_TRUNC = 69,
  NAX_OP_REMAINDER = 70,
  NAX_OP_FMOD = 71,
  NAX_OP_POW = 72,
  NAX_OP_MAXIMUM = 73,
  NAX_OP_MINIMUM = 74,
  NAX_OP_EQ = 75,
  NAX_OP_NE = 76,
  NAX_OP_LT = 77,
  NAX_OP_LE = 78,
  NAX_OP_GT = 79,
  NAX_OP_GE = 80,
  NAX_OP_LOGICAL_AND = 81,
  NAX_OP_LOGICAL_OR = 82,
  NAX_OP_LOGICAL_XOR = 83,
  NAX_OP_BITWISE_AND = 84,
  NAX_OP_BITWISE_OR = 85,
  NAX_OP_BITWISE_XOR = 86,
  NAX_OP_SHIFT_LEFT = 87,
  NAX_OP_SHIFT_RIGHT = 88,
  NAX_OP_ATAN2 = 89,
  /* pointwise, three inputs and more */
  NAX_OP_WHERE = 112, /* condition, a, b */
  NAX_OP_CLAMP = 113, /* x, min or absent, max or absent */
  NAX_OP_LERP = 114, /* a, b, weight */
  NAX_OP_ADDCMUL = 115, /* x, a, b, value: x + value * a * b */
  NAX_OP_ADDCDIV = 116, /* x, a, b, value: x + value * a / b */
  NAX_OP_MASKED_FILL = 117, /* x, mask, value */
  NAX_OP_TRIL = 118, /* x; attr diagonal: zero above */
  NAX_OP_TRIU = 119, /* x; attr diagonal: zero below */
  /* pointwise backwards: first input is the incoming gradient */
  NAX_OP_THRESHOLD_BACKWARD = 136, /* grad, x, threshold */
  NAX_OP_SIGMOID_BACKWARD = 137, /* grad, y */
  NAX_OP_TANH_BACKWARD = 138, /* grad, y */
  NAX_OP_SILU_BACKWARD = 139, /* grad, x */
  NAX_OP_GELU_BACKWARD = 140, /* grad, x */
  NAX_OP_GELU_TANH_BACKWARD = 141, /* grad, x */
  /* no tensor input */
  NAX_OP_FILL = 160, /* value */
  NAX_OP_ARANGE = 161, /* start, step: start + step * i along the only dimension */
  /* reductions: x; attrs: bit mask of reduced dimensions, keepdim. `compute` is the accumulation's result dtype */
  NAX_OP_SUM = 176,
  NAX_OP_MEAN = 177,
  NAX_OP_AMAX = 178,
  NAX_OP_AMIN = 179,
  NAX_OP_PROD = 180,
  NAX_OP_ANY = 181,
  NAX_OP_ALL = 182,
  NAX_OP_ARGMAX = 183, /* x -> i64; as reductions */
  NAX_OP_ARGMIN = 184,
  NAX_OP_VAR = 185, /* x, correction */
  NAX_OP_NORM2 = 186, /* sqrt of the sum of squares */
  NAX_OP_LOGSUMEXP = 187,
  /* rows: attr dim */
  NAX_OP_SOFTMAX = 208, /* x */
  NAX_OP_LOG_SOFTMAX = 209, /* x */
  NAX_OP_SOFTMAX_BACKWARD = 210, /* grad, y */
  NAX_OP_LOG_SOFTMAX_BACKWARD = 211, /* grad, y */
  NAX_OP_LAYER_NORM = 212, /* x, weight|absent, bias|absent, eps -> y, mean, rstd; attr: normalized dims at the end */
  NAX_OP_LAYER_NORM_BACKWARD = 213, /* grad, x, mean, rstd, weight|absent -> dx; attr as layer_norm. dw, db: mul and sum */
  NAX_OP_RMS_NORM = 214, /* x, weight|absent, eps -> y, rstd */
  NAX_OP_CUMSUM = 215, /* x; attr dim */
  /* matmul */
  NAX_OP_MM = 240, /* a [m,k], b [k,n] */
  NAX_OP_BMM = 241, /* a [b,m,k], b [b,k,n] */
  NAX_OP_ADDMM = 242, /* c (broadcasts to [m,n]), a, b, beta, alpha */
  NAX_OP_BADDBMM = 243, /* c (broadcasts to [b,m,n]), a, b, beta, alpha */
  /* indexing */
  NAX_OP_INDEX_SELECT = 256, /* x, index (1-D); attr dim */
  NAX_OP_GATHER = 257, /* x, index; attr dim */
  NAX_OP_SCATTER_ADD = 258, /* x (in place: also the output), index, source; attr dim; program order */
  NAX_OP_INDEX_ADD = 259, /* x (in place: also the output), index (1-D), source, alpha; attr dim; program order */
  NAX_OP_MAX_ENUM = 0x7fffffff
} nax_op_id;

#endif /* NAX_OPS_H_ */
