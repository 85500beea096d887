// What a tool shows about this build, this host and one runtime. Keys as in nax/trace.h.
#pragma once

#include <string>

#include "device/base/function_ref.h"

namespace nax {

class Runtime;

// In a fixed order. Any thread.
void visit_info(Runtime& runtime, FunctionRef<void(const std::string& key, const std::string& text)> visit);

}  // namespace nax
