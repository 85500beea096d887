// Expansions of ops into primitive values, named by the rows of the op table. Each computes in the
// op's math type and rounds once at its outputs (one op, one rounding boundary).
// expand_pointwise.cpp, expand_rows.cpp, expand_index.cpp.
#pragma once

namespace nax {

class OpBuilder;

void expand_function(OpBuilder& b);  // OpInfo::fn over all inputs
void expand_copy(OpBuilder& b);
void expand_bitwise_not(OpBuilder& b);
void expand_softplus(OpBuilder& b);
void expand_add(OpBuilder& b);
void expand_sub(OpBuilder& b);
void expand_mul(OpBuilder& b);
void expand_where(OpBuilder& b);
void expand_clamp(OpBuilder& b);
void expand_lerp(OpBuilder& b);
void expand_addcmul(OpBuilder& b);
void expand_addcdiv(OpBuilder& b);
void expand_masked_fill(OpBuilder& b);
void expand_tril(OpBuilder& b);
void expand_triu(OpBuilder& b);
void expand_threshold_backward(OpBuilder& b);
void expand_sigmoid_backward(OpBuilder& b);
void expand_tanh_backward(OpBuilder& b);
void expand_silu_backward(OpBuilder& b);
void expand_gelu_backward(OpBuilder& b);
void expand_gelu_tanh_backward(OpBuilder& b);
void expand_fill(OpBuilder& b);
void expand_arange(OpBuilder& b);

void expand_sum(OpBuilder& b);
void expand_mean(OpBuilder& b);
void expand_amax(OpBuilder& b);
void expand_amin(OpBuilder& b);
void expand_prod(OpBuilder& b);
void expand_any(OpBuilder& b);
void expand_all(OpBuilder& b);
void expand_var(OpBuilder& b);
void expand_norm2(OpBuilder& b);
void expand_logsumexp(OpBuilder& b);
void expand_softmax(OpBuilder& b);
void expand_log_softmax(OpBuilder& b);
void expand_softmax_backward(OpBuilder& b);
void expand_log_softmax_backward(OpBuilder& b);
void expand_layer_norm(OpBuilder& b);
void expand_layer_norm_backward(OpBuilder& b);
void expand_rms_norm(OpBuilder& b);
void expand_cumsum(OpBuilder& b);

void expand_matmul(OpBuilder& b);
void expand_index_select(OpBuilder& b);
void expand_gather(OpBuilder& b);
void expand_scatter_add(OpBuilder& b);
void expand_index_add(OpBuilder& b);

}  // namespace nax
