// A window's plan as bytes for the disk store, and back. The reader takes any bytes: what is malformed, or names things
// that do not exist, is an error and never a crash. Little-endian, fixed widths, lengths in front of variable parts.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "device/base/status.h"
#include "fusion/plan.h"

namespace nax {

inline constexpr uint32_t kPlanFormatVersion = 1;  // raise with any change of this layout

std::string encode_plan(const WindowPlan& plan);

// `window` is what the plan is for: every op, operand and buffer number is checked against it, and every program is
// verified. kDataLoss with the reason otherwise.
StatusOr<std::shared_ptr<const WindowPlan>> decode_plan(std::string_view bytes, const Window& window);

}  // namespace nax
