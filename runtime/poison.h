// How a failure spreads inside a window: op by op, buffer by buffer, never further than what depends on it.
#pragma once

#include <vector>

#include "fusion/window.h"
#include "runtime/buffer.h"
#include "runtime/error_log.h"

namespace nax {

struct OpFailure {
  uint32_t op = 0;  // of the window
  ErrorRef error;
};

// After all launches of a window: walks its ops in program order. An op that reads a poisoned buffer, or failed, poisons
// its outputs with the earliest error involved; one that overwrites a whole buffer from sound inputs clears it. Errors of
// ops that computed on poisoned inputs are dropped. Updates the buffers and logs what is new. Null buffers are skipped.
// Returns how many buffers became poisoned.
int spread_poison(const Window& window, const std::vector<Buffer*>& buffers, const std::vector<OpFailure>& failures,
                  ErrorLog* log);

// Whether a store to the view replaces all bytes of a buffer of this size.
bool covers_whole(const View& view, int64_t buffer_bytes);

}  // namespace nax
