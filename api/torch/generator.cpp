#include "api/torch/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <mutex>

namespace nax::binding {

NeuronGenerator::NeuronGenerator(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(kNeuron, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      seed_(c10::default_rng_seed_val) {}

PhiloxRange NeuronGenerator::reserve(uint64_t count) {
  std::lock_guard lock(mutex_);
  const PhiloxRange range{seed_, offset_};
  offset_ += (count + 3) / 4 * 4;
  return range;
}

// Callers hold mutex_ in the functions below, as for PyTorch's own generators.
void NeuronGenerator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

void NeuronGenerator::set_offset(uint64_t offset) { offset_ = offset; }

uint64_t NeuronGenerator::get_offset() const { return offset_; }

uint64_t NeuronGenerator::current_seed() const { return seed_; }

uint64_t NeuronGenerator::seed() {
  const uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

c10::intrusive_ptr<c10::TensorImpl> NeuronGenerator::get_state() const {
  const int64_t words[2] = {static_cast<int64_t>(seed_), static_cast<int64_t>(offset_)};
  at::Tensor state = at::empty({sizeof(words)}, at::TensorOptions(at::kByte).device(at::kCPU));
  std::memcpy(state.mutable_data_ptr(), words, sizeof(words));
  return state.getIntrusivePtr();
}

void NeuronGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  const int64_t bytes = state.numel();
  TORCH_CHECK(bytes == 8 || bytes == 16,
              "neuron RNG state must have 16 bytes (seed and offset) or 8 (seed), got ", bytes);
  int64_t words[2] = {0, 0};
  std::memcpy(words, state.data(), static_cast<size_t>(bytes));
  TORCH_CHECK(words[1] >= 0, "neuron RNG state has a negative offset");
  seed_ = static_cast<uint64_t>(words[0]);
  offset_ = static_cast<uint64_t>(words[1]);
}

NeuronGenerator* NeuronGenerator::clone_impl() const {
  auto* copy = new NeuronGenerator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* all = [] {
    auto* made = new std::array<at::Generator, kMaxDevices>();
    for (int d = 0; d < kMaxDevices; ++d) {
      (*made)[d] = at::make_generator<NeuronGenerator>(static_cast<c10::DeviceIndex>(d));
    }
    return made;
  }();
  const c10::DeviceIndex index = device_or_current(device);
  TORCH_CHECK(index < device_count(), "invalid neuron device index ", int(index));
  return (*all)[index];
}

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<NeuronGenerator>(device_or_current(device));
}

PhiloxRange reserve_random(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                           uint64_t count) {
  return at::get_generator_or_default<NeuronGenerator>(generator, default_generator(device))
      ->reserve(count);
}

uint64_t mixed_seed(PhiloxRange range) {
  // splitmix64 over both words.
  uint64_t z = range.seed;
  for (const uint64_t word : {range.offset, uint64_t(0)}) {
    z += 0x9E3779B97F4A7C15ull + word;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
  }
  return z;
}

}  // namespace nax::binding
