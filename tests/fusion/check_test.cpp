// check_op: messages name what was found and what is allowed; shapes and dtypes inferred for C
// callers.
#include "tests/fusion/window_maker.h"

namespace nax::test {
namespace {

using M = WindowMaker;
constexpr DType kF32 = DType::kF32;

void expect_error(const Status& s, StatusCode code, std::initializer_list<const char*> parts) {
  REQUIRE(!s.ok());
  CHECK(s.code() == code);
  for (const char* part : parts)
    CHECK_MESSAGE(s.message().find(part) != std::string_view::npos,
                  s.message() << " lacks '" << part << "'");
}

TEST_CASE("wrong counts, shapes, dtypes and attributes are refused") {
  WindowMaker m;
  const View a = m.tensor(kF32, {3, 4}), b = m.tensor(kF32, {3, 5}), y = m.tensor(kF32, {3, 4}),
             c = m.tensor(DType::kC64, {3, 4}), i = m.tensor(DType::kI64, {3, 4}),
             z = m.tensor(kF32, {3, 0});
  const auto invalid = StatusCode::kInvalidArgument;
  expect_error(m.try_op(OpId::k_mul, {M::operand(a), M::operand(b)}, {y}, {}, kF32), invalid,
               {"mul", "[3, 5]", "[3, 4]", "broadcast"});
  expect_error(m.try_op(OpId::k_mul, {M::operand(a)}, {y}, {}, kF32), invalid,
               {"takes 2 inputs, found 1"});
  expect_error(m.try_op(OpId::k_exp, {M::scalar(1)}, {y}, {}, kF32), invalid,
               {"input 0 must be a tensor"});
  expect_error(m.try_op(OpId::k_exp, {M::operand(i)}, {i}, {}, DType::kI64), invalid,
               {"exp", "f32", "i64"});
  expect_error(m.try_op(OpId::k_exp, {M::operand(a)}, {b}, {}, kF32), invalid,
               {"output 0", "[3, 5]", "[3, 4]"});
  expect_error(
      m.try_op(OpId::k_add, {M::operand(c), M::operand(c), M::absent()}, {c}, {}, DType::kC64),
      invalid, {"c64"});
  expect_error(m.try_op(OpId::k_copy, {M::operand(c)}, {y}, {}, DType::kC64),
               StatusCode::kUnimplemented, {"c64", "f32"});
  expect_error(m.try_op(OpId::k_sum, {M::operand(a)}, {y}, {8, 0}, kF32), invalid, {"mask", "8"});
  expect_error(m.try_op(OpId::k_amax, {M::operand(z)}, {y}, {2, 0}, kF32), invalid,
               {"no elements", "[3, 0]"});
  expect_error(m.try_op(OpId::k_softmax, {M::operand(a)}, {y}, {2}, kF32), invalid,
               {"dimension 2", "0 to 1"});
  expect_error(m.try_op(OpId::k_mm, {M::operand(a), M::operand(b)}, {y}, {}, kF32), invalid,
               {"inner dimensions", "[3, 4]", "[3, 5]"});
  expect_error(
      m.try_op(OpId::k_where, {M::operand(a), M::operand(a), M::operand(a)}, {y}, {}, kF32),
      invalid, {"condition", "f32"});
  expect_error(m.try_op(OpId::k_gather, {M::operand(a), M::operand(a)}, {y}, {0}, kF32), invalid,
               {"index", "i64"});
  expect_error(m.try_op(OpId::k_argmax, {M::operand(a)}, {i}, {2, 1}, kF32),
               StatusCode::kUnimplemented, {"argmax", "softmax"});
  View broad = y;
  broad.strides[0] = 0;
  expect_error(m.try_op(OpId::k_exp, {M::operand(a)}, {broad}, {}, kF32), invalid, {"stride 0"});
  View shifted = a;
  shifted.offset_bytes = 4;
  shifted.sizes[0] = 2;
  View lower = a;
  lower.sizes[0] = 2;
  expect_error(m.try_op(OpId::k_neg, {M::operand(shifted)}, {lower}, {}, kF32),
               StatusCode::kUnimplemented, {"overlaps"});
  m.w.ops.push_back({});
  m.w.ops.back().id = static_cast<OpId>(999);
  expect_error(check_op(m.w, 0, false), invalid, {"999"});
}

struct Inferred {
  DType dtype;
  std::vector<int64_t> sizes;
};
Inferred infer(OpId id, const std::vector<WindowOperand>& inputs,
               const std::vector<int64_t>& attrs = {}, int outputs = 1, int which = 0) {
  Window w;
  WindowOp o;
  o.id = id;
  o.input_count = static_cast<uint8_t>(inputs.size());
  o.output_count = static_cast<uint8_t>(outputs);
  o.attr_count = static_cast<uint8_t>(attrs.size());
  w.ops.push_back(o);
  w.operands = inputs;
  w.operands.resize(inputs.size() + static_cast<size_t>(outputs));
  w.attrs = attrs;
  const Status s = check_op(w, 0, true);
  REQUIRE_MESSAGE(s.ok(), s.message());
  const View& v = w.output(w.ops[0], which).view;
  return {v.dtype, {v.sizes.begin(), v.sizes.begin() + v.rank}};
}

TEST_CASE("shapes and dtypes for C callers") {
  WindowMaker m;
  using S = std::vector<int64_t>;
  const auto t = [&](DType d, const S& s) { return M::operand(m.tensor(d, s)); };
  const auto check = [](const Inferred& r, DType d, const S& s) {
    CHECK(r.dtype == d);
    CHECK(r.sizes == s);
  };
  check(infer(OpId::k_add, {t(kF32, {3, 1}), t(DType::kBF16, {4}), M::absent()}), kF32, {3, 4});
  check(infer(OpId::k_mul, {t(DType::kI32, {2}), M::scalar(0.5)}), kF32, {2});
  check(infer(OpId::k_mul, {t(DType::kI32, {2}), M::integer(2)}), DType::kI32, {2});
  check(infer(OpId::k_lt, {t(kF32, {2, 2}), M::scalar(0)}), DType::kBool, {2, 2});
  check(infer(OpId::k_exp, {t(DType::kI64, {5})}), kF32, {5});
  check(infer(OpId::k_add, {t(DType::kF16, {5}), t(DType::kBF16, {5}), M::absent()}), kF32, {5});
  check(infer(OpId::k_sum, {t(DType::kBool, {2, 3, 4})}, {5, 0}), DType::kI64, {3});
  check(infer(OpId::k_mean, {t(DType::kBF16, {2, 3, 4})}, {2, 1}), DType::kBF16, {2, 1, 4});
  check(infer(OpId::k_any, {t(kF32, {2, 3})}, {3, 0}), DType::kBool, {});
  check(infer(OpId::k_softmax, {t(kF32, {2, 3})}, {0}), kF32, {2, 3});
  check(infer(OpId::k_layer_norm, {t(kF32, {2, 3, 4}), M::absent(), M::absent(), M::scalar(1e-5)},
              {2}, 3, 1),
        kF32, {2, 1, 1});
  check(infer(OpId::k_baddbmm,
              {t(kF32, {7}), t(kF32, {2, 3, 5}), t(kF32, {2, 5, 7}), M::absent(), M::absent()}),
        kF32, {2, 3, 7});
  check(infer(OpId::k_index_select, {t(kF32, {2, 3, 4}), t(DType::kI64, {9})}, {1}), kF32,
        {2, 9, 4});
  check(infer(OpId::k_gather, {t(kF32, {5, 6}), t(DType::kI64, {2, 6})}, {0}), kF32, {2, 6});
  check(infer(OpId::k_where, {t(DType::kBool, {3, 1}), t(kF32, {4}), M::scalar(0)}), kF32, {3, 4});
}

}  // namespace
}  // namespace nax::test
