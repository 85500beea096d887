// Deferred errors: what only the data or the device can tell, kept until a sync point raises it (DESIGN I3, §11 Errors).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "device/base/function_ref.h"
#include "device/base/status.h"
#include "fusion/window.h"

namespace nax {

// One failure, as numbers and text that need nobody else's memory. The user's line is looked up when it is raised.
struct ErrorRecord {
  StatusCode code = StatusCode::kInternal;
  ErrorReason reason = ErrorReason::kEngineFault;
  std::string what;       // "index out of range"
  std::string operation;  // "index_select(f32[10, 4], i64[3]) -> f32[3, 4]"
  int stream = 0;
  uint64_t sequence = 0;
  uint64_t origin = 0;
  std::atomic<bool> raised{false};
};
using ErrorRef = std::shared_ptr<ErrorRecord>;

// Text for an origin; empty where there is none.
using OriginText = FunctionRef<std::string(uint64_t origin)>;
Status to_status(const ErrorRecord& record, OriginText origin_text);

// "add(f32[16, 4], f32[4], 2) -> f32[16, 4]"
std::string describe_op(const Window& window, const WindowOp& op);

// The earliest error of each stream that has not been raised. Thread-safe.
class ErrorLog {
 public:
  // Kept if it comes before the stream's present one.
  void add(const ErrorRef& record);
  // Takes the stream's error, or the earliest of all streams (by sequence, then stream); null where there is none.
  ErrorRef take(int stream);
  ErrorRef take_earliest();

 private:
  std::mutex mutex_;
  std::map<int, ErrorRef> earliest_;
  std::atomic<bool> any_{false};
};

}  // namespace nax
