// Random programs: strict, greedy and the op-by-op evaluation agree bit for bit, whatever is fused.
#include "tests/fusion/single.h"

namespace nax::test {
namespace {

using M = WindowMaker;

// A random program over a few shapes: chains, in-place ops, views, broadcasts, reductions, matmuls,
// dead temporaries.
class RandomProgram {
 public:
  RandomProgram(uint64_t seed, const std::vector<int64_t>& dims) : rng_(seed), dims_(dims) {}

  WindowMaker m;

  void run(int ops) {
    for (int i = 0; i < 4; ++i) input(shape());
    for (int i = 0; i < ops; ++i) step();
    // Most intermediates die before the cut.
    for (size_t b = 0; b < m.w.buffers.size(); ++b)
      if (m.w.buffers[b].born_here) m.w.buffers[b].live_out = pick(3) == 0;
  }

 private:
  int pick(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  template <class T>
  const T& any(const std::vector<T>& v) {
    return v[static_cast<size_t>(pick(static_cast<int>(v.size())))];
  }

  DType float_type() { return pick(4) == 0 ? DType::kBF16 : DType::kF32; }
  std::vector<int64_t> shape() {
    const int64_t a = dims_[0], b = dims_[1], c = dims_[2];
    switch (pick(7)) {
      case 0:
        return {a, b};
      case 1:
        return {c, a, b};
      case 2:
        return {c * a, b};
      case 3:
        return {b, a};
      case 4:
        return {b};
      case 5:
        return {a, 1};
      default:
        return {a, a};
    }
  }
  View input(const std::vector<int64_t>& s) {
    const View v = m.tensor(float_type(), s);
    m.fill_random(v, rng_());
    tensors_.push_back(v);
    return v;
  }
  View fresh(DType t, const std::vector<int64_t>& s) { return m.tensor(t, s, true, true); }

  static std::vector<int64_t> sizes(const View& v) {
    return {v.sizes.begin(), v.sizes.begin() + v.rank};
  }

  // Other views of known tensors.
  View some_view() {
    View v = any(tensors_);
    switch (pick(8)) {
      case 0:  // transpose
        if (v.rank >= 2) {
          std::swap(v.sizes[v.rank - 1], v.sizes[v.rank - 2]);
          std::swap(v.strides[v.rank - 1], v.strides[v.rank - 2]);
        }
        break;
      case 1:  // half of the last dim
        if (v.rank >= 1 && v.sizes[v.rank - 1] >= 2) {
          const int64_t half = v.sizes[v.rank - 1] / 2;
          if (pick(2))
            v.offset_bytes +=
                half * v.strides[v.rank - 1] * static_cast<int64_t>(dtype_size(v.dtype));
          v.sizes[v.rank - 1] = half;
        }
        break;
      case 2:  // a leading dim merged away, where contiguous
        if (v.rank == 3 && v.strides[0] == v.strides[1] * v.sizes[1]) {
          v.sizes = {v.sizes[0] * v.sizes[1], v.sizes[2]};
          v.strides = {v.strides[1], v.strides[2]};
          v.rank = 2;
        }
        break;
      default:
        break;
    }
    return v;
  }
  // A tensor that broadcasts to `s`, if there is one.
  bool broadcastable(const std::vector<int64_t>& s, View* out) {
    for (int tries = 0; tries < 20; ++tries) {
      const View v = some_view();
      bool ok = v.rank <= static_cast<int>(s.size());
      for (int d = 0; ok && d < v.rank; ++d) {
        const int64_t n = v.sizes[v.rank - 1 - d];
        ok = n == 1 || n == s[s.size() - 1 - static_cast<size_t>(d)];
      }
      if (ok) return *out = v, true;
    }
    return false;
  }

  // Ops whose output overlaps an input in memory are the binding's to refuse.
  void append(OpId id, const std::vector<WindowOperand>& in, const std::vector<View>& out,
              const std::vector<int64_t>& attrs, DType t) {
    const Status s = m.try_op(id, in, out, attrs, t);
    if (!s.ok())
      REQUIRE_MESSAGE(s.message().find("overlaps") != std::string_view::npos, s.message());
  }

  void step() {
    const View x = some_view();
    const std::vector<int64_t> s = sizes(x);
    switch (pick(10)) {
      case 0:
      case 1: {  // unary
        const OpId ops[] = {OpId::k_neg, OpId::k_tanh,   OpId::k_sigmoid, OpId::k_silu,
                            OpId::k_abs, OpId::k_square, OpId::k_copy};
        const OpId id = ops[pick(7)];
        const bool in_place = pick(4) == 0;
        const View y =
            in_place ? x : fresh(id == OpId::k_copy && pick(2) ? DType::kBF16 : x.dtype, s);
        append(id, {M::operand(x)}, {y}, {}, x.dtype);
        if (!in_place) tensors_.push_back(y);
        break;
      }
      case 2:
      case 3:
      case 4: {  // binary, maybe in place, maybe with a scalar
        const OpId ops[] = {OpId::k_add, OpId::k_sub, OpId::k_mul, OpId::k_maximum};
        const OpId id = ops[pick(4)];
        View z;
        WindowOperand other = M::scalar(0.5);
        DType t = x.dtype;
        if (pick(4) && broadcastable(s, &z)) {
          other = M::operand(z);
          if (z.dtype != x.dtype) t = DType::kF32;
        }
        const bool in_place = pick(3) == 0;
        const View y = in_place ? x : fresh(t, s);
        std::vector<WindowOperand> in = {M::operand(x), other};
        if (id == OpId::k_add || id == OpId::k_sub)
          in.push_back(pick(2) ? M::absent() : M::scalar(0.25));
        append(id, in, {y}, {}, t);
        if (!in_place) tensors_.push_back(y);
        break;
      }
      case 5: {  // reduction, kept dims half of the time
        if (x.rank == 0) return;
        const OpId ops[] = {OpId::k_sum, OpId::k_mean, OpId::k_amax};
        const int64_t mask = pick(3) ? int64_t{1} << (x.rank - 1) : 1 + pick((1 << x.rank) - 1);
        const int64_t keep = pick(3) > 0;
        std::vector<int64_t> out;
        for (int d = 0; d < x.rank; ++d) {
          if (!(mask >> d & 1))
            out.push_back(s[static_cast<size_t>(d)]);
          else if (keep)
            out.push_back(1);
        }
        const View y = fresh(x.dtype, out);
        append(ops[pick(3)], {M::operand(x)}, {y}, {mask, keep}, x.dtype);
        tensors_.push_back(y);
        break;
      }
      case 6: {
        if (x.rank == 0) return;
        const View y = pick(3) == 0 ? x : fresh(x.dtype, s);
        append(OpId::k_softmax, {M::operand(x)}, {y}, {pick(3) ? x.rank - 1 : pick(x.rank)},
               x.dtype);
        tensors_.push_back(y);
        break;
      }
      case 7: {  // layer norm without weights
        if (x.rank == 0) return;
        std::vector<int64_t> stat = s;
        stat.back() = 1;
        const View y = fresh(x.dtype, s), mean = fresh(DType::kF32, stat),
                   rstd = fresh(DType::kF32, stat);
        append(OpId::k_layer_norm, {M::operand(x), M::absent(), M::absent(), M::scalar(1e-3)},
               {y, mean, rstd}, {1}, x.dtype);
        tensors_.push_back(y);
        tensors_.push_back(rstd);
        break;
      }
      case 8: {  // matmul
        if (x.rank != 2) return;
        for (int tries = 0; tries < 20; ++tries) {
          const View z = some_view();
          if (z.rank != 2 || z.sizes[0] != x.sizes[1] || z.dtype != x.dtype) continue;
          const View y = fresh(x.dtype, {x.sizes[0], z.sizes[1]});
          append(OpId::k_mm, {M::operand(x), M::operand(z)}, {y}, {}, x.dtype);
          tensors_.push_back(y);
          break;
        }
        break;
      }
      default: {  // index into rows
        if (x.rank != 2) return;
        const View index = m.tensor(DType::kI64, {dims_[1]});
        for (int64_t i = 0; i < numel(index); ++i)
          m.set(index, i, pick(static_cast<int>(x.sizes[0])));
        const View y = fresh(x.dtype, {dims_[1], x.sizes[1]});
        append(OpId::k_index_select, {M::operand(x), M::operand(index)}, {y}, {0}, x.dtype);
        tensors_.push_back(y);
      }
    }
  }

  std::mt19937_64 rng_;
  std::vector<int64_t> dims_;
  std::vector<View> tensors_;
};

// All elements of buffers that outlive the window.
void compare_live(const Window& w, const Memory& a, const Memory& b, const std::string& label) {
  for (size_t i = 0; i < w.buffers.size(); ++i) {
    if (!w.buffers[i].live_out) continue;
    // By the views that the window has of the buffer, so that NaNs compare equal.
    for (const WindowOp& op : w.ops)
      for (int k = 0; k < op.input_count + op.output_count; ++k) {
        const WindowOperand& o = w.operands[op.first_operand + static_cast<uint32_t>(k)];
        if (o.cls != OperandClass::kTensor || o.view.buffer != static_cast<BufferIndex>(i))
          continue;
        std::string where;
        if (!same_bits(o.view, a, b, &where)) FAIL(label << ": " << where);
      }
  }
}

TEST_CASE("random programs give the same bits under every policy and variant") {
  uint32_t fused = 0, dead = 0, launches = 0, ops = 0, rejected = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 rng(seed * 7919 + 1);
    const std::vector<int64_t> dims = {static_cast<int64_t>(1 + rng() % 9),
                                       static_cast<int64_t>(1 + rng() % 40),
                                       static_cast<int64_t>(1 + rng() % 3)};
    RandomProgram p(seed, dims);
    p.run(5 + static_cast<int>(seed % 40));
    const Window& w = p.m.w;
    const auto strict = plan_or_fail(w, "strict"), greedy = plan_or_fail(w, "greedy");
    CHECK(strict->rejected == nullptr);
    // A matmul whose rows another op splits without a common stride is found out only when it is
    // lowered.
    rejected += greedy->rejected != nullptr;
    Memory a = p.m.memory, b = p.m.memory, c = p.m.memory;
    run_plan(w, *strict, a);
    run_plan(w, *greedy, b);
    run_plan(w, *greedy, c, 3);
    compare_live(w, a, b, "greedy against strict, seed " + std::to_string(seed));
    compare_live(w, a, c, "last variants against strict, seed " + std::to_string(seed));
    launches += static_cast<uint32_t>(greedy->launches.size());
    ops += static_cast<uint32_t>(w.ops.size());
    dead += greedy->dead_temporaries;
    for (const FusionDecision& d : greedy->decisions) fused += *d.reason == '\0';
  }
  MESSAGE("seeds 0 to 399: " << ops << " ops, " << launches << " launches, " << fused << " joined, "
                             << dead << " dead temporaries");
  CHECK(launches < ops);
  CHECK(dead > 0);
  CHECK(rejected <= 4);
}

TEST_CASE("each op of a random program is right by itself") {
  for (uint64_t seed = 1000; seed < 1100; ++seed) {
    CAPTURE(seed);
    RandomProgram p(seed, {5, 12, 2});
    p.run(25);
    // One op at a time on the memory that the ops before it left.
    Memory memory = p.m.memory;
    for (uint32_t i = 0; i < p.m.w.ops.size(); ++i) {
      Window one = p.m.w;
      one.ops = {p.m.w.ops[i]};
      for (WindowBuffer& b : one.buffers) b = {true, false, b.bytes};
      Memory by_hand = memory;
      REQUIRE(Naive(one, 0, by_hand).run());
      run_plan(one, *plan_or_fail(one, "strict"), memory);
      for (int o = 0; o < one.ops[0].output_count; ++o) {
        const View& y = one.output(one.ops[0], o).view;
        for (int64_t e = 0; e < numel(y); ++e) {
          const double got = load_element(memory[y.buffer].data() + element_offset(y, e), y.dtype);
          const double want =
              load_element(by_hand[y.buffer].data() + element_offset(y, e), y.dtype);
          const bool ok =
              got == want || (std::isnan(got) && std::isnan(want)) ||
              std::fabs(got - want) <=
                  40 *
                      tolerance_of(one.ops[0].compute == DType::kBF16 || y.dtype == DType::kBF16
                                       ? DType::kBF16
                                       : DType::kF32) *
                      std::max(1.0, std::fabs(want));
          if (!ok)
            FAIL("seed " << seed << " op " << i << " " << op_info(one.ops[0].id)->name << ": "
                         << got << ", must be " << want);
        }
      }
    }
  }
}

// Equal keys must be servable by one plan: the same program with other sizes, offsets, strides and
// scalars.
TEST_CASE("windows with equal keys are served by one plan") {
  int equal = 0, tried = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    // Dims that keep the pattern: distinct, above 1, no accidental equal products.
    RandomProgram a(seed, {5, 14, 3}), b(seed, {7, 22, 4});
    a.run(4 + static_cast<int>(seed % 25));
    b.run(4 + static_cast<int>(seed % 25));
    // Other offsets and scalars.
    for (WindowOperand& o : b.m.w.operands) {
      if (o.cls == OperandClass::kScalar) o.scalar = ScalarValue::from_f64(o.scalar.to_f64() * 1.5);
      if (o.cls == OperandClass::kTensor) o.view.offset_bytes += 64;
    }
    for (auto& bytes : b.m.memory) bytes.insert(bytes.begin(), 64, uint8_t{0});
    ++tried;
    if (a.m.key() != b.m.key()) continue;
    ++equal;
    const auto plan = plan_or_fail(a.m.w, "greedy");
    const auto own = plan_or_fail(b.m.w, "strict");
    Memory x = b.m.memory, y = b.m.memory;
    run_plan(b.m.w, *plan, x);
    run_plan(b.m.w, *own, y);
    compare_live(b.m.w, x, y, "a plan of other sizes, seed " + std::to_string(seed));
  }
  MESSAGE(equal << " of " << tried << " pairs have equal keys");
  CHECK(equal > 100);
}

}  // namespace
}  // namespace nax::test
