// Buffers and launches for the interpreter's tests: a program runs on the interpreter, on several thread counts, and in the
// reference, and every byte of every buffer is compared.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/interpreter/interpreter.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"
#include "tests/device/interpreter/reference.h"

namespace nax::testing {

// Arguments of one instance. Each view has a buffer of its own unless it shares one.
class Launch {
 public:
  explicit Launch(const Program& program) : program_(program), args_(program.args.size()), buffer_of_(program.args.size(), -1) {}

  // A view with the given sizes and strides (elements); the buffer holds just what it reaches, plus guards.
  void view(int arg, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    int64_t low = 0, high = 0;
    bool empty = false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      empty |= sizes[d] == 0;
      (strides[d] < 0 ? low : high) += (sizes[d] - 1) * strides[d];
    }
    if (empty) low = high = 0;
    const int64_t size = static_cast<int64_t>(dtype_size(program_.args[static_cast<size_t>(arg)].dtype));
    buffer_of_[static_cast<size_t>(arg)] = static_cast<int>(buffers_.size());
    buffers_.emplace_back(static_cast<size_t>((high - low + 1 + 2 * kGuard) * size));
    dtypes_.push_back(program_.args[static_cast<size_t>(arg)].dtype);
    place(arg, std::move(sizes), std::move(strides), (kGuard - low) * size);
  }
  void contiguous(int arg, std::vector<int64_t> sizes) {
    std::vector<int64_t> strides(sizes.size());
    int64_t step = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      strides[d] = step;
      step *= sizes[d];
    }
    view(arg, std::move(sizes), std::move(strides));
  }
  // A second argument on the buffer of `other`, with the same view.
  void same_as(int arg, int other) {
    buffer_of_[static_cast<size_t>(arg)] = buffer_of_[static_cast<size_t>(other)];
    args_[static_cast<size_t>(arg)] = args_[static_cast<size_t>(other)];
  }
  void scalar(int arg, double v) { args_[static_cast<size_t>(arg)].scalar = ScalarValue::from_f64(v); }
  void scalar_int(int arg, int64_t v) { args_[static_cast<size_t>(arg)].scalar = ScalarValue::from_i64(v); }
  void seed(int arg, uint64_t seed, uint64_t offset) {
    args_[static_cast<size_t>(arg)].seed = seed;
    args_[static_cast<size_t>(arg)].seed_offset = offset;
  }
  ArgValue& cell(int arg) { return args_[static_cast<size_t>(arg)]; }

  // Random contents; `special`: the share of NaN, infinities, zeros, subnormals and extremes.
  void fill(std::mt19937_64& rng, double special) {
    for (size_t b = 0; b < buffers_.size(); ++b) fill_buffer(rng, special, b);
  }
  // Values of one argument's buffer, all of it, guards included.
  template <class T>
  void fill_with(int arg, T (*make)(int64_t)) {
    std::vector<char>& b = buffers_[static_cast<size_t>(buffer_of_[static_cast<size_t>(arg)])];
    for (size_t i = 0; i < b.size() / sizeof(T); ++i) {
      const T v = make(static_cast<int64_t>(i));
      std::memcpy(b.data() + i * sizeof(T), &v, sizeof(T));
    }
  }
  template <class T>
  T* data(int arg) {
    ArgValue& a = args_[static_cast<size_t>(arg)];
    return reinterpret_cast<T*>(buffers_[static_cast<size_t>(buffer_of_[static_cast<size_t>(arg)])].data() + a.offset_bytes);
  }

  // The arguments over this object's buffers.
  std::vector<ArgValue> bound() {
    std::vector<ArgValue> out = args_;
    for (size_t a = 0; a < out.size(); ++a)
      if (buffer_of_[a] >= 0) out[a].data = buffers_[static_cast<size_t>(buffer_of_[a])].data();
    return out;
  }

  // Empty: equal. Else what differs.
  std::string difference(const Launch& expected) const {
    std::string first;
    int64_t count = 0;
    for (size_t b = 0; b < buffers_.size(); ++b) {
      const size_t size = dtype_size(dtypes_[b]);
      for (size_t i = 0; i * size < buffers_[b].size(); ++i) {
        const char *x = buffers_[b].data() + i * size, *y = expected.buffers_[b].data() + i * size;
        if (std::memcmp(x, y, size) == 0) continue;
        const reference::Cell p = reference::load(x, dtypes_[b]), q = reference::load(y, dtypes_[b]);
        const Lane lane = lane_of(dtypes_[b]);
        const double u = lane == Lane::kF32 ? p.f32 : lane == Lane::kF64 ? p.f64 : lane == Lane::kI64 ? static_cast<double>(p.i64) : p.i32;
        const double v = lane == Lane::kF32 ? q.f32 : lane == Lane::kF64 ? q.f64 : lane == Lane::kI64 ? static_cast<double>(q.i64) : q.i32;
        if (is_floating(dtypes_[b]) && std::isnan(u) && std::isnan(v)) continue;
        if (is_floating(dtypes_[b]) && u == 0 && v == 0) continue;  // max and min do not order zeros
        if (count++ > 0) continue;
        first = "buffer " + std::to_string(b) + " (" + std::string(dtype_name(dtypes_[b])) + ") element " + std::to_string(static_cast<int64_t>(i) - kGuard) +
               ": " + std::to_string(u) + ", expected " + std::to_string(v);
      }
    }
    return count == 0 ? "" : first + " and " + std::to_string(count - 1) + " more";
  }

 private:
  static constexpr int64_t kGuard = 32;

  void place(int arg, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset_bytes) {
    ArgValue& a = args_[static_cast<size_t>(arg)];
    a.offset_bytes = offset_bytes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      a.sizes[d] = sizes[d];
      a.strides[d] = strides[d];
    }
  }

  void fill_buffer(std::mt19937_64& rng, double special, size_t b) {
    const DType t = dtypes_[b];
    const size_t size = dtype_size(t);
    std::uniform_real_distribution<double> unit(0, 1);
    std::normal_distribution<float> normal(0, 2);
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr float kSpecial[] = {0.0f, -0.0f, kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 1e-40f, -1e-42f, 3e38f, 1e-30f, 65504.0f};
    for (size_t i = 0; i * size < buffers_[b].size(); ++i) {
      reference::Cell c;
      const bool odd = unit(rng) < special;
      switch (lane_of(t)) {
        case Lane::kF32: c.f32 = odd ? kSpecial[rng() % 10] : normal(rng); break;
        case Lane::kF64: c.f64 = odd ? kSpecial[rng() % 10] : normal(rng); break;
        case Lane::kI64: c.i64 = odd ? static_cast<int64_t>(rng()) : static_cast<int64_t>(rng() % 21) - 10; break;
        case Lane::kI32: c.i32 = odd ? static_cast<int32_t>(rng()) : static_cast<int32_t>(rng() % 21) - 10; break;
      }
      reference::store(buffers_[b].data() + i * size, c, t);
    }
  }

  const Program& program_;
  std::vector<ArgValue> args_;
  std::vector<int> buffer_of_;
  std::vector<std::vector<char>> buffers_;
  std::vector<DType> dtypes_;
};

// The views of a launch, for messages.
inline std::string views_text(const Program& program, const std::vector<ArgValue>& args) {
  std::string s;
  for (size_t a = 0; a < args.size(); ++a) {
    if (program.args[a].kind != ArgKind::kView) continue;
    s += "a" + std::to_string(a) + ":";
    for (int d = 0; d < program.args[a].rank; ++d) s += " " + std::to_string(args[a].sizes[d]) + "/" + std::to_string(args[a].strides[d]);
    s += "; ";
  }
  return s;
}

inline Program parse(const std::string& text) {
  StatusOr<Program> p = parse_program(text);
  REQUIRE_MESSAGE(p.ok(), std::string(p.ok() ? std::string_view() : p.status().message()));
  return std::move(p).value();
}

// Verifies, prepares, runs with 1 and with 2 threads and compares with the reference. Returns the error bits.
inline std::vector<uint8_t> check(const Program& program, const Launch& launch) {
  const Status verified = verify(program);
  REQUIRE_MESSAGE(verified.ok(), std::string(verified.message()) << "\n" << to_text(program));
  auto prepared = PreparedProgram::prepare(std::make_shared<const Program>(program));
  REQUIRE_MESSAGE(prepared.ok(), std::string(prepared.ok() ? std::string_view() : prepared.status().message()) << "\n" << to_text(program));
  Launch expected = launch;
  std::vector<uint8_t> want(program.op_count, 0);
  reference::Evaluator(program, expected.bound().data(), want.data()).run();
  for (int threads : {1, 2}) {
    ThreadPool pool(threads);
    Launch got = launch;
    std::vector<uint8_t> errors(program.op_count, 0);
    const Status status = (*prepared)->run(got.bound().data(), 1, pool, errors.data());
    REQUIRE_MESSAGE(status.ok(), std::string(status.message()) << "\n" << to_text(program));
    const std::string difference = got.difference(expected);
    CHECK_MESSAGE(difference.empty(), difference << " with " << threads << " threads\n" << views_text(program, got.bound()) << "\n" << to_text(program));
    CHECK_MESSAGE(errors == want, "error bits\n" << to_text(program));
  }
  return want;
}

}  // namespace nax::testing
