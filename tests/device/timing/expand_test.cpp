#include "device/timing/expand.h"

#include <doctest/doctest.h>

#include <functional>

#include "tests/device/isa/bind_program.h"
#include "tests/device/isa/sample_programs.h"

namespace nax {
namespace {

Expansion expand(const Bound& b, size_t nest = 0) {
  return expand_nest(b.program, b.program.nests[nest], b.slots.data(), *find_target("trn2"), true);
}

// How often each step runs, over the whole tree.
int64_t runs(const Expansion& e, const std::function<bool(const Step&)>& which) {
  std::function<int64_t(int32_t)> walk = [&](int32_t loop) {
    int64_t n = 0;
    for (const LoopItem& item : e.loops[loop].items)
      n += item.is_loop ? walk(item.index) : which(e.steps[item.index]) ? 1 : 0;
    return n * e.loops[loop].count;
  };
  return walk(0);
}

TEST_CASE("tiles of 128 partitions and of the free axis, tails included") {
  const Expansion e = expand(bind(samples::kChain, {{300, 5000}, {5000}, {300, 5000}}));
  // 2 full partition tiles and a tail of 44; 2 full free tiles and a tail.
  CHECK(runs(e, [](const Step& s) { return s.engine == Engine::kACT; }) == 3 * 3);
  CHECK(runs(e, [](const Step& s) { return s.kind == StepKind::kDma && s.store; }) == 3 * 3);
  int64_t read = 0;
  for (const Step& s : e.steps) read = std::max(read, s.hbm_read);
  CHECK(read == 128 * 2048 * 4);
}

TEST_CASE("a matmul is 128 x 128 x 512 steps, and psum tiles stay within eight banks") {
  const Expansion e = expand(bind(samples::kMatmulRelu, {{1000, 700}, {700, 1500}, {1000, 1500}}));
  // m: 8 tiles, n: 3 tiles, k: 6 tiles.
  CHECK(runs(e, [](const Step& s) { return s.text == "nc_matmul"; }) == 8 * 3 * 6);
  CHECK(runs(e, [](const Step& s) {
          return s.text.find("activation relu") != std::string::npos;
        }) == 8 * 3);
  int banks = 0;
  std::vector<bool> seen(e.buffers.size(), false);
  for (const Step& s : e.steps) {
    if (s.text != "nc_matmul" || seen[s.dst]) continue;
    seen[s.dst] = true;
    banks += e.buffers[s.dst];
  }
  CHECK(banks <= 8);
}

TEST_CASE("semaphores: one for each value that passes from one engine to another") {
  const Expansion e = expand(bind(samples::kSoftmax, {{256, 64}, {256, 64}}));
  auto edges = [&](Engine from, Engine to) {
    int n = 0;
    for (const SemaphoreEdge& s : e.semaphores) n += s.from == from && s.to == to;
    return n;
  };
  CHECK(edges(Engine::kDMA, Engine::kDVE) == 1);  // the loaded row
  CHECK(edges(Engine::kDVE, Engine::kACT) == 1);  // exp's operand
  CHECK(edges(Engine::kACT, Engine::kDVE) == 1);  // exp's result
  CHECK(edges(Engine::kDVE, Engine::kDMA) == 1);  // the stored row
  CHECK(e.semaphores.size() == 4);
  // The sum and the maximum stay on DVE.
  for (const Step& s : e.steps) {
    if (s.text.find("tensor_reduce sum") == std::string::npos) continue;
    CHECK(s.wait[0]);
    CHECK_FALSE(s.release_wait);
  }
}

TEST_CASE("a split shortens the last block only") {
  const Expansion e = expand(bind(samples::kLongSum, {{65536 * 130 + 5}, {1}}));
  int64_t bytes = -e.hbm_read_excess;
  std::function<void(int32_t, int64_t)> walk = [&](int32_t loop, int64_t times) {
    for (const LoopItem& item : e.loops[loop].items) {
      if (item.is_loop) {
        walk(item.index, times * e.loops[item.index].count);
      } else {
        bytes += times * e.steps[item.index].hbm_read;
      }
    }
  };
  walk(0, 1);
  CHECK(bytes == (65536 * 130 + 5) * int64_t{4});
}

}  // namespace
}  // namespace nax
