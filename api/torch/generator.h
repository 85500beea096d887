// Philox generator state of a device: a seed and an offset. Ops reserve their part of the stream when they are recorded,
// so that the order of draws is the program's.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <optional>

#include "api/torch/device.h"

namespace nax::binding {

struct PhiloxRange {
  uint64_t seed;
  uint64_t offset;
};

class NeuronGenerator final : public c10::GeneratorImpl {
 public:
  explicit NeuronGenerator(c10::DeviceIndex device);

  static c10::DeviceType device_type() { return kNeuron; }

  // Takes round_up(count, 4) draws. Locks inside.
  PhiloxRange reserve(uint64_t count);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  // 16 bytes: uint64 seed, int64 offset; 8 bytes set the seed alone.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  NeuronGenerator* clone_impl() const override;

  uint64_t seed_;
  uint64_t offset_ = 0;
};

const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);

// Reserves draws of the given generator, or of the device's default one. Throws for a generator of another device.
PhiloxRange reserve_random(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                           uint64_t count);

// A number for seeding a host generator: every (seed, offset) has its own.
uint64_t mixed_seed(PhiloxRange range);

}  // namespace nax::binding
