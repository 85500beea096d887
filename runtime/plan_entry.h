// A plan made ready to launch: programs prepared for the host, equal independent launches gathered into one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/interpreter/interpreter.h"
#include "fusion/plan.h"

namespace nax {

// One engine program with what the launcher learns about it; shared by all plans whose region has its key.
struct ProgramEntry {
  std::shared_ptr<PreparedProgram> prepared;
  bool may_fail = false;  // can set error bits: not run in one launch with others, so that the op can be named

  // kPromoted: compiled at level 1 or asked for; it has code in any case.
  enum class Tier : uint8_t { kCold = 0, kQueued = 1, kCompiled = 2, kNotCompiled = 3, kPromoted = 4 };
  std::atomic<Tier> tier{Tier::kCold};
  std::atomic<uint32_t> sightings{0};
  bool has_code() const {
    const Tier t = tier.load(std::memory_order_acquire);
    return t == Tier::kCompiled || t == Tier::kPromoted;
  }
};

struct LaunchStep {
  std::vector<std::shared_ptr<ProgramEntry>> variants;
  std::vector<uint32_t> launches;  // of the plan; more than one: instances of one program
};

struct PlanEntry {
  std::shared_ptr<const WindowPlan> plan;
  std::vector<LaunchStep> steps;
};

// One launch of an engine program with everything that its time depends on.
struct TimedLaunch {
  std::shared_ptr<PreparedProgram> program;
  std::vector<int64_t> slots;
};

// A plan for windows with exactly these sizes, strides and offsets: what repeats from step to step.
struct ExactPlan {
  std::shared_ptr<PlanEntry> entry;
  // Filled by the first run; emulated time is a function of them, computed when somebody asks.
  bool timed = false;
  bool traced = false;  // written to the dump folder, if there is one
  std::vector<TimedLaunch> launches;
  double device_ns = -1;
};

// Neighbouring launches of one program become one step where none of them touches what another writes.
// `programs[i]` are the variants of launch i.
std::vector<LaunchStep> gather_launches(const WindowPlan& plan,
                                        std::vector<std::vector<std::shared_ptr<ProgramEntry>>> programs);

}  // namespace nax
