// What greedy fuses, how long planning takes, and that no proposal can make a result wrong.
#include <chrono>

#include "fusion/legality.h"
#include "tests/fusion/single.h"

namespace nax::test {
namespace {

using M = WindowMaker;
constexpr DType kF32 = DType::kF32;

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

TEST_CASE("a chain of eight ops is one launch without memory for its temporaries") {
  WindowMaker m;
  View x = m.tensor(kF32, {64, 100});
  m.fill_random(x, 1);
  for (int i = 0; i < 8; ++i) {
    const View y = i == 7 ? m.result(kF32, {64, 100}) : m.temp(kF32, {64, 100});
    m.op(i % 2 ? OpId::k_tanh : OpId::k_mul,
         i % 2 ? std::vector<WindowOperand>{M::operand(x)}
               : std::vector<WindowOperand>{M::operand(x), M::scalar(1.5)},
         {y}, {}, kF32);
    x = y;
  }
  const auto plan = plan_or_fail(m.w, "greedy");
  REQUIRE(plan->launches.size() == 1);
  CHECK(plan->dead_temporaries == 7);
  CHECK(plan->launches[0].reads.size() == 1);
  CHECK(plan->launches[0].writes.size() == 1);
  CHECK(plan->launches[0].programs[0]->args.size() == 6);  // x, y, four scalars
  const auto strict = plan_or_fail(m.w, "strict");
  CHECK(strict->launches.size() == 8);
  CHECK(strict->dead_temporaries == 0);
  CHECK(strict->launches[3].release_after.size() == 1);
}

TEST_CASE("interleaved optimizer chains become one launch a tensor, with one program") {
  WindowMaker m;
  constexpr int kTensors = 6;
  std::vector<View> p, g, v, t;
  for (int i = 0; i < kTensors; ++i) {
    const std::vector<int64_t> s = {10 + i, 7};
    p.push_back(m.tensor(kF32, s));
    g.push_back(m.tensor(kF32, s));
    v.push_back(m.tensor(kF32, s));
    t.push_back(m.temp(kF32, s));
    for (const View& x : {p.back(), g.back(), v.back()}) m.fill_random(x, static_cast<uint64_t>(i));
  }
  for (int i = 0; i < kTensors; ++i)
    m.op(OpId::k_mul, {M::operand(v[i]), M::scalar(0.9)}, {v[i]}, {}, kF32);
  for (int i = 0; i < kTensors; ++i)
    m.op(OpId::k_addcmul, {M::operand(v[i]), M::operand(g[i]), M::operand(g[i]), M::scalar(0.1)},
         {v[i]}, {}, kF32);
  for (int i = 0; i < kTensors; ++i) m.op(OpId::k_sqrt, {M::operand(v[i])}, {t[i]}, {}, kF32);
  for (int i = 0; i < kTensors; ++i)
    m.op(OpId::k_addcdiv, {M::operand(p[i]), M::operand(g[i]), M::operand(t[i]), M::scalar(-0.01)},
         {p[i]}, {}, kF32);
  const auto plan = plan_or_fail(m.w, "greedy");
  CHECK(plan->launches.size() == kTensors);
  CHECK(plan->dead_temporaries == kTensors);
  for (const PlannedLaunch& l : plan->launches) CHECK(l.keys[0] == plan->launches[0].keys[0]);
  Memory a = m.memory, b = m.memory;
  run_plan(m.w, *plan, a);
  run_plan(m.w, *plan_or_fail(m.w, "strict"), b);
  for (int i = 0; i < kTensors; ++i) CHECK(a[p[i].buffer] == b[p[i].buffer]);
}

TEST_CASE(
    "a linear layer with bias, activation and residual is one matmul program, over a view of three "
    "dims") {
  WindowMaker m;
  const View x = m.tensor(kF32, {6, 16}), w = m.tensor(kF32, {16, 24}), bias = m.tensor(kF32, {24}),
             res = m.tensor(kF32, {2, 3, 24});
  for (const View& v : {x, w, bias, res}) m.fill_random(v, static_cast<uint64_t>(v.buffer));
  const View y = m.temp(kF32, {6, 24});
  m.op(OpId::k_addmm, {M::operand(bias), M::operand(x), M::operand(w), M::absent(), M::absent()},
       {y}, {}, kF32);
  const View y3 = M::contiguous(y.buffer, kF32, {2, 3, 24});
  const View s = m.temp(kF32, {2, 3, 24}), out = m.result(kF32, {2, 3, 24});
  m.op(OpId::k_silu, {M::operand(y3)}, {s}, {}, kF32);
  m.op(OpId::k_add, {M::operand(s), M::operand(res), M::absent()}, {out}, {}, kF32);
  const auto plan = plan_or_fail(m.w, "greedy");
  REQUIRE(plan->launches.size() == 1);
  CHECK(plan->launches[0].programs[0]->nests[0].has_matmul);
  CHECK(plan->dead_temporaries == 2);
  Memory a = m.memory, b = m.memory;
  run_plan(m.w, *plan, a);
  run_plan(m.w, *plan_or_fail(m.w, "strict"), b);
  CHECK(a[out.buffer] == b[out.buffer]);
}

TEST_CASE("rms norm written out, and softmax of a masked product, are one row program each") {
  WindowMaker m;
  const View x = m.tensor(kF32, {4, 9, 32}), w = m.tensor(kF32, {32});
  m.fill_random(x, 1);
  m.fill_random(w, 2);
  const View sq = m.temp(kF32, {4, 9, 32}), mean = m.temp(kF32, {4, 9, 1}),
             eps = m.temp(kF32, {4, 9, 1}), r = m.temp(kF32, {4, 9, 1}),
             n = m.temp(kF32, {4, 9, 32}), out = m.result(kF32, {4, 9, 32});
  m.op(OpId::k_square, {M::operand(x)}, {sq}, {}, kF32);
  m.op(OpId::k_mean, {M::operand(sq)}, {mean}, {4, 1}, kF32);
  m.op(OpId::k_add, {M::operand(mean), M::scalar(1e-5), M::absent()}, {eps}, {}, kF32);
  m.op(OpId::k_rsqrt, {M::operand(eps)}, {r}, {}, kF32);
  m.op(OpId::k_mul, {M::operand(x), M::operand(r)}, {n}, {}, kF32);
  m.op(OpId::k_mul, {M::operand(n), M::operand(w)}, {out}, {}, kF32);
  const auto plan = plan_or_fail(m.w, "greedy");
  CHECK(plan->launches.size() == 1);
  CHECK(plan->dead_temporaries == 5);

  WindowMaker a;
  const View scores = a.tensor(kF32, {2, 4, 8, 8}), mask = a.tensor(DType::kBool, {8, 8});
  a.fill_random(scores, 1);
  const View scaled = a.temp(kF32, {2, 4, 8, 8}), masked = a.temp(kF32, {2, 4, 8, 8}),
             p = a.result(kF32, {2, 4, 8, 8});
  a.op(OpId::k_mul, {M::operand(scores), M::scalar(0.3)}, {scaled}, {}, kF32);
  a.op(OpId::k_masked_fill, {M::operand(scaled), M::operand(mask), M::scalar(-1e30)}, {masked}, {},
       kF32);
  a.op(OpId::k_softmax, {M::operand(masked)}, {p}, {3}, kF32);
  CHECK(plan_or_fail(a.w, "greedy")->launches.size() == 1);
}

TEST_CASE("a write that overlaps another view, and a transposed read, end the region") {
  WindowMaker m;
  const View x = m.tensor(kF32, {8, 8});
  m.fill_random(x, 1);
  View t = x;
  std::swap(t.strides[0], t.strides[1]);
  const View y = m.result(kF32, {8, 8}), z = m.result(kF32, {8, 8});
  m.op(OpId::k_add, {M::operand(x), M::scalar(1), M::absent()}, {x}, {}, kF32);
  m.op(OpId::k_mul, {M::operand(t), M::scalar(2)}, {y}, {},
       kF32);                                         // reads what was written, transposed
  m.op(OpId::k_neg, {M::operand(y)}, {z}, {}, kF32);  // joins the second
  const auto plan = plan_or_fail(m.w, "greedy");
  REQUIRE(plan->launches.size() == 2);
  CHECK(plan->launches[0].ops == std::vector<uint32_t>{0});
  CHECK(plan->launches[1].ops == std::vector<uint32_t>{1, 2});
  CHECK(*plan->decisions[1].reason != '\0');
  CHECK(*plan->decisions[2].reason == '\0');
}

TEST_CASE("a buffer with very many views is planned op by op, in order") {
  WindowMaker m;
  constexpr int kSlices = 400;
  const BufferIndex b = m.buffer(kSlices * 8 * 4);
  m.fill_random(M::contiguous(b, kF32, {kSlices, 8}), 1);
  for (int i = 0; i + 1 < kSlices; ++i)
    m.op(OpId::k_neg, {M::operand(M::contiguous(b, kF32, {8}, i * 8))},
         {M::contiguous(b, kF32, {8}, (i + 1) * 8)}, {}, kF32);
  const auto plan = plan_or_fail(m.w, "greedy");
  CHECK(plan->rejected == nullptr);
  Memory got = m.memory;
  run_plan(m.w, *plan, got);
  const View first = M::contiguous(b, kF32, {8});
  const View last = M::contiguous(b, kF32, {8}, (kSlices - 1) * 8);
  for (int64_t i = 0; i < 8; ++i)
    CHECK(load_element(got[b].data() + element_offset(last, i), kF32) == -m.get(first, i));
}

// ---- Proposals that must not get through ----

template <int kKind>
Proposal bad(const Graph& graph, const FusionLimits& limits) {
  Proposal p = propose_strict(graph, limits);
  const auto n = static_cast<uint32_t>(graph.ops().size());
  switch (kKind) {
    case 0:
      std::reverse(p.regions.begin(), p.regions.end());
      break;
    case 1:
      p.regions.pop_back();
      break;
    case 2:
      p.regions.push_back({0});
      break;
    case 3:
      p.regions.push_back({n + 7});
      break;
    case 4:
      p.regions.push_back({});
      break;
    case 5:
      p.regions = {{n - 1, 0}};
      for (uint32_t i = 1; i + 1 < n; ++i) p.regions.push_back({i});
      break;
    case 6: {  // everything in one
      p.regions.assign(1, {});
      for (uint32_t i = 0; i < n; ++i) p.regions[0].push_back(i);
      break;
    }
    case 7:
      p.regions.assign(1, std::vector<uint32_t>(limits.max_ops + 1, 0));
      break;
  }
  return p;
}

TEST_CASE("garbage proposals are rejected with a reason and the results stay right") {
  WindowMaker m;
  const View x = m.tensor(kF32, {6, 6}), w = m.tensor(kF32, {6, 6});
  m.fill_random(x, 1);
  m.fill_random(w, 2);
  const View a = m.result(kF32, {6, 6}), b = m.result(kF32, {6, 6}), c = m.result(kF32, {6}),
             d = m.result(kF32, {6, 6});
  m.op(OpId::k_mm, {M::operand(x), M::operand(w)}, {a}, {}, kF32);
  m.op(OpId::k_softmax, {M::operand(a)}, {b}, {1}, kF32);
  m.op(OpId::k_sum, {M::operand(b)}, {c}, {1, 0}, kF32);
  m.op(OpId::k_add, {M::operand(b), M::operand(c), M::absent()}, {d}, {}, kF32);
  Memory want = m.memory;
  run_plan(m.w, *plan_or_fail(m.w, "strict"), want);
  const ProposeFn proposals[] = {bad<0>, bad<1>, bad<2>, bad<3>, bad<4>, bad<5>, bad<6>, bad<7>};
  for (const ProposeFn propose : proposals) {
    const auto plan = plan_with(m.w, propose, "test", trn2());
    REQUIRE(plan.ok());
    REQUIRE(plan.value()->rejected != nullptr);
    CHECK(std::string(plan.value()->rejected) != "");
    Memory got = m.memory;
    run_plan(m.w, *plan.value(), got);
    CHECK(got == want);
  }
  const auto unknown = make_plan(m.w, "clever", trn2());
  REQUIRE(!unknown.ok());
  CHECK(unknown.status().message().find("strict, greedy, adaptive") != std::string_view::npos);
}

TEST_CASE("planning, keys and checks are fast") {
  WindowMaker m;
  constexpr int kOps = 100000, kTensors = 50;
  std::vector<View> v;
  for (int i = 0; i < kTensors; ++i) v.push_back(m.tensor(kF32, {16, 16}));
  for (int i = 0; i < kOps; ++i)
    m.op(OpId::k_add,
         {M::operand(v[i % kTensors]), M::operand(v[(i * 7 + 1) % kTensors]), M::absent()},
         {v[i % kTensors]}, {}, kF32);
  auto t = std::chrono::steady_clock::now();
  Graph graph;
  graph.analyze(m.w);
  const Proposal p = propose_greedy(graph, {});
  const double planning = seconds_since(t);
  size_t ops = 0;
  for (const auto& r : p.regions) ops += r.size();
  CHECK(ops == kOps);
  CHECK(check_proposal(graph, p, {}) == Illegal::kLegal);
  // Keys and checks on a window of the usual length.
  constexpr int kUsual = 2000, kRounds = 50;
  m.w.ops.resize(kUsual);
  m.w.operands.resize(kUsual * 4);
  std::string key;
  double key_ns = 1e9, check_ns = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    key.clear();
    t = std::chrono::steady_clock::now();
    append_window_key(m.w, "greedy", trn2(), &key);
    key_ns = std::min(key_ns, seconds_since(t) / kUsual * 1e9);
    bool ok = true;
    t = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < kUsual; ++i) ok &= check_op(m.w, i, false).ok();
    check_ns = std::min(check_ns, seconds_since(t) / kUsual * 1e9);
    REQUIRE(ok);
  }
  MESSAGE("greedy " << planning << " s for " << kOps << " ops; key " << key_ns << " ns an op, "
                    << key.size() / kUsual << " bytes; check " << check_ns << " ns");
  CHECK(planning < 3);  // of an idle machine: below 1
}

}  // namespace
}  // namespace nax::test
