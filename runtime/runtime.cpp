#include "runtime/runtime.h"

#include <algorithm>
#include <cstring>

#include "device/base/hash.h"
#include "device/base/host_isa.h"
#include "device/pool/pool.h"
#include "fusion/plan.h"
#include "runtime/buffer.h"
#include "runtime/build_fingerprint.h"
#include "runtime/executor.h"
#include "runtime/host_copy.h"
#include "runtime/stream.h"
#include "runtime/window_work.h"

namespace nax {
namespace {

using Start = HardwareQueue::Start;
constexpr size_t kWindowPool = 16;

// The static spelling of a policy's name.
const char* static_policy(const std::string& name) {
  for (const char* const* p = fusion_policy_names(); *p; ++p)
    if (name == *p) return *p;
  return nullptr;
}

Status interrupted_unless(bool finished) {
  if (finished) return {};
  return {StatusCode::kCancelled, "interrupted while waiting; the recorded work goes on"};
}

Status check_range(const Buffer& buffer, uint64_t offset, uint64_t bytes) {
  if (offset <= buffer.bytes() && bytes <= buffer.bytes() - offset) return {};
  return invalid_argument("bytes " + std::to_string(offset) + " to " + std::to_string(offset) + " + " + std::to_string(bytes) +
                          " lie outside the buffer of " + std::to_string(buffer.bytes()) + " bytes");
}

}  // namespace

StatusOr<std::unique_ptr<Runtime>> Runtime::create(const SettingsOverrides& overrides) {
  NAX_ASSIGN_OR_RETURN(Settings settings, parse_settings(overrides));
  return create(settings);
}

StatusOr<std::unique_ptr<Runtime>> Runtime::create(const Settings& settings) {
  std::unique_ptr<Runtime> runtime(new Runtime(settings));
  NAX_RETURN_IF_ERROR(runtime->start());
  return runtime;
}

Runtime::Runtime(const Settings& settings) : settings_(settings), mode_(settings.mode) {
  watch_forks();
  generation_.store(fork_generation());
}

Status Runtime::start() {
  NAX_RETURN_IF_ERROR(check_baseline());
  if (auto target = target_or_error(settings_.target); target.ok()) {
    target_ = *target;
  } else {
    return {StatusCode::kInvalidArgument, "NAX_TARGET: " + std::string(target.status().message()),
            ErrorReason::kBadEnvironment};
  }
  if (settings_.host_isa != "auto") {
    NAX_ASSIGN_OR_RETURN(const HostIsa isa, parse_host_isa(settings_.host_isa));
    NAX_RETURN_IF_ERROR(set_host_isa(isa));
  }
  if (settings_.hash_bits != hash_bits()) set_hash_bits(settings_.hash_bits);
  if (settings_.num_threads > 0) ThreadPool::process_pool().set_threads(settings_.num_threads);

  Hbm::Options hbm;
  hbm.capacity = settings_.hbm_bytes;
  NAX_ASSIGN_OR_RETURN(hbm_, Hbm::create(hbm));

  std::unique_ptr<DiskStore> disk;
  if (!settings_.cache_dir.empty() && settings_.cache_bytes > 0) {
    DiskStoreOptions options;
    options.directory = settings_.cache_dir;
    options.fingerprint = build_fingerprint();
    options.max_bytes = settings_.cache_bytes;
    auto store = DiskStore::open(options);
    if (store.ok())
      disk = std::move(store).value();
    else
      log(1, "no program cache on disk: " + std::string(store.status().message()));
  }
  if (!settings_.dump_dir.empty()) NAX_RETURN_IF_ERROR(tracer_.dump_to(settings_.dump_dir));
  policy_.store(static_policy(settings_.fusion_policy));
  if (!policy_.load()) return check_policy_name(settings_.fusion_policy, "NAX_FUSION_POLICY");
  launch_blocking_ = settings_.launch_blocking;
  update_rules();
  executor_ = std::make_unique<Executor>(*this, std::move(disk));
  queue_ = std::make_unique<HardwareQueue>();
  default_stream_ = create_stream(0);
  return {};
}

Runtime::~Runtime() {
  if (default_stream_) {
    cut_all(CutReason::k_shutdown, Start::kWhenWaited);
    queue_->drain([this](bool begin) { call_wait_hook(begin); });
    cut_all(CutReason::k_shutdown, Start::kWhenWaited);
    default_stream_->close();
  }
  queue_.reset();
  executor_.reset();
  for (WindowWork* work : window_pool_) delete work;
}

Status Runtime::enter() {
  if (in_its_process()) {
    if (!used_.load(std::memory_order_relaxed)) used_.store(true, std::memory_order_relaxed);
    return {};
  }
  if (!used_.load(std::memory_order_relaxed)) {
    generation_.store(fork_generation());
    used_.store(true);
    return {};
  }
  return {StatusCode::kFailedPrecondition,
          "Cannot re-initialize the neuron device in a forked process: it was in use when the process forked. Use the "
          "'spawn' start method"};
}

// ---- Modes ----------------------------------------------------------------------------------------------------------

void Runtime::update_rules() {  // with rules_mutex_ held, or before anybody else can see the runtime
  RecordRules rules;
  const bool adaptive = mode_.load() == Mode::kAdaptive;
  rules.policy = adaptive ? policy_.load() : static_policy("strict");
  rules.one_op = !adaptive || launch_blocking_;
  rules.raise = launch_blocking_;
  rules.may_compile = adaptive || settings_.tier == Tier::kJit;
  rules.max_ops = max_window_ops_;
  rules.max_bytes = std::min<uint64_t>(rules.max_bytes, std::max<uint64_t>(settings_.hbm_bytes / 4, 1));
  for (const auto& old : all_rules_) {
    if (old->policy == rules.policy && old->one_op == rules.one_op && old->raise == rules.raise &&
        old->may_compile == rules.may_compile && old->max_ops == rules.max_ops) {
      rules_.store(old.get(), std::memory_order_release);
      return;
    }
  }
  all_rules_.push_back(std::make_unique<RecordRules>(rules));
  rules_.store(all_rules_.back().get(), std::memory_order_release);
}

Status Runtime::set_mode(Mode mode) {
  cut_all(CutReason::k_settings, Start::kNow);
  std::lock_guard lock(rules_mutex_);
  mode_.store(mode);
  update_rules();
  return {};
}

Status Runtime::set_fusion_policy(const std::string& name) {
  NAX_RETURN_IF_ERROR(check_policy_name(name, "fusion policy"));
  cut_all(CutReason::k_settings, Start::kNow);
  std::lock_guard lock(rules_mutex_);
  policy_.store(static_policy(name));
  update_rules();
  return {};
}

void Runtime::set_launch_blocking(bool on) {
  cut_all(CutReason::k_settings, Start::kNow);
  std::lock_guard lock(rules_mutex_);
  launch_blocking_ = on;
  update_rules();
}

void Runtime::set_max_window_ops(uint32_t ops) {
  cut_all(CutReason::k_settings, Start::kNow);
  std::lock_guard lock(rules_mutex_);
  max_window_ops_ = std::max(ops, 1u);
  update_rules();
}

// ---- Buffers --------------------------------------------------------------------------------------------------------

StatusOr<Allocation*> Runtime::reserve(uint64_t bytes) {
  StatusOr<Allocation*> allocation = hbm_->reserve(bytes);
  if (allocation.ok()) return allocation;
  // Released buffers may still be waiting for recorded work: finish it, then give the free lists back and try again.
  cut_all(CutReason::k_out_of_memory, Start::kWhenWaited);
  NAX_RETURN_IF_ERROR(wait(queue_->pushed()));
  cut_all(CutReason::k_out_of_memory, Start::kWhenWaited);
  hbm_->trim();
  return hbm_->reserve(bytes);
}

StatusOr<Buffer*> Runtime::create_buffer(Stream* stream, uint64_t bytes) {
  NAX_RETURN_IF_ERROR(enter());
  NAX_ASSIGN_OR_RETURN(Allocation * allocation, reserve(bytes));
  return Buffer::make(*this, stream ? *stream : *default_stream_, allocation);
}

Buffer* Runtime::find_buffer(uintptr_t address) {
  const Hbm::Found found = hbm_->find(address);
  if (!found.allocation) return nullptr;
  auto* buffer = static_cast<Buffer*>(found.allocation->owner);
  return buffer && buffer->handle_alive() ? buffer : nullptr;
}

Status Runtime::map(Buffer& buffer, bool for_write, void** out_host) {
  NAX_RETURN_IF_ERROR(enter());
  buffer.owner().cut_if_used(buffer, !for_write, CutReason::k_map, Start::kWhenWaited);
  if (buffer.in_open_window()) {
    for (Stream* stream : lock_streams()) {
      if (stream != &buffer.owner()) stream->cut_if_used(buffer, !for_write, CutReason::k_map, Start::kWhenWaited);
      stream->unref();
    }
  }
  NAX_RETURN_IF_ERROR(wait(for_write ? buffer.last_use() : buffer.last_write()));
  if (ErrorRef error = buffer.poison()) {
    error->raised.store(true);
    return raise(*error);
  }
  NAX_ASSIGN_OR_RETURN(*out_host, buffer.host());
  if (for_write) buffer.set_written();
  return {};
}

Status Runtime::write(Stream& stream, Buffer& buffer, uint64_t offset, const void* source, uint64_t bytes) {
  NAX_RETURN_IF_ERROR(enter());
  NAX_RETURN_IF_ERROR(check_range(buffer, offset, bytes));
  if (bytes == 0) return {};
  // Only a window that uses the buffer has to end first: the others cannot tell that the copy overtakes them.
  stream.cut_if_used(buffer, false, CutReason::k_host_write, Start::kNow);
  if (&buffer.owner() != &stream) buffer.owner().cut_if_used(buffer, false, CutReason::k_host_write, Start::kNow);
  buffer.set_written();
  stats_.add(Counter::k_host_bytes_written, bytes);
  if (queue_->done(buffer.last_use())) {
    if (copy_to_buffer(buffer, offset, source, bytes)) return {};
    return {StatusCode::kResourceExhausted, "the host has no memory for the buffer", ErrorReason::kHbmExhausted};
  }
  queue_->push(new HostCopy(buffer, offset, source, bytes), Start::kNow,
               [&](uint64_t ticket) { buffer.set_used(ticket, true); });
  return queue_->has_room() ? Status() : wait_for_room();
}

Status Runtime::read(Stream& stream, Buffer& buffer, uint64_t offset, void* target, uint64_t bytes) {
  NAX_RETURN_IF_ERROR(enter());
  NAX_RETURN_IF_ERROR(check_range(buffer, offset, bytes));
  stream.cut_if_used(buffer, true, CutReason::k_host_read, Start::kWhenWaited);
  if (&buffer.owner() != &stream) buffer.owner().cut_if_used(buffer, true, CutReason::k_host_read, Start::kWhenWaited);
  NAX_RETURN_IF_ERROR(wait(buffer.last_write()));
  if (ErrorRef error = buffer.poison()) {
    error->raised.store(true);
    return raise(*error);
  }
  if (bytes == 0) return {};
  NAX_ASSIGN_OR_RETURN(void* host, buffer.host());
  std::memcpy(target, static_cast<const char*>(host) + offset, bytes);
  stats_.add(Counter::k_host_bytes_read, bytes);
  return {};
}

// ---- Streams --------------------------------------------------------------------------------------------------------

Stream* Runtime::create_stream(int priority) {
  std::unique_lock lock(streams_mutex_);
  const int id = next_stream_id_++;
  lock.unlock();
  auto* stream = new Stream(*this, id, priority);
  lock.lock();
  streams_.push_back(stream);
  return stream;
}

void Runtime::forget(Stream* stream) {
  std::lock_guard lock(streams_mutex_);
  streams_.erase(std::remove(streams_.begin(), streams_.end(), stream), streams_.end());
}

std::vector<Stream*> Runtime::lock_streams() {
  std::vector<Stream*> live;
  std::lock_guard lock(streams_mutex_);
  for (Stream* stream : streams_)
    if (stream->try_ref()) live.push_back(stream);
  return live;
}

void Runtime::cut_all(CutReason reason, Start start) {
  for (Stream* stream : lock_streams()) {
    stream->cut(reason, start);
    stream->unref();
  }
}

Status Runtime::wait(uint64_t ticket) {
  if (queue_->done(ticket)) return {};
  const auto hook = [this](bool begin) { call_wait_hook(begin); };
  const auto check = get(interrupt_check_);
  if (!check.function) return queue_->wait(ticket, hook), Status();
  return interrupted_unless(queue_->wait(ticket, hook, [&] { return check.function(check.user) != 0; }));
}

Status Runtime::wait_for_room() {
  stats_.add(Counter::k_back_pressure_waits);
  const auto hook = [this](bool begin) { call_wait_hook(begin); };
  const auto check = get(interrupt_check_);
  if (!check.function) return queue_->wait_for_room(hook), Status();
  return interrupted_unless(queue_->wait_for_room(hook, [&] { return check.function(check.user) != 0; }));
}

Status Runtime::synchronize() {
  NAX_RETURN_IF_ERROR(enter());
  cut_all(CutReason::k_synchronize, Start::kWhenWaited);
  NAX_RETURN_IF_ERROR(wait(queue_->pushed()));
  if (ErrorRef error = errors_.take_earliest()) return raise(*error);
  return {};
}

Status Runtime::synchronize(Stream& stream) {
  NAX_RETURN_IF_ERROR(enter());
  NAX_RETURN_IF_ERROR(wait(stream.cut(CutReason::k_synchronize, Start::kWhenWaited)));
  if (ErrorRef error = errors_.take(stream.id())) return raise(*error);
  return {};
}

// ---- Hooks ----------------------------------------------------------------------------------------------------------

void Runtime::call_wait_hook(bool begin) {
  const auto hook = get(wait_hook_);
  if (hook.function) hook.function(hook.user, begin ? 1 : 0);
}

void Runtime::set_wait_hook(WaitHook hook, void* user) {
  std::lock_guard lock(hooks_mutex_);
  wait_hook_ = {hook, user};
}

void Runtime::set_interrupt_check(InterruptCheck check, void* user) {
  std::lock_guard lock(hooks_mutex_);
  interrupt_check_ = {check, user};
}

void Runtime::set_origin_resolver(OriginResolver resolver, void* user) {
  std::lock_guard lock(hooks_mutex_);
  origin_resolver_ = {resolver, user};
}

void Runtime::set_log_sink(LogSink sink, void* user) {
  std::vector<std::pair<int, std::string>> unsent;
  {
    std::lock_guard lock(hooks_mutex_);
    log_sink_ = {sink, user};
    if (sink) unsent.swap(unsent_log_);
  }
  for (const auto& [level, message] : unsent) sink(user, level, message.c_str());
}

void Runtime::log(int level, const std::string& message) {
  if (level > settings_.log_level) return;
  Callback<LogSink> sink;
  {
    std::lock_guard lock(hooks_mutex_);
    sink = log_sink_;
    if (!sink.function && unsent_log_.size() < 16) unsent_log_.emplace_back(level, message);
  }
  if (sink.function) sink.function(sink.user, level, message.c_str());
}

Status Runtime::raise(const ErrorRecord& record) {
  return to_status(record, [this](uint64_t origin) { return origin_text(origin); });
}

std::string Runtime::origin_text(uint64_t origin) {
  const auto resolver = get(origin_resolver_);
  if (!resolver.function) return "origin " + std::to_string(origin);
  char text[512] = "";
  resolver.function(resolver.user, origin, text, sizeof text);
  text[sizeof text - 1] = '\0';
  return text;
}

Status Runtime::set_trace(Tracer::WindowSink window, Tracer::FallbackSink fallback) {
  NAX_RETURN_IF_ERROR(enter());
  cut_all(CutReason::k_trace, Start::kWhenWaited);
  NAX_RETURN_IF_ERROR(wait(queue_->pushed()));
  tracer_.set_sinks(std::move(window), std::move(fallback));
  return {};
}

// ---- Statistics and memory ------------------------------------------------------------------------------------------

void Runtime::visit_stats(Stats::Visitor visit) {
  stats_.visit(visit);
  const HbmStats hbm = hbm_->stats();
  visit("device_seconds", executor_->clock().device_seconds());
  visit("hbm_bytes_peak", static_cast<double>(hbm.physical_peak));
  visit("hbm_charged_bytes_peak", static_cast<double>(hbm.charged_peak));
  visit("hbm_bytes", static_cast<double>(hbm.physical));
  visit("hbm_out_of_memory", static_cast<double>(hbm.ooms));
  visit("queue_depth_peak", static_cast<double>(queue_->deepest()));
}

void Runtime::reset_stats() {
  stats_.reset();
  executor_->clock().reset();
  hbm_->reset_peaks();
}

void Runtime::trim_memory() { hbm_->trim(); }

WindowWork* Runtime::take_window() {
  {
    std::lock_guard lock(pool_mutex_);
    if (!window_pool_.empty()) {
      WindowWork* work = window_pool_.back();
      window_pool_.pop_back();
      return work;
    }
  }
  return new WindowWork;
}

void Runtime::recycle(WindowWork* work) {
  {
    std::lock_guard lock(pool_mutex_);
    if (window_pool_.size() < kWindowPool) {
      window_pool_.push_back(work);
      return;
    }
  }
  delete work;
}

}  // namespace nax
