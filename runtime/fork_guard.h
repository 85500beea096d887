// Notices that the process has forked: a device that was in use does not survive in the child (its engine thread and
// locks stay behind), so the child must be told instead of hanging.
#pragma once

#include <cstdint>

namespace nax {

// Starts counting; idempotent.
void watch_forks();
// How many forks lie between this process and the one that first watched. A relaxed load.
uint64_t fork_generation();

}  // namespace nax
