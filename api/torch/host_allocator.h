// Pinned host memory.
#pragma once

namespace nax::binding {

// True inside a live block of the pinned allocator. Any thread.
bool is_pinned(const void* pointer);

}  // namespace nax::binding
