#include "api/torch/device.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "api/torch/gil.h"
#include "api/torch/origin.h"
#include "api/torch/status.h"

namespace nax::binding {
namespace {

constexpr int kStreamsPerPriority = 32;

struct StreamPool {
  std::vector<nax_stream*> streams;  // id - 1
  std::vector<std::pair<int, c10::StreamId>> by_priority;
  size_t turn = 0;
};

struct NeuronDevice {
  std::atomic<nax_runtime*> runtime{nullptr};
  nax_stream* default_stream = nullptr;
  std::mutex mutex;
  StreamPool pool;
};

std::array<NeuronDevice, kMaxDevices>& devices() {
  static auto* all = new std::array<NeuronDevice, kMaxDevices>();
  return *all;
}

std::atomic<bool> any_runtime{false};
std::atomic<bool> bad_fork{false};

struct ThreadState {
  c10::DeviceIndex device = 0;
  std::array<c10::StreamId, kMaxDevices> stream{};
};
thread_local ThreadState thread_state;

// 0: not set to a usable number.
int cores_from_environment() noexcept {
  const char* text = std::getenv("NEURON_RT_NUM_CORES");
  if (text == nullptr || *text == '\0') return 1;
  int cores = 0;
  const char* end = text + std::strlen(text);
  const auto result = std::from_chars(text, end, cores);
  return result.ec == std::errc() && result.ptr == end && cores >= 1 && cores <= kMaxDevices ? cores
                                                                                             : 0;
}

void check_index(c10::DeviceIndex device) {
  TORCH_CHECK(device >= 0 && device < device_count(), "invalid neuron device index ", int(device),
              ": there ", device_count() == 1 ? "is 1 device" : "are ",
              device_count() == 1 ? "" : std::to_string(device_count()) + " devices",
              " (NEURON_RT_NUM_CORES)");
}

nax_runtime* create(c10::DeviceIndex device) {
  TORCH_CHECK(!in_bad_fork(),
              "Cannot re-initialize Neuron runtime in forked subprocess. To use Neuron with "
              "multiprocessing, use the 'spawn' start method");
  check_index(device);
  TORCH_CHECK(cores_from_environment() != 0, "NEURON_RT_NUM_CORES=",
              std::getenv("NEURON_RT_NUM_CORES"), " is not allowed; allowed: 1 to ", kMaxDevices);
  NeuronDevice& d = devices()[device];
  nax_runtime_options options = {};
  options.struct_size = sizeof(options);
  options.abi_version = NAX_ABI_VERSION;
  const char* threads = std::getenv("NAX_NUM_THREADS");
  if (threads == nullptr || *threads == '\0') options.num_threads = at::get_num_threads();
  nax_runtime* made = nullptr;
  check(nax_runtime_create(&options, &made));
  nax_runtime_set_wait_hook(made, &gil_wait_hook, nullptr);
  nax_runtime_set_interrupt_check(made, &interrupt_check, nullptr);
  nax_runtime_set_origin_resolver(made, &resolve_origin, nullptr);
  nax_runtime_set_log_sink(made, &log_to_stderr, nullptr);
  d.default_stream = nax_runtime_default_stream(made);
  d.runtime.store(made, std::memory_order_release);
  if (!any_runtime.exchange(true)) pthread_atfork(nullptr, nullptr, [] { bad_fork = true; });
  return made;
}

}  // namespace

c10::DeviceIndex device_count() noexcept {
  static const int count = cores_from_environment();
  return static_cast<c10::DeviceIndex>(count == 0 ? 1 : count);
}

c10::DeviceIndex current_device() noexcept { return thread_state.device; }

void set_current_device(c10::DeviceIndex device) {
  check_index(device);
  thread_state.device = device;
}

bool has_runtime(c10::DeviceIndex device) noexcept {
  return device >= 0 && device < kMaxDevices &&
         devices()[device].runtime.load(std::memory_order_acquire) != nullptr && !in_bad_fork();
}

nax_runtime* runtime(c10::DeviceIndex device) {
  if (device >= 0 && device < kMaxDevices) {
    nax_runtime* found = devices()[device].runtime.load(std::memory_order_acquire);
    if (found != nullptr && !bad_fork.load(std::memory_order_relaxed)) return found;
  }
  check_index(device);
  NeuronDevice& d = devices()[device];
  // The maker may need the GIL (a hook, a log line): never wait for this lock with it held.
  GilRelease release;
  std::lock_guard lock(d.mutex);
  nax_runtime* found = d.runtime.load(std::memory_order_acquire);
  return found != nullptr && !in_bad_fork() ? found : create(device);
}

bool in_bad_fork() noexcept { return bad_fork.load(std::memory_order_relaxed); }

nax_stream* stream_of(c10::DeviceIndex device, c10::StreamId id) {
  runtime(device);
  NeuronDevice& d = devices()[device];
  if (id == 0) return d.default_stream;
  std::lock_guard lock(d.mutex);
  TORCH_CHECK(id > 0 && size_t(id) <= d.pool.streams.size(), "neuron:", int(device),
              " has no stream with id ", id);
  return d.pool.streams[size_t(id) - 1];
}

c10::StreamId new_stream(c10::DeviceIndex device, int priority) {
  nax_runtime* owner = runtime(device);
  NeuronDevice& d = devices()[device];
  std::lock_guard lock(d.mutex);
  // Streams are never destroyed, so their number is bounded: past that they are shared in turn, as on other devices.
  std::vector<c10::StreamId> same;
  for (const auto& [p, id] : d.pool.by_priority) {
    if (p == priority) same.push_back(id);
  }
  if (same.size() >= kStreamsPerPriority) return same[d.pool.turn++ % same.size()];
  nax_stream* made = nullptr;
  check(nax_stream_create(owner, priority, &made));
  d.pool.streams.push_back(made);
  const auto id = static_cast<c10::StreamId>(d.pool.streams.size());
  d.pool.by_priority.emplace_back(priority, id);
  return id;
}

c10::StreamId current_stream_id(c10::DeviceIndex device) noexcept {
  return thread_state.stream[device];
}

void set_current_stream_id(c10::DeviceIndex device, c10::StreamId id) noexcept {
  thread_state.stream[device] = id;
}

nax_stream* current_stream(c10::DeviceIndex device) {
  const c10::StreamId id = thread_state.stream[device];
  if (id == 0 && has_runtime(device)) return devices()[device].default_stream;
  return stream_of(device, id);
}

void synchronize_device(c10::DeviceIndex device) {
  if (!has_runtime(device)) {
    runtime(device);
    return;
  }
  check(nax_runtime_synchronize(runtime(device)));
  raise_pending_signal();
}

}  // namespace nax::binding
