// Runs windows on the emulated core: plan, bind, launch, collect errors, let memory go.
// Thread: everything but settle() and the timing sums is called with the right to execute (from HardwareQueue::Work::run).
#pragma once

#include <memory>
#include <vector>

#include "device/pool/pool.h"
#include "runtime/device_clock.h"
#include "runtime/plan_cache.h"
#include "runtime/poison.h"
#include "runtime/tiering.h"
#include "runtime/window_work.h"

namespace nax {

class Runtime;

class Executor {
 public:
  Executor(Runtime& runtime, std::unique_ptr<DiskStore> disk);

  void run_window(WindowWork& work);
  // Runs one prepared program over rows; error bits are or-ed into op_errors.
  Status launch(const std::shared_ptr<ProgramEntry>& entry, const ArgValue* rows, int64_t n_rows, bool may_compile,
                uint8_t* op_errors);

  PlanCache& plans() { return plans_; }
  Tiering& tiering() { return tiering_; }
  DeviceClock& clock() { return clock_; }

 private:
  Status run_step(WindowWork& work, ExactPlan& exact, const LaunchStep& step, std::vector<OpFailure>* failures);
  Status bind(const WindowWork& work, const PlannedLaunch& launch, ArgValue* row);
  void fail_ops(const WindowWork& work, const std::vector<uint32_t>& ops, const Status& status,
                std::vector<OpFailure>* failures);
  void let_go(WindowWork& work);

  Runtime& runtime_;
  PlanCache plans_;
  Tiering tiering_;
  DeviceClock clock_;
  std::vector<ArgValue> rows_;      // reused
  std::vector<uint8_t> op_errors_;
  std::vector<int64_t> slots_;
};

// What OpErrorBits mean to the user; the most specific bit counts.
struct ErrorText {
  StatusCode code;
  ErrorReason reason;
  const char* what;
};
ErrorText explain_error_bits(uint8_t bits);

// An error record for an op of the window.
ErrorRef make_error(const WindowWork& work, uint32_t op, StatusCode code, ErrorReason reason, std::string what);

}  // namespace nax
