// The timing model: how long a program would take on the target, by a deterministic discrete-event
// run over its tile-level expansion. Looks at sizes only, never at data or at the host's clock, so
// the same program and sizes give the same time on every host (DESIGN I10). Nests follow each other
// without overlap (they meet in HBM). Costs microseconds to milliseconds whatever the sizes: loops
// are extrapolated from their steady period. Thread: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "device/isa/program.h"
#include "device/targets/target.h"

namespace nax {

struct TimingResult {
  double total_ns = 0;
  std::array<double, kEngineCount> busy_ns =
      {};  // by Engine; kDMA: mean of the 16 engines, kSP: DMA triggers
  std::array<int64_t, kEngineCount> instructions = {};  // tile-level; kDMA: dma_copy
  int64_t dma_descriptors = 0;
  int64_t hbm_read_bytes = 0, hbm_written_bytes = 0;
  double pe_throttled_ns = 0;   // part of PE's busy time that a warm clock would have saved
  bool approximate = false;     // some loop found no steady period and was averaged
  int64_t simulated_steps = 0;  // of the model itself: what the answer cost

  double seconds() const { return total_ns * 1e-9; }
};

struct TimingOptions {
  bool extrapolate = true;  // false simulates every iteration: for tests
};

// One launch of one argument row. The program must have passed verify(); `slots` are its evaluated
// slots.
TimingResult time_program(const Program& program, const int64_t* slots, const TargetInfo& target,
                          const TimingOptions& options = {});

// The simulated steps with their times, at most `max_lines` lines, then a summary: for dumps.
std::string timeline_text(const Program& program, const int64_t* slots, const TargetInfo& target,
                          int max_lines = 200);

// The summary alone, a few lines.
std::string timing_text(const TimingResult& result);

}  // namespace nax
