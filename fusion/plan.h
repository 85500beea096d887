// What fusion returns for a window: engine programs in order, with the recipe that binds their arguments. A plan holds no
// addresses, sizes or scalars: it serves every window with an equal key. Immutable after make_plan; shared by threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/base/status.h"
#include "device/isa/program.h"
#include "fusion/window.h"

namespace nax {

struct TargetInfo;  // device/targets

// What a scalar argument holds: the operand's value, or the number of elements that op `op` reduces to one (mean, norms).
enum class ScalarSource : uint8_t { kOperand = 0, kReducedCount = 1 };

// Where one program argument comes from. For views and scalars: operand `operand` (inputs, then outputs) of window op `op`.
struct ArgBinding {
  ArgKind kind = ArgKind::kView;
  uint32_t op = 0;
  uint8_t operand = 0;
  ScalarSource source = ScalarSource::kOperand;
};

// Fills a cell of the argument table but for `data`: offset, sizes and strides of a view, the value of a scalar. The only
// way to bind an argument (derived scalars). Gives the view's buffer, or -1.
BufferIndex bind_arg(const Window& window, const ArgBinding& binding, ArgValue* out);

struct PlannedLaunch {
  // 1 to 4 variants; the first whose guards hold is launched. `keys[i]` identifies programs[i] across windows and processes
  // (region key: full bytes, compared in full).
  std::vector<std::shared_ptr<const Program>> programs;
  std::vector<std::string> keys;
  std::vector<ArgBinding> args;   // the same for all variants; scratch arguments come last and have no operand
  std::vector<uint32_t> ops;      // window op of each program op index
  std::vector<BufferIndex> reads, writes;       // buffers this launch touches
  std::vector<BufferIndex> release_after;       // dead temporaries whose memory is free after this launch
};

// Why two neighbouring ops were not fused; a tool shows it (explain).
struct FusionDecision {
  uint32_t op = 0;
  uint32_t region = 0;
  const char* reason = "";  // static text; "" where the op joined the region of an earlier op
};

struct WindowPlan {
  std::vector<PlannedLaunch> launches;
  std::vector<FusionDecision> decisions;
  uint32_t dead_temporaries = 0;  // buffers written in the window that never got memory
  std::string policy;
  const char* rejected = nullptr; // reason, where the policy's proposal failed the legality check and unfused order was used
};

// The window's key as canonical bytes: ops, attributes, dtypes, equality pattern of dimensions, stride and collapse
// classes, operand identity, alias classes, liveness, target, policy. Equal bytes mean that one plan serves both (I5, I6).
void append_window_key(const Window& window, std::string_view policy, const TargetInfo& target, std::string* out);

// Same contract for op ids outside the table: an InvalidArgument Status, at record time, before a window is touched.
// Checks operand count, dtypes, shapes, attributes; fills outputs' shape and dtype where `infer` (C callers).
Status check_op(Window& scratch, uint32_t op, bool infer);

// Partitions by the named policy, checks legality, lowers. Pure function of (window key, policy, target).
StatusOr<std::shared_ptr<const WindowPlan>> make_plan(const Window& window, std::string_view policy, const TargetInfo& target);

// Allowed policy names, for messages; null-terminated.
const char* const* fusion_policy_names();

}  // namespace nax
