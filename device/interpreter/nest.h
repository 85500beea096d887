// One nest, prepared, and the ways to run it. Internal to the interpreter.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "device/base/status.h"
#include "device/interpreter/geometry.h"
#include "device/interpreter/interpreter.h"
#include "device/interpreter/strip_code.h"
#include "device/pool/pool.h"

namespace nax {

// A lane program and its strip code, for one rule about aliases.
struct NestVariant {
  LaneProgram lanes;
  StripCode code;
  StripCode finish;  // of lanes.finish
};

struct PreparedNest {
  const Program* program = nullptr;
  const Nest* nest = nullptr;
  NestVariant distinct;        // arguments do not overlap
  NestVariant any;             // they may
  bool ordered = false;        // sequential loops, accumulating or indirect stores: program order counts
  bool hazard = false;         // loads may see what an earlier iteration of a sequential loop stored

  mutable std::mutex kernel_mutex;
  std::shared_ptr<const CompiledKernel> kernel;
  std::atomic<bool> has_kernel{false};
  mutable std::atomic<int64_t> interpreted{0}, compiled{0}, matmuls{0};

  std::shared_ptr<const CompiledKernel> current_kernel() const {
    if (!has_kernel.load(std::memory_order_acquire)) return nullptr;
    const std::lock_guard<std::mutex> lock(kernel_mutex);
    return kernel;
  }
};

// One launch of one nest. Lives on the launching thread's stack; tasks read it.
struct NestLaunch {
  const PreparedNest* prepared = nullptr;
  const NestVariant* variant = nullptr;
  const LaunchValues* values = nullptr;
  ThreadPool* pool = nullptr;
  uint8_t* op_errors = nullptr;         // shared: or-ed atomically
  const LaneCell* scalars = nullptr;
  const SeedRun* seeds = nullptr;
  std::shared_ptr<const CompiledKernel> kernel;  // null: strips
  mutable std::atomic<uint8_t> tiers{0};         // which executed a run: kStrips, kKernel
  static constexpr uint8_t kStrips = 1, kKernel = 2;

  void ran(uint8_t tier) const {
    if ((tiers.load(std::memory_order_relaxed) & tier) == 0) tiers.fetch_or(tier, std::memory_order_relaxed);
  }
  const Nest& nest() const { return *prepared->nest; }
  const LaneProgram& lanes() const { return variant->lanes; }
};

// Error bits of one task: or-ed into the launch's at the end.
class TaskErrors {
 public:
  TaskErrors(const NestLaunch& launch, Arena& arena);
  ~TaskErrors();
  TaskErrors(const TaskErrors&) = delete;
  TaskErrors& operator=(const TaskErrors&) = delete;
  uint8_t* bits() { return bits_; }

 private:
  const NestLaunch& launch_;
  uint8_t* bits_;
  size_t count_;
};

// The innermost dimensions of a geometry as a run: dims[row] are its rows (or -1), dims[row + 1 ...] its free axes.
struct RunShape {
  int row = -1;
  int first_free = 0;
};
// Accesses of a run at given coordinates of the dimensions before `shape.row` (or first_free), and its free extents.
// The arrays live in the arena. `points` gives the extents that ragged dimensions have there.
RowRunArgs make_run(const NestLaunch& launch, const Geometry& g, const RunShape& shape, const int64_t* outer, Arena& arena);

// May the kernel run it?
bool kernel_accepts(const CompiledKernel& kernel, const RowRunArgs& args, size_t accesses);

// Executes with the kernel where it accepts, else strip by strip.
void execute_run(const NestLaunch& launch, RowRunArgs& args, int64_t p0, int64_t p1, int64_t f0, int64_t f1, Arena& arena);

// The scalars of a lane program in their lanes.
void convert_scalars(const LaneProgram& lanes, const LaunchValues& values, LaneCell* out);

// Work below this is not worth another thread.
inline constexpr double kInlineNs = 80'000;
inline constexpr double kTaskNs = 40'000;

Status run_rows(const NestLaunch& launch);     // pointwise and row reductions
Status run_columns(const NestLaunch& launch);  // partition reductions
Status run_matmul(const NestLaunch& launch);

}  // namespace nax
