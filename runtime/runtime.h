// One emulated NeuronCore and everything around it: HBM, streams, the hardware queue, the executor, settings, counters.
// Thread-safe, unless a member says otherwise. Starts no thread until the first asynchronous submission.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/base/status.h"
#include "device/hbm/hbm.h"
#include "device/queue/hardware_queue.h"
#include "device/targets/target.h"
#include "runtime/error_log.h"
#include "runtime/fault_injection.h"
#include "runtime/fork_guard.h"
#include "runtime/settings.h"
#include "runtime/stats.h"
#include "runtime/tracer.h"

namespace nax {

class Buffer;
class Executor;
class Stream;
struct WindowWork;

// What the recorder does with an op; derived from mode, policy and launch blocking, read as one value.
struct RecordRules {
  const char* policy = "";  // static text
  bool one_op = true;       // each op is a window of its own, run by the caller
  bool raise = false;       // and its error is raised by the record call
  bool may_compile = false;
  uint32_t max_ops = 512;
  uint64_t max_bytes = uint64_t{1} << 30;
};

class Runtime {
 public:
  static StatusOr<std::unique_ptr<Runtime>> create(const SettingsOverrides& overrides);
  static StatusOr<std::unique_ptr<Runtime>> create(const Settings& settings);
  ~Runtime();  // waits for the device
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Settings& settings() const { return settings_; }
  const TargetInfo& target() const { return *target_; }

  // Process and fork.
  bool in_its_process() const { return generation_.load(std::memory_order_relaxed) == fork_generation(); }
  // Ok, or why a forked child cannot use the device. Marks the runtime as used.
  Status enter();

  // Modes. All of them cut all windows.
  Mode mode() const { return mode_.load(std::memory_order_relaxed); }
  Status set_mode(Mode mode);
  const char* fusion_policy() const { return policy_.load(std::memory_order_relaxed); }
  Status set_fusion_policy(const std::string& name);
  void set_launch_blocking(bool on);
  void set_max_window_ops(uint32_t ops);  // tests: where windows are cut changes no bits
  RecordRules rules() const { return *rules_.load(std::memory_order_acquire); }

  // Buffers.
  StatusOr<Buffer*> create_buffer(Stream* stream, uint64_t bytes);
  Buffer* find_buffer(uintptr_t address);
  Status map(Buffer& buffer, bool for_write, void** out_host);
  Status write(Stream& stream, Buffer& buffer, uint64_t offset, const void* source, uint64_t bytes);
  Status read(Stream& stream, Buffer& buffer, uint64_t offset, void* target, uint64_t bytes);

  // Streams.
  Stream& default_stream() { return *default_stream_; }
  Stream* create_stream(int priority);
  void forget(Stream* stream);  // by the stream's destructor
  void cut_all(CutReason reason, HardwareQueue::Start start);

  // Waits for all streams; the earliest deferred error, once.
  Status synchronize();
  Status synchronize(Stream& stream);
  // Waits for a ticket, with the wait hook around it. kCancelled where the interrupt check ended the wait; nothing is lost.
  Status wait(uint64_t ticket);
  Status wait_for_room();

  // Hooks of the embedding program.
  using WaitHook = void (*)(void* user, int begin);
  using OriginResolver = void (*)(void* user, uint64_t origin, char* text, size_t size);
  using LogSink = void (*)(void* user, int level, const char* message);
  void set_wait_hook(WaitHook hook, void* user);
  using InterruptCheck = int (*)(void* user);
  void set_interrupt_check(InterruptCheck check, void* user);
  void set_origin_resolver(OriginResolver resolver, void* user);
  void set_log_sink(LogSink sink, void* user);
  void log(int level, const std::string& message);
  std::string origin_text(uint64_t origin);  // no lock may be held
  Status raise(const ErrorRecord& record);  // looks up the origin's text; no lock may be held

  void visit_stats(Stats::Visitor visit);
  void reset_stats();
  void trim_memory();

  Stats& stats() { return stats_; }
  ErrorLog& errors() { return errors_; }
  Hbm& hbm() { return *hbm_; }
  HardwareQueue& queue() { return *queue_; }
  Executor& executor() { return *executor_; }
  FaultInjection& faults() { return faults_; }
  Tracer& tracer() { return tracer_; }
  // Ends the present trace when all that was recorded before is in it, and starts another unless both sinks are empty.
  // Waits; kCancelled where that was interrupted, and the present trace goes on.
  Status set_trace(Tracer::WindowSink window, Tracer::FallbackSink fallback);
  std::mutex& memory_mutex() { return memory_mutex_; }
  std::mutex& poison_mutex() { return poison_mutex_; }

  // Windows are recycled with their capacity.
  WindowWork* take_window();
  void recycle(WindowWork* work);

 private:
  explicit Runtime(const Settings& settings);
  Status start();
  void update_rules();
  void call_wait_hook(bool begin);
  StatusOr<Allocation*> reserve(uint64_t bytes);
  std::vector<Stream*> lock_streams();  // each with a reference
  template <class T>
  struct Callback {
    T function = nullptr;
    void* user = nullptr;
  };
  template <class T>
  Callback<T> get(const Callback<T>& callback) const {
    std::lock_guard lock(hooks_mutex_);
    return callback;
  }

  Settings settings_;
  const TargetInfo* target_ = nullptr;
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> used_{false};
  std::atomic<Mode> mode_{Mode::kEager};
  std::atomic<const char*> policy_{""};

  std::mutex rules_mutex_;  // one change at a time; old rules stay alive, a change is rare
  std::vector<std::unique_ptr<RecordRules>> all_rules_;
  std::atomic<const RecordRules*> rules_{nullptr};
  bool launch_blocking_ = false;     // guarded by rules_mutex_
  uint32_t max_window_ops_ = 512;    // guarded by rules_mutex_

  Stats stats_;
  ErrorLog errors_;
  FaultInjection faults_;
  Tracer tracer_{*this};
  std::mutex memory_mutex_;  // one materialize at a time
  std::mutex poison_mutex_;
  std::unique_ptr<Hbm> hbm_;

  mutable std::mutex hooks_mutex_;
  Callback<WaitHook> wait_hook_;
  Callback<InterruptCheck> interrupt_check_;
  Callback<OriginResolver> origin_resolver_;
  Callback<LogSink> log_sink_;
  std::vector<std::pair<int, std::string>> unsent_log_;  // from before there was a sink; bounded

  std::mutex pool_mutex_;
  std::vector<WindowWork*> window_pool_;

  std::mutex streams_mutex_;
  std::vector<Stream*> streams_;
  int next_stream_id_ = 0;
  Stream* default_stream_ = nullptr;

  std::unique_ptr<Executor> executor_;   // outlives the queue, whose destructor still runs work
  std::unique_ptr<HardwareQueue> queue_;
};

}  // namespace nax
