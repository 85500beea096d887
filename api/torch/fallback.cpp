#include "api/torch/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "api/torch/generator.h"
#include "api/torch/host_views.h"
#include "api/torch/origin.h"
#include "api/torch/record.h"
#include "api/torch/single_thread.h"
#include "nax/trace.h"

namespace nax::binding {
namespace {

enum class Permission { kAllow, kWarn, kError };

Permission permission() {
  static const auto read = []() -> std::optional<Permission> {
    const char* text = std::getenv("NAX_FALLBACK");
    const std::string_view value = text != nullptr ? text : "";
    if (value.empty() || value == "allow") return Permission::kAllow;
    if (value == "warn") return Permission::kWarn;
    if (value == "error") return Permission::kError;
    return std::nullopt;
  }();
  TORCH_CHECK(read.has_value(), "NAX_FALLBACK=", std::getenv("NAX_FALLBACK"),
              " is not allowed; allowed: allow, warn, error");
  return *read;
}

void announce(const std::string& name, c10::DeviceIndex device) {
  const Permission allowed = permission();
  TORCH_CHECK_NOT_IMPLEMENTED(allowed != Permission::kError, name,
                              " has no lowering for the neuron device, and NAX_FALLBACK=error forbids "
                              "running it on the CPU (allowed: allow, warn, error)");
  nax_stream_count_fallback(current_stream(device), name.c_str(), current_origin());
  if (allowed != Permission::kWarn) return;
  static std::mutex mutex;
  static std::unordered_set<std::string> said;
  {
    std::lock_guard lock(mutex);
    if (!said.insert(name).second) return;
  }
  TORCH_WARN(name, " has no lowering for the neuron device and runs on the CPU (NAX_FALLBACK=warn)");
}

// Ops that take host tensors next to device tensors, as on other devices: indices and lengths.
bool takes_host_tensors(const std::string& op) {
  static const std::unordered_set<std::string> kOps = {
      "aten::index", "aten::_index_put_impl_", "aten::index_put_", "aten::index_put",
      "aten::_unsafe_index", "aten::_unsafe_index_put", "aten::_ctc_loss", "aten::_ctc_loss_backward",
      "aten::_fused_adam_", "aten::_fused_adamw_", "aten::_fused_sgd_", "aten::_fused_adagrad_",
      "aten::histogramdd", "aten::_histogramdd_bin_edges", "aten::_segment_reduce_backward"};
  return kOps.count(op) != 0;
}

// One pass over the arguments: where they are, and what their random draws may need.
struct Survey {
  std::optional<c10::Device> neuron;  // of the first device tensor
  std::optional<c10::Device> other;   // of the first tensor elsewhere that is not a scalar
  std::optional<c10::Device> asked;   // device argument
  uint64_t elements = 4;              // largest number a random op may draw
  bool generator_argument = false;

  void tensor(const at::Tensor& t) {
    if (!t.defined()) return;
    elements = std::max<uint64_t>(elements, static_cast<uint64_t>(t.numel()));
    if (is_neuron(t)) {
      if (!neuron.has_value()) neuron = t.device();
      if (*neuron != t.device()) other = t.device();
    } else if (!is_host_scalar(t) && !other.has_value()) {
      other = t.device();
    }
  }
};

bool is_generator(const c10::Argument& a) {
  const auto* optional = a.type()->castRaw<c10::OptionalType>();
  return optional != nullptr && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

bool is_out_argument(const c10::Argument& a) { return a.is_out(); }

bool is_written(const c10::Argument& a) {
  return a.alias_info() != nullptr && a.alias_info()->isWrite();
}

bool covers_storage(const at::Tensor& t) {
  return t.is_contiguous() && t.storage_offset() == 0 && t.nbytes() == t.storage().nbytes();
}

// Host code that draws from PyTorch's default CPU generator gets our numbers instead, for a scope.
class BorrowedDefaultGenerator {
 public:
  explicit BorrowedDefaultGenerator(uint64_t seed) : generator_(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard lock(generator_.mutex());
    state_ = at::Tensor::wrap_tensor_impl(generator_.unsafeGetGeneratorImpl()->get_state());
    generator_.set_current_seed(seed);
  }
  ~BorrowedDefaultGenerator() {
    std::lock_guard lock(generator_.mutex());
    generator_.unsafeGetGeneratorImpl()->set_state(*state_.unsafeGetTensorImpl());
  }
  BorrowedDefaultGenerator(const BorrowedDefaultGenerator&) = delete;  // one scope
  BorrowedDefaultGenerator& operator=(const BorrowedDefaultGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

Survey survey(const c10::FunctionSchema& schema, const torch::jit::Stack& stack, size_t first) {
  Survey s;
  for (size_t i = first; i < stack.size(); ++i) {
    const c10::IValue& v = stack[i];
    const c10::Argument& argument = schema.arguments()[i - first];
    if (v.isTensor()) {
      s.tensor(v.toTensor());
    } else if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorList()) s.tensor(t);
    } else if (v.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& t : v.toOptionalTensorList()) {
        if (t.has_value()) s.tensor(*t);
      }
    } else if (v.isDevice()) {
      s.asked = v.toDevice();
    } else if (v.isInt() && (argument.name() == "n" || argument.name() == "num_samples")) {
      s.elements = std::max<uint64_t>(s.elements, static_cast<uint64_t>(std::max<int64_t>(0, v.toInt())));
    }
    s.generator_argument |= is_generator(argument);
  }
  return s;
}

c10::Device where_to_run(const std::string& name, const Survey& s) {
  if (s.neuron.has_value()) {
    TORCH_CHECK(!s.other.has_value() || takes_host_tensors(name),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                *s.neuron, " and ", *s.other, "!");
    return *s.neuron;
  }
  if (s.asked.has_value() && s.asked->type() == kNeuron) {
    return {kNeuron, device_or_current(s.asked->index())};
  }
  return {kNeuron, current_device()};
}

}  // namespace

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { fallback_as(op, op, stack); }

void fallback_as(const c10::OperatorHandle& op, const c10::OperatorHandle& kernel,
                 torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = kernel.schema();
  const auto& arguments = schema.arguments();
  const size_t first = stack->size() - arguments.size();
  const Survey s = survey(schema, *stack, first);
  const c10::OperatorName& name = op.operator_name();
  const c10::Device device = where_to_run(name.name, s);
  announce(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name, device.index());

  const bool random = op.hasTag(at::Tag::nondeterministic_seeded);
  HostViews views;
  std::optional<BorrowedDefaultGenerator> borrowed;
  if (random && !s.generator_argument) {
    borrowed.emplace(mixed_seed(reserve_random(std::nullopt, device.index(), s.elements)));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& v = (*stack)[first + i];
    const c10::Argument& argument = arguments[i];
    const bool write = is_written(argument);
    const auto lend = [&](const at::Tensor& t) {
      if (!t.defined() || !is_neuron(t)) return t;
      return views.view(t, write, is_out_argument(argument) && covers_storage(t));
    };
    if (v.isTensor()) {
      v = lend(v.toTensor());
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorList()) list.push_back(lend(t));
      v = std::move(list);
    } else if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& t : v.toOptionalTensorList()) {
        list.push_back(t.has_value() ? std::optional(lend(*t)) : std::nullopt);
      }
      v = std::move(list);
    } else if (v.isDevice()) {
      if (v.toDevice().type() == kNeuron) v = c10::Device(c10::DeviceType::CPU);
    } else if (is_generator(argument) && (v.isGenerator() || random)) {
      const auto given = v.isGenerator() ? std::optional(v.toGenerator()) : std::nullopt;
      v = at::detail::createCPUGenerator(mixed_seed(reserve_random(given, device.index(), s.elements)));
    }
  }

  {
    SingleThread one;
    at::AutoDispatchBelowADInplaceOrView below;
    kernel.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  views.write_back();

  const size_t results = schema.returns().size();
  for (size_t i = stack->size() - results; i < stack->size(); ++i) {
    c10::IValue& v = (*stack)[i];
    if (v.isTensor()) {
      v = views.give_back(v.toTensor(), device.index());
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorList()) list.push_back(views.give_back(t, device.index()));
      v = std::move(list);
    }
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace nax::binding
