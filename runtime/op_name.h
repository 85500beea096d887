// Names of op ids, for messages and tools.
#pragma once

#include "fusion/op.h"

namespace nax {

// Null where the id is unknown. Static text.
const char* op_name_or_null(uint32_t id);
inline const char* op_name(OpId id) {
  const char* name = op_name_or_null(static_cast<uint32_t>(id));
  return name ? name : "unknown op";
}

}  // namespace nax
