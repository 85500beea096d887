// The process's emulated devices: one nax_runtime each, created at first use and never destroyed (recorded work, buffers
// and worker threads may outlive every owner at exit). All functions may be called from any thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "nax/nax.h"

namespace nax::binding {

constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;
constexpr int kMaxDevices = 32;

// NEURON_RT_NUM_CORES, default 1. Never throws and starts nothing; an unreadable value counts as one device and is
// reported by runtime().
c10::DeviceIndex device_count() noexcept;

c10::DeviceIndex current_device() noexcept;  // of this thread
void set_current_device(c10::DeviceIndex device);  // throws where there is no such device
inline c10::DeviceIndex device_or_current(c10::DeviceIndex device) {
  return device < 0 ? current_device() : device;
}

bool has_runtime(c10::DeviceIndex device) noexcept;
// Creates the runtime at first use. Throws on a bad environment, and in a child forked after a device was used.
nax_runtime* runtime(c10::DeviceIndex device);
// True in a child that was forked after a device was used: its copies of device memory may only be dropped.
bool in_bad_fork() noexcept;

// Streams are numbered for PyTorch: 0 is the default stream. Streams of the pool live as long as the process.
nax_stream* stream_of(c10::DeviceIndex device, c10::StreamId id);
c10::StreamId new_stream(c10::DeviceIndex device, int priority);
c10::StreamId current_stream_id(c10::DeviceIndex device) noexcept;  // of this thread
void set_current_stream_id(c10::DeviceIndex device, c10::StreamId id) noexcept;
nax_stream* current_stream(c10::DeviceIndex device);

// Waits for all work of the device; raises its earliest deferred error. Handles a pending Ctrl-C afterwards.
void synchronize_device(c10::DeviceIndex device);

}  // namespace nax::binding
