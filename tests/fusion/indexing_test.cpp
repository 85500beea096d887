#include "tests/fusion/single.h"

namespace nax::test {
namespace {

using M = WindowMaker;

void fill_index(M& m, const View& v, int64_t limit, uint64_t seed) {
  std::mt19937_64 rng(seed);
  for (int64_t i = 0; i < numel(v); ++i)
    m.set(v, i,
          static_cast<double>(static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * limit)) -
                              limit));
}

TEST_CASE(
    "index_select, gather, scatter_add, index_add along any dim, with duplicates and negative "
    "indices") {
  const std::vector<int64_t> shape = {5, 4, 6};
  for (const DType t : {DType::kF32, DType::kI64, DType::kBF16})
    for (const DType it : {DType::kI64, DType::kI32})
      for (int dim = 0; dim < 3; ++dim)
        for (int form = 0; form < 4; ++form) {
          WindowMaker m;
          const View x = m.tensor(t, shape);
          m.fill_random(x, 1);
          std::vector<int64_t> space = shape;
          space[dim] = 9;
          if (form == 1 || form == 2)
            for (int d = 0; d < 3; ++d)
              if (d != dim) space[d] -= 1;  // an index smaller than the input
          const View index = m.tensor(it, form == 0 || form == 3 ? std::vector<int64_t>{9} : space);
          fill_index(m, index, shape[dim], 7);
          const View source = m.tensor(t, space);
          m.fill_random(source, 2);
          if (form == 0)
            m.op(OpId::k_index_select, {M::operand(x), M::operand(index)}, {m.result(t, space)},
                 {dim}, t);
          if (form == 1)
            m.op(OpId::k_gather, {M::operand(x), M::operand(index)}, {m.result(t, space)}, {dim},
                 t);
          if (form == 2)
            m.op(OpId::k_scatter_add, {M::operand(x), M::operand(index), M::operand(source)}, {x},
                 {dim}, t);
          if (form == 3)
            m.op(OpId::k_index_add,
                 {M::operand(x), M::operand(index), M::operand(source),
                  is_floating(t) ? M::scalar(2) : M::integer(2)},
                 {x}, {dim}, t);
          check_single(m, is_floating(t) ? tolerance_of(t) : 0,
                       "dim " + std::to_string(dim) + " form " + std::to_string(form));
        }
  for (int form = 0; form < 4; ++form) {  // one dim
    WindowMaker m;
    const View x = m.tensor(DType::kF32, {50}), index = m.tensor(DType::kI64, {3000}),
               source = m.tensor(DType::kF32, {3000});
    m.fill_random(x, 1);
    m.fill_random(source, 2);
    fill_index(m, index, 50, 3);
    const View y = m.result(DType::kF32, {3000});
    if (form == 0)
      m.op(OpId::k_index_select, {M::operand(x), M::operand(index)}, {y}, {0}, DType::kF32);
    if (form == 1) m.op(OpId::k_gather, {M::operand(x), M::operand(index)}, {y}, {0}, DType::kF32);
    if (form == 2)
      m.op(OpId::k_scatter_add, {M::operand(x), M::operand(index), M::operand(source)}, {x}, {0},
           DType::kF32);
    if (form == 3)
      m.op(OpId::k_index_add, {M::operand(x), M::operand(index), M::operand(source), M::absent()},
           {x}, {0}, DType::kF32);
    check_single(m, 1e-4, "one dim, form " + std::to_string(form));
  }
}

TEST_CASE("many duplicates keep program order on every thread") {
  for (const bool rows : {false, true}) {
    WindowMaker m;
    const std::vector<int64_t> space =
        rows ? std::vector<int64_t>{20000, 48} : std::vector<int64_t>{900000};
    const View x = m.tensor(DType::kF32,
                            rows ? std::vector<int64_t>{7, 48} : std::vector<int64_t>{7}),
               source = m.tensor(DType::kF32, space);
    const View index = m.tensor(DType::kI64, {space[0]});
    m.fill_random(source, 2);
    fill_index(m, index, 7, 3);
    m.op(OpId::k_index_add, {M::operand(x), M::operand(index), M::operand(source), M::absent()},
         {x}, {0}, DType::kF32);
    for (int64_t i = 0; i < numel(x); ++i) m.set(x, i, 0);
    Memory want = m.memory, got = m.memory;
    const int64_t width = rows ? 48 : 1;
    for (int64_t i = 0; i < space[0]; ++i)  // in f32, ascending
      for (int64_t c = 0; c < width; ++c) {
        auto row = static_cast<int64_t>(m.get(index, i));
        if (row < 0) row += 7;
        uint8_t* p = want[x.buffer].data() + (row * width + c) * 4;
        store_element(p, DType::kF32,
                      static_cast<float>(load_element(p, DType::kF32)) +
                          static_cast<float>(m.get(source, i * width + c)));
      }
    run_plan(m.w, *plan_or_fail(m.w, "greedy"), got);
    CHECK(got[x.buffer] == want[x.buffer]);
  }
}

TEST_CASE("an index out of range sets the op's error bit") {
  WindowMaker m;
  const View x = m.tensor(DType::kF32, {5, 4}), index = m.tensor(DType::kI64, {3}),
             y = m.result(DType::kF32, {3, 4});
  m.fill_random(x, 1);
  m.set(index, 0, 0);
  m.set(index, 1, 5);
  m.set(index, 2, -5);
  m.op(OpId::k_index_select, {M::operand(x), M::operand(index)}, {y}, {0}, DType::kF32);
  CHECK(run_plan(m.w, *plan_or_fail(m.w, "greedy"), m.memory).errors[0] == kOpIndexOutOfRange);
}

}  // namespace
}  // namespace nax::test
