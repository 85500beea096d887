// What recording costs in the C++ core: an op on two 16-element tensors, buffer creation and release on top, and an eager
// op from call to result. Prints nanoseconds, medians over rounds; the ratio to CPU eager is bench_record.py's.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "runtime/buffer.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

namespace {

using namespace nax;

nax_operand view(Buffer* buffer) {
  nax_operand o{};
  o.cls = NAX_TENSOR;
  o.dtype = NAX_F32;
  o.buffer = reinterpret_cast<nax_buffer*>(buffer);
  o.rank = 1;
  o.sizes[0] = 16;
  o.strides[0] = 1;
  return o;
}

Buffer* buffer_of(Runtime& runtime) {
  auto buffer = runtime.create_buffer(nullptr, 64);
  if (!buffer.ok()) std::abort();
  const float values[16] = {1};
  if (!runtime.write(runtime.default_stream(), **buffer, 0, values, 64).ok()) std::abort();
  return *buffer;
}

// Median over rounds of the time of one body, in ns; `between` runs outside the clock.
template <class Body, class Between>
double measure(int rounds, int count, Body body, Between between) {
  std::vector<double> times;
  for (int r = 0; r < rounds; ++r) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) body();
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / count);
    between();
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<size_t>(rounds / 2)];
}

}  // namespace

int main() {
  for (Mode mode : {Mode::kAdaptive, Mode::kEager}) {
    Settings settings;
    settings.mode = mode;
    settings.hbm_bytes = 1 << 30;
    auto created = Runtime::create(settings);
    if (!created.ok()) return std::fprintf(stderr, "%s\n", std::string(created.status().message()).c_str()), 1;
    Runtime& runtime = **created;
    Stream& stream = runtime.default_stream();
    Buffer *a = buffer_of(runtime), *b = buffer_of(runtime), *c = buffer_of(runtime);
    nax_operand alpha{};
    alpha.cls = NAX_SCALAR;
    alpha.scalar.value.f64 = 1;
    nax_operand inputs[3] = {view(a), view(b), alpha}, output = view(c);
    nax_op op{};
    op.struct_size = sizeof op;
    op.id = NAX_OP_ADD;
    op.compute_dtype = NAX_F32;
    op.input_count = 3;
    op.output_count = 1;
    op.inputs = inputs;
    op.outputs = &output;
    const auto synchronize = [&] {
      if (!runtime.synchronize().ok()) std::abort();
    };
    const auto record = [&] {
      if (!stream.record(op).ok()) std::abort();
    };
    const auto record_fresh = [&] {
      Buffer* fresh = *runtime.create_buffer(nullptr, 64);
      output.buffer = reinterpret_cast<nax_buffer*>(fresh);
      record();
      fresh->release_handle();
    };
    // Below the budget of 512, so that recording alone is on the clock in adaptive mode.
    const double plain = measure(2000, 200, record, synchronize);
    const double fresh = measure(2000, 200, record_fresh, synchronize);
    std::printf("%-8s record: %.0f ns   with a new output buffer, released: %.0f ns\n",
                mode == Mode::kEager ? "eager" : "adaptive", plain, fresh);
    output.buffer = reinterpret_cast<nax_buffer*>(c);
    if (mode == Mode::kAdaptive) {
      const double round_trip = measure(2000, 1, [&] { record(); synchronize(); }, [] {});
      std::printf("%-8s record and synchronize: %.0f ns\n", "adaptive", round_trip);
    }
    for (Buffer* buffer : {a, b, c}) buffer->release_handle();
  }
}
