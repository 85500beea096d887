// Ops that PyTorch would not send to the fallback by itself: their defaults raise, or take a detour that the CPU kernel
// does not.
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include "api/torch/fallback.h"

namespace nax::binding {
namespace {

c10::OperatorHandle find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// The overrideable ops exist for devices; the CPU has the same under another name.
void convolution(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const c10::OperatorHandle kernel = find("aten::convolution");
  fallback_as(op, kernel, stack);
}

void convolution_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const c10::OperatorHandle kernel = find("aten::convolution_backward");
  // convolution_backward takes the bias's sizes as its fourth argument.
  const size_t first = stack->size() - op.schema().arguments().size();
  const at::Tensor& grad = (*stack)[first].toTensor();
  stack->insert(stack->begin() + static_cast<std::ptrdiff_t>(first + 3),
                c10::IValue(std::vector<int64_t>{grad.size(1)}));
  fallback_as(op, kernel, stack);
}

int64_t fused_sdp_choice(const at::Tensor& /*query*/, const at::Tensor& /*key*/, const at::Tensor& /*value*/,
                         const std::optional<at::Tensor>& /*attn_mask*/, double /*dropout_p*/, bool /*is_causal*/,
                         std::optional<double> /*scale*/, bool /*enable_gqa*/) {
  return static_cast<int64_t>(sdp::SDPBackend::math);
}

// nn.TransformerEncoder asks whether it may turn a padded batch into a nested tensor, which the device does not have.
bool nested_tensor_from_mask(const at::Tensor& /*t*/, const at::Tensor& /*mask*/) { return false; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_nested_tensor_from_mask_left_aligned", &nested_tensor_from_mask);
  m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  m.impl("convolution_backward_overrideable",
         torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  m.impl("_fused_sdp_choice", &fused_sdp_choice);
  for (const char* name : {
           "native_group_norm", "native_group_norm_backward",
           "_transformer_encoder_layer_fwd", "_native_multi_head_attention",
           "_fused_adam_", "_fused_adam_.tensor_lr", "_fused_adamw_", "_fused_adamw_.tensor_lr", "_fused_sgd_",
           "_fused_sgd_.tensor_lr", "_fused_adagrad_", "_fused_adagrad_.tensor_lr", "_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
}

}  // namespace
}  // namespace nax::binding
