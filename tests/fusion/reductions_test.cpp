#include "tests/fusion/single.h"

namespace nax::test {
namespace {

using M = WindowMaker;

// A view of `shape` whose memory is laid out in the order of `perm` (outer first), with a gap after
// each innermost row.
View permuted(M& m, DType t, const std::vector<int64_t>& shape, const std::vector<int>& perm,
              int64_t gap) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = perm.size(); i-- > 0;) {
    strides[perm[i]] = step;
    step *= shape[perm[i]];
    if (i + 1 == perm.size()) step += gap;
  }
  View v = M::contiguous(m.buffer(step * static_cast<int64_t>(dtype_size(t)) + 64), t, shape);
  for (size_t i = 0; i < strides.size(); ++i) v.strides[i] = strides[i];
  return v;
}

TEST_CASE("reductions over every set of dims, layouts and dtypes") {
  const OpId ops[] = {OpId::k_sum, OpId::k_mean, OpId::k_amax,  OpId::k_amin, OpId::k_prod,
                      OpId::k_any, OpId::k_all,  OpId::k_norm2, OpId::k_var,  OpId::k_logsumexp};
  const std::vector<int64_t> shape = {3, 5, 4};
  for (const OpId id : ops)
    for (const DType t :
         {DType::kF32, DType::kBF16, DType::kF64, DType::kI64, DType::kI32, DType::kBool}) {
      const OpInfo& info = *op_info(id);
      const uint8_t cls = is_floating(t)      ? kComputeFloat
                          : t == DType::kBool ? kComputeBool
                                              : kComputeInt;
      if (!(info.compute & cls) && !(id == OpId::k_sum && !is_floating(t))) continue;
      for (int mask = 0; mask < 8; ++mask)
        for (int layout = 0; layout < 3; ++layout)
          for (int keep = 0; keep < 2; ++keep) {
            if (t != DType::kF32 && (layout != 1 || keep)) continue;
            WindowMaker m;
            const View x = layout == 0   ? m.tensor(t, shape)
                           : layout == 1 ? permuted(m, t, shape, {2, 0, 1}, 3)
                                         : permuted(m, t, shape, {1, 0, 2}, 0);
            m.fill_random(x, static_cast<uint64_t>(mask),
                          id == OpId::k_prod ? (is_floating(t) ? 0.5 : 0.25) : -2,
                          id == OpId::k_prod && !is_floating(t) ? 0.7 : 2);
            std::vector<int64_t> out;
            for (int d = 0; d < 3; ++d) {
              if (!(mask >> d & 1))
                out.push_back(shape[d]);
              else if (keep)
                out.push_back(1);
            }
            const bool logical = info.dtype == DTypeRule::kBool;
            const DType compute = logical ? DType::kBool
                                  : (id == OpId::k_sum || id == OpId::k_prod) && !is_floating(t)
                                      ? DType::kI64
                                      : t;
            const View y = m.result(logical ? DType::kBool : compute, out);
            std::vector<WindowOperand> inputs = {M::operand(x)};
            if (id == OpId::k_var) inputs.push_back(M::scalar(1));
            m.op(id, inputs, {y}, {mask, keep}, compute);
            check_single(m, is_floating(t) ? 2 * tolerance_of(t) : 0,
                         "mask " + std::to_string(mask) + " layout " + std::to_string(layout) +
                             " " + std::string(dtype_name(t)));
          }
    }
}

TEST_CASE("long rows and columns, in one piece and in blocks") {
  struct Case {
    std::vector<int64_t> shape;
    int64_t mask;
  };
  const Case cases[] = {{{150000}, 1},         {{3, 70000}, 2},    {{70000, 3}, 1},
                        {{2, 66000, 2}, 2},    {{300, 2, 300}, 5}, {{400, 500}, 3},
                        {{1000, 3, 100, 2}, 5}};
  for (const Case& c : cases) {
    CAPTURE(c.shape.size());
    WindowMaker m;
    const View x = m.tensor(DType::kF32, c.shape);
    m.fill_random(x, 9, -1, 1);
    std::vector<int64_t> out;
    for (size_t d = 0; d < c.shape.size(); ++d)
      if (!(c.mask >> d & 1)) out.push_back(c.shape[d]);
    const View y = m.result(DType::kF32, out);
    m.op(OpId::k_sum, {M::operand(x)}, {y}, {c.mask, 0}, DType::kF32);
    check_single(m, 2e-4);
  }
}

// The order of DESIGN I2, by hand.
float row_sum(const std::vector<float>& v) {
  std::vector<float> blocks;
  for (size_t b = 0; b < v.size() || b == 0; b += 65536) {
    float total = 0;
    for (size_t c = b; c < std::min(v.size(), b + 65536); c += 512) {
      float lanes[16] = {};
      for (size_t i = c; i < std::min({v.size(), b + 65536, c + 512}); ++i)
        lanes[(i - c) % 16] += v[i];
      for (int w = 8; w >= 1; w /= 2)
        for (int l = 0; l < w; ++l) lanes[l] += lanes[l + w];
      total += lanes[0];
    }
    blocks.push_back(total);
  }
  while (blocks.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i < blocks.size(); i += 2)
      next.push_back(i + 1 < blocks.size() ? blocks[i] + blocks[i + 1] : blocks[i]);
    blocks = next;
  }
  return blocks[0];
}
float column_sum(const std::vector<float>& v) {
  std::vector<float> blocks;
  for (size_t b = 0; b < v.size(); b += 65536) {
    float total = 0;
    for (size_t c = b; c < std::min(v.size(), b + 65536); c += 128) {
      float chunk = 0;
      for (size_t i = c; i < std::min({v.size(), b + 65536, c + 128}); ++i) chunk += v[i];
      total += chunk;
    }
    blocks.push_back(total);
  }
  while (blocks.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i < blocks.size(); i += 2)
      next.push_back(i + 1 < blocks.size() ? blocks[i] + blocks[i + 1] : blocks[i]);
    blocks = next;
  }
  return blocks[0];
}

TEST_CASE("sums have the fixed order, bit for bit, in every variant") {
  for (const int64_t n : {1, 15, 512, 700, 5000, 65536, 65537, 200000})
    for (const bool column : {false, true})
      for (const int variant : {-1, 3}) {
        WindowMaker m;
        const View x =
            m.tensor(DType::kF32, column ? std::vector<int64_t>{n, 3} : std::vector<int64_t>{3, n});
        m.fill_random(x, static_cast<uint64_t>(n));
        const View y = m.result(DType::kF32, {3});
        m.op(OpId::k_sum, {M::operand(x)}, {y}, {column ? 1 : 2, 0}, DType::kF32);
        run_plan(m.w, *plan_or_fail(m.w, "strict"), m.memory, variant);
        for (int r = 0; r < 3; ++r) {
          std::vector<float> v;
          for (int64_t i = 0; i < n; ++i)
            v.push_back(static_cast<float>(m.get(x, column ? i * 3 + r : r * n + i)));
          // One row of a column rule is the last dim of size other than 1: the row rule.
          CHECK_MESSAGE(m.get(y, r) == (column ? column_sum(v) : row_sum(v)),
                        "n " << n << " column " << column << " variant " << variant);
        }
      }
}

TEST_CASE("softmax, norms and their backwards along any dim") {
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF64}) {
    const double tol = 3 * tolerance_of(t);
    for (int dim = 0; dim < 3; ++dim)
      for (const OpId id : {OpId::k_softmax, OpId::k_log_softmax, OpId::k_softmax_backward,
                            OpId::k_log_softmax_backward}) {
        WindowMaker m;
        const View x = permuted(m, t, {4, 9, 6}, {1, 0, 2}, 2), u = m.tensor(t, {4, 9, 6}),
                   y = m.result(t, {4, 9, 6});
        m.fill_random(x, 1);
        m.fill_random(u, 2, 0, 1);
        std::vector<WindowOperand> in = {M::operand(x)};
        if (id == OpId::k_softmax_backward || id == OpId::k_log_softmax_backward)
          in.push_back(M::operand(u));
        m.op(id, in, {y}, {dim}, t);
        check_single(m, tol, "dim " + std::to_string(dim));
      }
    for (int dims = 1; dims <= 2; ++dims)
      for (int form = 0; form < 3; ++form) {
        const std::vector<int64_t> norm =
            dims == 1 ? std::vector<int64_t>{33} : std::vector<int64_t>{5, 33};
        const std::vector<int64_t> stat =
            dims == 1 ? std::vector<int64_t>{4, 5, 1} : std::vector<int64_t>{4, 1, 1};
        WindowMaker m;
        const View x = m.tensor(t, {4, 5, 33}), w = m.tensor(t, norm), b = m.tensor(t, norm),
                   y = m.result(t, {4, 5, 33});
        const DType st = t == DType::kF64 ? t : DType::kF32;
        const View mean = m.result(st, stat), rstd = m.result(st, stat);
        m.fill_random(x, 1);
        m.fill_random(w, 2);
        m.fill_random(b, 3);
        const auto weight = form == 0 ? M::absent() : M::operand(w);
        if (form == 2) {
          m.op(OpId::k_rms_norm, {M::operand(x), weight, M::scalar(1e-5)}, {y, rstd}, {dims}, t);
        } else {
          m.op(OpId::k_layer_norm,
               {M::operand(x), weight, form == 0 ? M::absent() : M::operand(b), M::scalar(1e-5)},
               {y, mean, rstd}, {dims}, t);
        }
        check_single(m, tol, "norm form " + std::to_string(form));
        WindowMaker g;
        const View grad = g.tensor(t, {4, 5, 33}), gx = g.tensor(t, {4, 5, 33}),
                   gm = g.tensor(st, stat), gr = g.tensor(st, stat), gw = g.tensor(t, norm),
                   dx = g.result(t, {4, 5, 33});
        g.fill_random(grad, 4);
        g.fill_random(gx, 5);
        g.fill_random(gm, 6, -0.1, 0.1);
        g.fill_random(gr, 7, 0.5, 1);
        g.fill_random(gw, 8);
        g.op(OpId::k_layer_norm_backward,
             {M::operand(grad), M::operand(gx), M::operand(gm), M::operand(gr),
              form ? M::operand(gw) : M::absent()},
             {dx}, {dims}, t);
        check_single(g, tol, "norm backward");
      }
  }
  WindowMaker m;  // a row that does not lie in SBUF
  const View x = m.tensor(DType::kF32, {2, 100000}), y = m.result(DType::kF32, {2, 100000});
  m.fill_random(x, 1);
  m.op(OpId::k_softmax, {M::operand(x)}, {y}, {1}, DType::kF32);
  check_single(m, 1e-5);
}

TEST_CASE("cumsum, empty reductions, 0-dim") {
  for (int dim = 0; dim < 3; ++dim)
    for (const DType t : {DType::kF32, DType::kI64, DType::kF64, DType::kBF16, DType::kF16}) {
      WindowMaker m;
      const View x = permuted(m, t, {4, 7, 5}, {2, 1, 0}, 1), y = m.result(t, {4, 7, 5});
      m.fill_random(x, 1);
      m.op(OpId::k_cumsum, {M::operand(x)}, {y}, {dim}, t);
      check_single(m, 0);  // the order and the accumulator are the same
    }
  WindowMaker m;  // longer than a tile: an f32 accumulator would be off
  const View x = m.tensor(DType::kF32, {3, 5000}), y = m.result(DType::kF32, {3, 5000});
  m.fill_random(x, 2);
  m.op(OpId::k_cumsum, {M::operand(x)}, {y}, {1}, DType::kF32);
  check_single(m, 0);
  for (const OpId id : {OpId::k_sum, OpId::k_mean, OpId::k_prod}) {
    WindowMaker m;
    const View x = m.tensor(DType::kF32, {3, 0, 2}), y = m.result(DType::kF32, {3, 2});
    m.op(id, {M::operand(x)}, {y}, {2, 0}, DType::kF32);
    check_single(m, 0);
    WindowMaker z;
    const View a = z.tensor(DType::kF32, {}), b = z.result(DType::kF32, {});
    z.fill_random(a, 1);
    z.op(id, {M::operand(a)}, {b}, {0, 0}, DType::kF32);
    check_single(z, 0);
  }
}

}  // namespace
}  // namespace nax::test
