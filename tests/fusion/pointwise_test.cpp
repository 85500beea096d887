#include "tests/fusion/single.h"

namespace nax::test {
namespace {

TEST_CASE("add: same shape, broadcast, strided, in place, scalar, alpha") {
  using M = WindowMaker;
  for (const DType t :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI32, DType::kI64}) {
    const double tol = is_floating(t) ? tolerance_of(t) : 0;
    for (int form = 0; form < 8; ++form) {
      CAPTURE(form);
      WindowMaker m;
      View a = m.tensor(t, {7, 300}), b = m.tensor(t, form == 1   ? std::vector<int64_t>{300}
                                                      : form == 2 ? std::vector<int64_t>{7, 1}
                                                                  : std::vector<int64_t>{7, 300});
      m.fill_random(a, 1);
      m.fill_random(b, 2);
      View out = m.result(t, {7, 300});
      WindowOperand other = M::operand(b), alpha = M::absent();
      if (form == 3) {  // transposed
        View c = m.tensor(t, {300, 7});
        m.fill_random(c, 3);
        std::swap(c.sizes[0], c.sizes[1]);
        std::swap(c.strides[0], c.strides[1]);
        other = M::operand(c);
      }
      if (form == 4) out = a;
      if (form == 5) other = M::scalar(3);
      if (form == 6) alpha = M::scalar(2);
      if (form == 7) {  // a slice with a step, read backwards
        View c = m.tensor(t, {7, 601});
        m.fill_random(c, 4);
        c.sizes[1] = 300;
        c.offset_bytes += 599 * static_cast<int64_t>(dtype_size(t));
        c.strides[1] = -2;
        other = M::operand(c);
      }
      m.op(OpId::k_add, {M::operand(a), other, alpha}, {out}, {}, t);
      check_single(m, tol, "form " + std::to_string(form));
    }
  }
}

TEST_CASE("every pointwise function, by dtype") {
  using M = WindowMaker;
  for (int id = 1; id < 170; ++id) {
    const OpInfo* info = op_info(static_cast<OpId>(id));
    if (!info || info->kind != OpKind::kPointwise || info->shape == ShapeRule::kGiven ||
        !info->expand)
      continue;
    if (info->id == OpId::k_shift_left || info->id == OpId::k_shift_right) continue;
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF64, DType::kI64, DType::kI32,
                          DType::kU8, DType::kBool}) {
      const uint8_t cls = is_floating(t)      ? kComputeFloat
                          : t == DType::kBool ? kComputeBool
                                              : kComputeInt;
      if (!(info->compute & cls)) continue;
      if (info->id == OpId::k_pow && !is_floating(t)) continue;
      WindowMaker m;
      const bool square = info->shape == ShapeRule::kSame;
      const std::vector<int64_t> shape =
          square ? std::vector<int64_t>{3, 20, 17} : std::vector<int64_t>{20, 51};
      const bool positive =
          info->name.starts_with("log") || info->name.find("sqrt") != std::string_view::npos ||
          info->id == OpId::k_pow || t == DType::kU8 || info->name.starts_with("div") ||
          info->name == "remainder" || info->name == "fmod" || info->name == "addcdiv";
      std::vector<WindowOperand> inputs;
      for (int i = 0; i < info->max_inputs; ++i) {
        const bool mask =
            (info->id == OpId::k_where && i == 0) || (info->id == OpId::k_masked_fill && i == 1);
        View v = m.tensor(mask ? DType::kBool : t, shape);
        m.fill_random(v, static_cast<uint64_t>(id * 10 + i), positive ? 0.3 : -1.5, 1.9);
        // The last operand of expressions that take scalars.
        const bool scalar = !(info->tensors >> i & 1) && i >= 2;
        inputs.push_back(
            scalar ? (is_floating(t) ? M::scalar(0.75) : M::integer(t == DType::kBool ? 1 : 2))
                   : M::operand(v));
      }
      if (info->id == OpId::k_softplus) inputs[1] = M::scalar(1.5), inputs[2] = M::scalar(1.0);
      const View out = m.result(info->dtype == DTypeRule::kBool ? DType::kBool : t, shape);
      std::vector<int64_t> attrs;
      if (square) attrs.push_back(-1);
      m.op(info->id, inputs, {out}, attrs, t);
      check_single(m, is_floating(t) ? 2 * tolerance_of(t) : 0, std::string(dtype_name(t)));
    }
  }
}

TEST_CASE("copies convert between all dtypes, fills and arange") {
  using M = WindowMaker;
  const DType all[] = {DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
                       DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  for (const DType from : all)
    for (const DType to : all) {
      WindowMaker m;
      const View x = m.tensor(from, {5, 33}), y = m.result(to, {5, 33});
      m.fill_random(x, 5, 0, 9);
      m.op(OpId::k_copy, {M::operand(x)}, {y}, {}, from);
      check_single(m, 0, std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
    }
  for (const DType t : all) {
    WindowMaker m;
    const View y = m.result(t, {4000});
    m.op(OpId::k_fill, {M::scalar(1)}, {y}, {}, t);
    check_single(m, 0);
    if (t == DType::kBool) continue;
    WindowMaker n;
    const View z = n.result(t, {100});
    n.op(OpId::k_arange,
         {is_floating(t) ? M::scalar(0.5) : M::integer(3),
          is_floating(t) ? M::scalar(0.25) : M::integer(1)},
         {z}, {}, t);
    check_single(n, 0);
  }
  // Storage-only dtypes move as they are.
  WindowMaker m;
  const View x = m.tensor(DType::kC64, {3, 5}), y = m.result(DType::kC64, {3, 5});
  for (size_t i = 0; i < m.memory[0].size(); ++i) m.memory[0][i] = static_cast<uint8_t>(i * 7);
  m.op(OpId::k_copy, {M::operand(x)}, {y}, {}, DType::kC64);
  Memory memory = m.memory;
  run_plan(m.w, *plan_or_fail(m.w, "greedy"), memory);
  CHECK(memory[1] == m.memory[0]);
}

TEST_CASE("ranks 0 to 6, sizes 0 and 1") {
  using M = WindowMaker;
  const std::vector<std::vector<int64_t>> shapes = {{},
                                                    {1},
                                                    {0},
                                                    {3, 0, 2},
                                                    {1, 1},
                                                    {2, 1, 3},
                                                    {2, 3, 1, 2},
                                                    {2, 3, 2, 2, 3},
                                                    {2, 1, 3, 2, 2, 3}};
  for (const auto& shape : shapes) {
    WindowMaker m;
    const View a = m.tensor(DType::kF32, shape), b = m.tensor(DType::kF32, shape),
               y = m.result(DType::kF32, shape);
    m.fill_random(a, 1);
    m.fill_random(b, 2);
    m.op(OpId::k_mul, {M::operand(a), M::operand(b)}, {y}, {}, DType::kF32);
    if (numel(y) == 0) {
      CHECK(plan_or_fail(m.w, "greedy")->launches.empty());
      continue;
    }
    check_single(m, 0);
  }
}

TEST_CASE("integer division by zero sets the op's error bit") {
  using M = WindowMaker;
  WindowMaker m;
  const View a = m.tensor(DType::kI32, {10}), b = m.tensor(DType::kI32, {10}),
             y = m.result(DType::kI32, {10}), z = m.result(DType::kI32, {10});
  m.fill_random(a, 1);
  for (int i = 0; i < 10; ++i) m.set(b, i, i == 7 ? 0 : 3);
  m.op(OpId::k_add, {M::operand(a), M::operand(b), M::absent()}, {y}, {}, DType::kI32);
  m.op(OpId::k_div_floor, {M::operand(y), M::operand(b)}, {z}, {}, DType::kI32);
  const RunResult r = run_plan(m.w, *plan_or_fail(m.w, "greedy"), m.memory);
  CHECK(r.errors[0] == 0);
  CHECK(r.errors[1] == kOpIntegerDivideByZero);
}

}  // namespace
}  // namespace nax::test
