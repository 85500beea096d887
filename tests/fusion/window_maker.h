// Windows over real memory for tests: build ops, run plans on the interpreter, compare.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "device/interpreter/interpreter.h"
#include "device/isa/slots.h"
#include "device/isa/text.h"
#include "device/targets/fit.h"
#include "device/targets/target.h"
#include "fusion/op_table.h"
#include "fusion/plan.h"
#include "fusion/planner.h"

namespace nax::test {

using Memory = std::vector<std::vector<uint8_t>>;

inline const TargetInfo& trn2() { return *find_target("trn2"); }

inline float bf16_to_f32(uint16_t v) {
  const uint32_t bits = static_cast<uint32_t>(v) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
inline uint16_t f32_to_bf16(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (std::isnan(f)) return 0x7fc0;
  bits += 0x7fff + (bits >> 16 & 1);
  return static_cast<uint16_t>(bits >> 16);
}

inline double load_element(const uint8_t* p, DType t) {
  const auto get = [&](auto v) {
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  switch (t) {
    case DType::kBool:
    case DType::kU8:
      return *p;
    case DType::kI8:
      return get(int8_t{});
    case DType::kI16:
      return get(int16_t{});
    case DType::kI32:
      return get(int32_t{});
    case DType::kI64:
      return static_cast<double>(get(int64_t{}));
    case DType::kF32:
      return get(float{});
    case DType::kF64:
      return get(double{});
    case DType::kBF16:
      return bf16_to_f32(get(uint16_t{}));
    case DType::kF16:
      return static_cast<float>(get(_Float16{}));
    default:
      FAIL("dtype");
      return 0;
  }
}

// Rounds a double through f32 first where the engines do (halves).
inline void store_element(uint8_t* p, DType t, double v) {
  const auto put = [&](auto x) { std::memcpy(p, &x, sizeof x); };
  switch (t) {
    case DType::kBool:
      *p = v != 0;
      return;
    case DType::kU8:
      *p = static_cast<uint8_t>(static_cast<int64_t>(v));
      return;
    case DType::kI8:
      return put(static_cast<int8_t>(static_cast<int64_t>(v)));
    case DType::kI16:
      return put(static_cast<int16_t>(static_cast<int64_t>(v)));
    case DType::kI32:
      return put(static_cast<int32_t>(static_cast<int64_t>(v)));
    case DType::kI64:
      return put(static_cast<int64_t>(v));
    case DType::kF32:
      return put(static_cast<float>(v));
    case DType::kF64:
      return put(v);
    case DType::kBF16:
      return put(f32_to_bf16(static_cast<float>(v)));
    case DType::kF16:
      return put(static_cast<_Float16>(static_cast<float>(v)));
    default:
      FAIL("dtype");
  }
}

inline int64_t numel(const View& v) {
  int64_t n = 1;
  for (int i = 0; i < v.rank; ++i) n *= v.sizes[i];
  return n;
}

// Byte offset of element `index` in logical order.
inline int64_t element_offset(const View& v, int64_t index) {
  int64_t at = 0;
  for (int d = v.rank - 1; d >= 0; --d) {
    at += index % v.sizes[d] * v.strides[d];
    index /= v.sizes[d];
  }
  return v.offset_bytes + at * static_cast<int64_t>(dtype_size(v.dtype));
}

class WindowMaker {
 public:
  Window w;
  Memory memory;

  BufferIndex buffer(int64_t bytes, bool live_out = true, bool born_here = false) {
    w.buffers.push_back({live_out, born_here, bytes});
    memory.emplace_back(static_cast<size_t>(bytes), uint8_t{0xab});
    return static_cast<BufferIndex>(w.buffers.size() - 1);
  }

  static View contiguous(BufferIndex b, DType t, const std::vector<int64_t>& sizes,
                         int64_t offset_elements = 0) {
    View v;
    v.buffer = b;
    v.dtype = t;
    v.rank = static_cast<uint8_t>(sizes.size());
    v.offset_bytes = offset_elements * static_cast<int64_t>(dtype_size(t));
    int64_t step = 1;
    for (int i = v.rank - 1; i >= 0; --i) {
      v.sizes[i] = sizes[i];
      v.strides[i] = step;
      step *= std::max<int64_t>(sizes[i], 1);
    }
    return v;
  }
  View tensor(DType t, const std::vector<int64_t>& sizes, bool live_out = true,
              bool born_here = false) {
    int64_t n = 1;
    for (const int64_t s : sizes) n *= s;
    return contiguous(buffer(n * static_cast<int64_t>(dtype_size(t)), live_out, born_here), t,
                      sizes);
  }
  // A dead temporary, or a fresh result.
  View temp(DType t, const std::vector<int64_t>& sizes) { return tensor(t, sizes, false, true); }
  View result(DType t, const std::vector<int64_t>& sizes) { return tensor(t, sizes, true, true); }

  void set(const View& v, int64_t index, double x) {
    store_element(memory[v.buffer].data() + element_offset(v, index), v.dtype, x);
  }
  double get(const View& v, int64_t index) const {
    return load_element(memory[v.buffer].data() + element_offset(v, index), v.dtype);
  }

  void fill_random(const View& v, uint64_t seed, double low = -2, double high = 2) {
    std::mt19937_64 rng(seed);
    std::uniform_real_distribution<double> d(low, high);
    for (int64_t i = 0; i < numel(v); ++i)
      set(v, i,
          v.dtype == DType::kBool ? static_cast<double>(rng() & 1)
          : is_floating(v.dtype)  ? d(rng)
                                  : std::floor(d(rng) * 4));
  }

  static WindowOperand operand(const View& v) {
    WindowOperand o;
    o.cls = OperandClass::kTensor;
    o.view = v;
    return o;
  }
  static WindowOperand scalar(double v) {
    WindowOperand o;
    o.cls = OperandClass::kScalar;
    o.scalar = ScalarValue::from_f64(v);
    return o;
  }
  static WindowOperand integer(int64_t v) {
    WindowOperand o;
    o.cls = OperandClass::kScalar;
    o.scalar = ScalarValue::from_i64(v);
    return o;
  }
  static WindowOperand absent() { return {}; }

  // Appends an op as a binding would, after the check.
  uint32_t op(OpId id, const std::vector<WindowOperand>& inputs, const std::vector<View>& outputs,
              const std::vector<int64_t>& attrs = {}, DType compute = DType::kInvalid) {
    const Status s = try_op(id, inputs, outputs, attrs, compute);
    REQUIRE_MESSAGE(s.ok(), s.message());
    return static_cast<uint32_t>(w.ops.size() - 1);
  }
  // Leaves the window as it was where the check refuses.
  Status try_op(OpId id, const std::vector<WindowOperand>& inputs, const std::vector<View>& outputs,
                const std::vector<int64_t>& attrs = {}, DType compute = DType::kInvalid) {
    WindowOp o;
    o.id = id;
    o.compute = compute;
    o.input_count = static_cast<uint8_t>(inputs.size());
    o.output_count = static_cast<uint8_t>(outputs.size());
    o.attr_count = static_cast<uint8_t>(attrs.size());
    o.first_operand = static_cast<uint32_t>(w.operands.size());
    o.first_attr = static_cast<uint32_t>(w.attrs.size());
    o.sequence = w.ops.size();
    for (const WindowOperand& i : inputs) w.operands.push_back(i);
    for (const View& v : outputs) w.operands.push_back(operand(v));
    for (const int64_t a : attrs) w.attrs.push_back(a);
    w.ops.push_back(o);
    const auto index = static_cast<uint32_t>(w.ops.size() - 1);
    Status s = check_op(w, index, false);
    if (s.ok()) return s;
    w.operands.resize(o.first_operand);
    w.attrs.resize(o.first_attr);
    w.ops.pop_back();
    return s;
  }
  std::string key(std::string_view policy = "greedy") const {
    std::string k;
    append_window_key(w, policy, trn2(), &k);
    return k;
  }
};

struct RunResult {
  std::vector<uint8_t> errors;  // by window op
};

// Runs a plan on `memory`. `variant` < 0: the first whose guards hold; else that one where it
// exists, guards permitting.
inline RunResult run_plan(const Window& w, const WindowPlan& plan, Memory& memory,
                          int variant = -1) {
  RunResult result;
  result.errors.assign(w.ops.size(), 0);
  ThreadPool& pool = ThreadPool::process_pool();
  for (const PlannedLaunch& launch : plan.launches) {
    std::vector<ArgValue> row;
    for (const ArgBinding& b : launch.args) {
      ArgValue v;
      const BufferIndex buffer = bind_arg(w, b, &v);
      if (buffer >= 0) v.data = memory[buffer].data();
      row.push_back(v);
    }
    const Program* chosen = nullptr;
    std::shared_ptr<const Program> program;
    for (size_t i = 0; i < launch.programs.size(); ++i) {
      const Program& p = *launch.programs[i];
      std::vector<ArgValue> cells = row;
      cells.resize(p.args.size());
      std::vector<int64_t> slots(p.slots.size());
      evaluate_slots(p, cells.data(), slots.data());
      if (!guards_hold(p, slots.data())) continue;
      // Every program that may run fits the target and stays inside its buffers.
      const Status fit = check_fit(p, slots.data(), trn2());
      REQUIRE_MESSAGE(fit.ok(), fit.message() << "\n" << to_text(p));
      std::vector<ArgBounds> bounds(p.args.size());
      for (size_t a = 0; a < launch.args.size(); ++a) {
        ArgValue ignored;
        const BufferIndex buffer = bind_arg(w, launch.args[a], &ignored);
        if (buffer >= 0)
          bounds[a] = {row[a].offset_bytes, static_cast<int64_t>(memory[buffer].size())};
      }
      const Status inside = check_bounds(p, slots.data(), bounds.data());
      REQUIRE_MESSAGE(inside.ok(), inside.message() << "\n" << to_text(p));
      if (chosen && variant < static_cast<int>(i)) break;
      chosen = &p;
      program = launch.programs[i];
    }
    REQUIRE_MESSAGE(chosen, "no variant's guards hold");
    row.resize(chosen->args.size());
    auto prepared = PreparedProgram::prepare(program);
    REQUIRE_MESSAGE(prepared.ok(), prepared.status().message() << "\n" << to_text(*program));
    std::vector<uint8_t> errors(chosen->op_count, 0);
    const Status s = prepared.value()->run(row.data(), 1, pool, errors.data());
    REQUIRE_MESSAGE(s.ok(), s.message());
    for (size_t i = 0; i < launch.ops.size(); ++i) result.errors[launch.ops[i]] |= errors[i];
    for (const BufferIndex b : launch.release_after)
      std::fill(memory[b].begin(), memory[b].end(), uint8_t{0xcd});
  }
  return result;
}

inline std::shared_ptr<const WindowPlan> plan_or_fail(const Window& w, std::string_view policy) {
  auto plan = make_plan(w, policy, trn2());
  REQUIRE_MESSAGE(plan.ok(), plan.status().message());
  return plan.value();
}

// Elements of live buffers that differ, NaNs taken as equal.
inline bool same_bits(const View& v, const Memory& a, const Memory& b, std::string* where) {
  for (int64_t i = 0; i < numel(v); ++i) {
    const int64_t at = element_offset(v, i);
    const uint8_t *x = a[v.buffer].data() + at, *y = b[v.buffer].data() + at;
    if (std::memcmp(x, y, dtype_size(v.dtype)) == 0) continue;
    const double p = load_element(x, v.dtype), q = load_element(y, v.dtype);
    if (std::isnan(p) && std::isnan(q)) continue;
    *where = "buffer " + std::to_string(v.buffer) + " element " + std::to_string(i) + ": " +
             std::to_string(p) + " against " + std::to_string(q);
    return false;
  }
  return true;
}

}  // namespace nax::test
