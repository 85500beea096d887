// What became of one window: which ops share a program and why others do not, what stays on chip, how long it takes.
// Made for tools (dumps, explain) from the window and its plan alone; nothing of a run depends on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/base/function_ref.h"
#include "device/targets/target.h"
#include "fusion/window.h"
#include "runtime/plan_entry.h"

namespace nax {

struct OpReport {
  std::string text;      // "add(f32[16, 4], f32[4], 2) -> f32[16, 4]"
  std::string origin;    // the user's line; empty where unknown
  std::string reason;    // why it is not in the region of an earlier op; empty where it is
  uint64_t sequence = 0;
  uint32_t region = 0;   // of WindowReport::regions
  bool on_chip = false;  // dead temporaries alone: its results never got memory
};

struct RegionReport {
  std::vector<uint32_t> ops;                  // of the window, in program order
  std::shared_ptr<PreparedProgram> prepared;  // null: nothing has to run (all results dead, or no elements)
  bool compiled = false;                      // machine code was there when it ran
  std::vector<int64_t> slots;                 // evaluated for this window's sizes
  double device_ns = 0;                       // emulated
  // Bytes of the operands, each view once: of the region's program, and of its ops one by one.
  uint64_t bytes_together = 0, bytes_apart = 0;
};

struct WindowReport {
  uint64_t number = 0;  // of this trace, from 0
  int stream = 0;
  std::string cut;      // why the window ended
  std::string policy;
  std::string rejected; // why the policy's proposal was replaced by unfused order; else empty
  uint32_t dead_temporaries = 0;
  std::vector<OpReport> ops;
  std::vector<RegionReport> regions;
};

// Reads the plan's decisions. `number`, `stream` and `cut` are the caller's to fill. Pure but for origin_text.
WindowReport describe_window(const Window& window, const PlanEntry& entry, const TargetInfo& target,
                             FunctionRef<std::string(uint64_t origin)> origin_text);

// Bytes of the elements of a view; each once where a stride is 0.
uint64_t view_bytes(const View& view);

}  // namespace nax
