// Op ids of the graph IR. Append-only, fixed numbers: they cross the C API (api/include/nax/ops.h mirrors them,
// api/c checks that both agree), stand in cache keys and in recorded traces.
//
// Operand conventions. Every input is a tensor view or a scalar (a Python number, or a CPU 0-dim tensor read at record).
// Optional inputs may be absent. Pointwise inputs broadcast to the output's shape. `compute` is ATen's common dtype: inputs are
// converted to it, floating narrow types compute in f32, the result rounds once at the output ("one rounding boundary an op").
#pragma once

#include <cstdint>

namespace nax {

// X(name, number): inputs -> outputs; attributes.
#define NAX_OPS(X)                                                                                                     \
  /* pointwise, one input */                                                                                           \
  X(copy, 1)        /* x -> y, converting; any strides, also negative */                                               \
  X(neg, 2) X(abs, 3) X(sign, 4) X(exp, 5) X(log, 6) X(log1p, 7) X(expm1, 8) X(exp2, 9) X(log2, 10) X(log10, 11)       \
  X(sqrt, 12) X(rsqrt, 13) X(reciprocal, 14) X(square, 15) X(cube, 16) X(sin, 17) X(cos, 18) X(tan, 19) X(tanh, 20)    \
  X(sigmoid, 21) X(silu, 22) X(relu, 23) X(gelu, 24) /* exact, erf */ X(gelu_tanh, 25) X(erf, 26) X(erfc, 27)           \
  X(floor, 28) X(ceil, 29) X(trunc, 30) X(round, 31) /* half to even */ X(isnan, 32) X(isinf, 33) X(logical_not, 34)    \
  X(bitwise_not, 35) X(recip_square, 36) /* x^-2 */ X(softplus, 37) /* x, beta, threshold */                            \
  /* pointwise, two inputs */                                                                                          \
  X(add, 64)        /* a, b, alpha: a + alpha * b */                                                                   \
  X(sub, 65)        /* a, b, alpha: a - alpha * b */                                                                   \
  X(mul, 66) X(div, 67) X(div_floor, 68) X(div_trunc, 69) X(remainder, 70) X(fmod, 71) X(pow, 72) X(maximum, 73)       \
  X(minimum, 74) X(eq, 75) X(ne, 76) X(lt, 77) X(le, 78) X(gt, 79) X(ge, 80) X(logical_and, 81) X(logical_or, 82)      \
  X(logical_xor, 83) X(bitwise_and, 84) X(bitwise_or, 85) X(bitwise_xor, 86) X(shift_left, 87) X(shift_right, 88)      \
  X(atan2, 89)                                                                                                         \
  /* pointwise, three inputs and more */                                                                               \
  X(where, 112)     /* condition, a, b */                                                                              \
  X(clamp, 113)     /* x, min or absent, max or absent */                                                              \
  X(lerp, 114)      /* a, b, weight */                                                                                 \
  X(addcmul, 115)   /* x, a, b, value: x + value * a * b */                                                            \
  X(addcdiv, 116)   /* x, a, b, value: x + value * a / b */                                                            \
  X(masked_fill, 117) /* x, mask, value */                                                                             \
  X(tril, 118)      /* x; attr diagonal: zero above */                                                                 \
  X(triu, 119)      /* x; attr diagonal: zero below */                                                                 \
  /* pointwise backwards: first input is the incoming gradient */                                                      \
  X(threshold_backward, 136) /* grad, x, threshold */                                                                  \
  X(sigmoid_backward, 137)   /* grad, y */                                                                             \
  X(tanh_backward, 138)      /* grad, y */                                                                             \
  X(silu_backward, 139)      /* grad, x */                                                                             \
  X(gelu_backward, 140)      /* grad, x */                                                                             \
  X(gelu_tanh_backward, 141) /* grad, x */                                                                             \
  /* no tensor input */                                                                                                \
  X(fill, 160)      /* value */                                                                                        \
  X(arange, 161)    /* start, step: start + step * i along the only dimension */                                       \
  /* reductions: x; attrs: bit mask of reduced dimensions, keepdim. `compute` is the accumulation's result dtype */     \
  X(sum, 176) X(mean, 177) X(amax, 178) X(amin, 179) X(prod, 180) X(any, 181) X(all, 182)                              \
  X(argmax, 183)    /* x -> i64; as reductions */                                                                      \
  X(argmin, 184) X(var, 185) /* x, correction */ X(norm2, 186) /* sqrt of the sum of squares */ X(logsumexp, 187)       \
  /* rows: attr dim */                                                                                                 \
  X(softmax, 208)              /* x */                                                                                 \
  X(log_softmax, 209)          /* x */                                                                                 \
  X(softmax_backward, 210)     /* grad, y */                                                                           \
  X(log_softmax_backward, 211) /* grad, y */                                                                           \
  X(layer_norm, 212)           /* x, weight|absent, bias|absent, eps -> y, mean, rstd; attr: normalized dims at the end */ \
  X(layer_norm_backward, 213)  /* grad, x, mean, rstd, weight|absent -> dx; attr as layer_norm. dw, db: mul and sum */  \
  X(rms_norm, 214)             /* x, weight|absent, eps -> y, rstd */                                                  \
  X(cumsum, 215)               /* x; attr dim; f32 accumulates in f64, as CPU */                                        \
  /* matmul */                                                                                                         \
  X(mm, 240)        /* a [m,k], b [k,n] */                                                                             \
  X(bmm, 241)       /* a [b,m,k], b [b,k,n] */                                                                         \
  X(addmm, 242)     /* c (broadcasts to [m,n]), a, b, beta, alpha */                                                   \
  X(baddbmm, 243)   /* c (broadcasts to [b,m,n]), a, b, beta, alpha */                                                 \
  /* indexing */                                                                                                       \
  X(index_select, 256) /* x, index (1-D); attr dim */                                                                  \
  X(gather, 257)       /* x, index; attr dim */                                                                        \
  X(scatter_add, 258)  /* x (in place: also the output), index, source; attr dim; program order */                     \
  X(index_add, 259)    /* x (in place: also the output), index (1-D), source, alpha; attr dim; program order */

enum class OpId : uint16_t {
#define NAX_OP_ENUM(name, number) k_##name = number,
  NAX_OPS(NAX_OP_ENUM)
#undef NAX_OP_ENUM
};

}  // namespace nax
