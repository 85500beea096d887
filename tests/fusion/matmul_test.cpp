#include "tests/fusion/single.h"

namespace nax::test {
namespace {

using M = WindowMaker;

View transposed(M& m, DType t, int64_t rows, int64_t columns, bool swap, int64_t batch = 0) {
  std::vector<int64_t> sizes =
      swap ? std::vector<int64_t>{columns, rows} : std::vector<int64_t>{rows, columns};
  if (batch) sizes.insert(sizes.begin(), batch);
  View v = m.tensor(t, sizes);
  if (swap) {
    std::swap(v.sizes[v.rank - 1], v.sizes[v.rank - 2]);
    std::swap(v.strides[v.rank - 1], v.strides[v.rank - 2]);
  }
  return v;
}

TEST_CASE("mm, bmm, addmm, baddbmm with every transpose, small and odd sizes, dtypes") {
  struct Size {
    int64_t m, n, k;
  };
  for (const Size s : {Size{5, 7, 3}, {1, 9, 4}, {6, 1, 4}, {33, 65, 130}, {4, 4, 0}, {1, 1, 1}})
    for (const DType t :
         {DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI64, DType::kI32})
      for (int swaps = 0; swaps < 4; ++swaps)
        for (int form = 0; form < 6; ++form) {
          if (t != DType::kF32 && swaps % 2 != form % 2) continue;
          const int64_t batch = form % 2 ? 3 : 0;
          WindowMaker m;
          const View a = transposed(m, t, s.m, s.k, swaps & 1, batch),
                     b = transposed(m, t, s.k, s.n, swaps & 2, batch);
          m.fill_random(a, 1);
          m.fill_random(b, 2);
          std::vector<int64_t> out = {s.m, s.n};
          if (batch) out.insert(out.begin(), batch);
          const View y = m.result(t, out);
          const View c = form < 4 ? m.tensor(t, {s.n}) : m.tensor(t, out);
          m.fill_random(c, 3);
          const auto beta =
              form >= 4 ? (is_floating(t) ? M::scalar(0.5) : M::integer(2)) : M::absent();
          const auto alpha =
              form >= 4 ? (is_floating(t) ? M::scalar(2) : M::integer(3)) : M::absent();
          if (form < 2)
            m.op(batch ? OpId::k_bmm : OpId::k_mm, {M::operand(a), M::operand(b)}, {y}, {}, t);
          else
            m.op(batch ? OpId::k_baddbmm : OpId::k_addmm,
                 {M::operand(c), M::operand(a), M::operand(b), beta, alpha}, {y}, {}, t);
          check_single(m, is_floating(t) ? 20 * tolerance_of(t) : 0,
                       std::string(dtype_name(t)) + " form " + std::to_string(form) + " swaps " +
                           std::to_string(swaps));
        }
}

}  // namespace
}  // namespace nax::test
