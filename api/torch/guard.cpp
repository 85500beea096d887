// c10's guard over devices, streams and events: torch.Stream, torch.Event, torch.accelerator and the autograd engine.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "api/torch/allocator.h"
#include "api/torch/gil.h"
#include "api/torch/status.h"

namespace nax::binding {
namespace {

// What an event's void* points to. Timing is asked of the core when it is wanted: it keeps emulated time anyway.
struct EventHandle {
  nax_event* event;
  bool timed;
};

EventHandle* as_event(void* event) { return static_cast<EventHandle*>(event); }

nax_stream* handle_of(const c10::Stream& stream) {
  return stream_of(stream.device_index(), stream.id());
}

c10::Stream make_stream(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device), id);
}

struct NeuronGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kNeuron; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device.has_index() && device.index() != before.index()) set_current_device(device.index());
    return before;
  }
  c10::Device getDevice() const override { return {kNeuron, current_device()}; }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < device_count()) set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override {
    return c10::DeviceCapability();  // every dtype of the CPU
  }

  c10::Stream getStream(c10::Device device) const override {
    const c10::DeviceIndex index = device_or_current(device.index());
    return make_stream(index, current_stream_id(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return make_stream(device_or_current(device.index()), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    const c10::DeviceIndex index = device_or_current(device.index());
    return make_stream(index, new_stream(index, priority));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    set_current_stream_id(stream.device_index(), stream.id());
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return handle_of(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    return nax_stream_query(handle_of(stream)) != 0;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    check(nax_stream_synchronize(handle_of(stream)));
    raise_pending_signal();
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override { synchronize_device(device); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    c10::getDeviceAllocator(kNeuron)->recordStream(data, stream);
  }

  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    if (event == nullptr) return;
    if (!in_bad_fork()) nax_event_destroy(as_event(event)->event);
    delete as_event(event);
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device < 0 || device == stream.device_index(), "Event device index ", int(device),
                " does not match recording stream's device index ", int(stream.device_index()), ".");
    if (*event == nullptr) {
      nax_event* made = nullptr;
      check(nax_event_create(runtime(stream.device_index()), &made));
      *event = new EventHandle{made, flag == c10::EventFlag::BACKEND_DEFAULT};
    }
    check(nax_event_record(as_event(*event)->event, handle_of(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) check(nax_stream_wait_event(handle_of(stream), as_event(event)->event));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || nax_event_query(as_event(event)->event) != 0;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    check(nax_event_synchronize(as_event(event)->event));
    raise_pending_signal();
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex /*device*/) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "Both events must be recorded before calculating elapsed time.");
    TORCH_CHECK(as_event(start)->timed && as_event(end)->timed,
                "Both events must be created with argument 'enable_timing=True'.");
    double ns = 0;
    check(nax_event_elapsed_ns(as_event(start)->event, as_event(end)->event, &ns));
    return ns * 1e-6;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, NeuronGuard)

}  // namespace
}  // namespace nax::binding
