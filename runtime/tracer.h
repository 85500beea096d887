// Tells tools what the runtime does: to files (NAX_DUMP_DIR: each new window once) and to callbacks (each window, each
// fallback). Off, it costs one relaxed load a window. What goes wrong here is logged and changes nothing.
// Thread-safe. Callbacks run with the tracer's lock held: they must be short and must not call the runtime.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/dump_folder.h"
#include "runtime/window_report.h"

namespace nax {

class Runtime;
class Stream;
struct WindowWork;

struct FallbackReport {
  std::string name;       // "aten::sort"
  std::string origin;     // the user's line; empty where unknown
  int stream = 0;
  uint64_t sequence = 0;  // of the op recorded before it on the stream
};

class Tracer {
 public:
  using WindowSink = std::function<void(const WindowReport&)>;
  using FallbackSink = std::function<void(const FallbackReport&)>;

  explicit Tracer(Runtime& runtime) : runtime_(runtime) {}

  Status dump_to(const std::string& folder);
  // Replaces both; empty functions end the trace. Windows are numbered from 0 again.
  void set_sinks(WindowSink window, FallbackSink fallback);

  bool on() const { return on_.load(std::memory_order_relaxed); }
  // A window ran; with the right to execute, before its buffers go.
  void window(const WindowWork& work, ExactPlan& plan) noexcept;
  // A program ran that came as text.
  void launch(const Stream& stream, const std::shared_ptr<ProgramEntry>& program, std::vector<int64_t> slots) noexcept;
  void fallback(Stream& stream, const char* name, uint64_t origin) noexcept;

 private:
  void tell(WindowReport report, const Window* window, bool fresh);

  Runtime& runtime_;
  std::atomic<bool> on_{false};
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<DumpFolder> folder_;
  uint64_t dumped_ = 0, told_ = 0;
  WindowSink window_;
  FallbackSink fallback_;
};

}  // namespace nax
