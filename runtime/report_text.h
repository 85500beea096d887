// The text of a dump: one window in five sections, each below a line "== name ==". Format: api/docs/tools.md.
#pragma once

#include <string>

#include "device/targets/target.h"
#include "fusion/window.h"
#include "runtime/window_report.h"

namespace nax {

// `window` may be null: a launch of a program that came as text. Pure function.
std::string report_text(const WindowReport& report, const Window* window, const TargetInfo& target);

}  // namespace nax
