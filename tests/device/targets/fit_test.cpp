#include "device/targets/fit.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "device/isa/slots.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"
#include "tests/device/isa/bind_program.h"
#include "tests/device/isa/sample_programs.h"

namespace nax {
namespace {

void check_message(const Status& s, std::string_view part) {
  REQUIRE_FALSE(s.ok());
  CHECK(s.reason() == ErrorReason::kVerifyFailed);
  const std::string message(s.message());
  CAPTURE(message);
  CHECK(message.find(part) != std::string::npos);
}

TEST_CASE("SBUF: what lives at once must fit, and the error says what does") {
  const TargetInfo& trn1 = *find_target("trn1");
  const TargetInfo& trn2 = *find_target("trn2");
  // softmax: a [p, f] of f32 and m [p, 1]
  Bound fits = bind(samples::kSoftmax, {{100, 53245}, {100, 53245}});
  CHECK(check_fit(fits.program, fits.slots.data(), trn2).ok());
  Bound b = bind(samples::kSoftmax, {{100, 53246}, {100, 53246}});
  check_message(check_fit(b.program, b.slots.data(), trn2),
                "nest 0: SBUF needs 212988 bytes a partition, trn2 allows 212984; tiles that live "
                "at once: t0 f32 212984 "
                "bytes, t1 f32 4 bytes; use a smaller tile of the free axis (53246 elements now)");
  check_message(check_fit(fits.program, fits.slots.data(), trn1), "trn1 allows 180224");
}

TEST_CASE("SBUF: tiles of the free axis bound the need, whatever the size") {
  Bound b = bind(samples::kChain, {{1000, 50000000}, {50000000}, {1000, 50000000}});
  CHECK(check_fit(b.program, b.slots.data(), *find_target("trn1")).ok());
}

TEST_CASE("an axis of 2^40 or more is refused, unless the nest has no points") {
  const TargetInfo& t = *find_target("trn2");
  const int64_t most = kMaxExtent;
  Bound fits = bind(samples::kChain, {{1, most}, {most}, {1, most}});
  CHECK(check_fit(fits.program, fits.slots.data(), t).ok());
  Bound b = bind(samples::kChain, {{1, most + 1}, {most + 1}, {1, most + 1}});
  check_message(check_fit(b.program, b.slots.data(), t), "extent 1099511627776, at most 1099511627775");
  Bound none = bind(samples::kChain, {{0, most + 1}, {most + 1}, {0, most + 1}});
  CHECK(check_fit(none.program, none.slots.data(), t).ok());
}

TEST_CASE("PSUM: eight banks") {
  std::string text = samples::kMatmulF32;
  const size_t at = text.find("tile 512");
  text.replace(at, 8, "tile 4096");
  Bound fits = bind(text.c_str(), {{128, 64}, {64, 8192}, {128, 8192}});
  CHECK(check_fit(fits.program, fits.slots.data(), *find_target("trn2")).ok());
  text.replace(at, 9, "tile 4097");
  Bound b = bind(text.c_str(), {{128, 64}, {64, 8192}, {128, 8192}});
  check_message(
      check_fit(b.program, b.slots.data(), *find_target("trn2")),
      "PSUM needs 9 banks for t0 f32 with 4097 elements, trn2 has 8 of 2048 bytes a partition");
}

TEST_CASE("reductions longer than a block, and tiles between chunks") {
  const TargetInfo& t = *find_target("trn2");
  Bound ok = bind(samples::kRowSum, {{4, 65536}, {4}});
  CHECK(check_fit(ok.program, ok.slots.data(), t).ok());
  Bound row = bind(samples::kRowSum, {{4, 65537}, {4}});
  check_message(check_fit(row.program, row.slots.data(), t),
                "reduces 65537 elements in one go; above 65536 reduce blocks");
  Bound column = bind(samples::kColumnSum, {{65537, 4}, {4}});
  check_message(check_fit(column.program, column.slots.data(), t),
                "reduces 65537 elements in one go");
  Bound blocks = bind(samples::kLongSum, {{100000000}, {1}});
  CHECK(check_fit(blocks.program, blocks.slots.data(), t).ok());
  std::string text = samples::kRowSum;
  text.replace(text.find("tile 2048"), 9, "tile size(y, 0)");
  Bound odd = bind(text.c_str(), {{5, 2048}, {700}});
  check_message(check_fit(odd.program, odd.slots.data(), t),
                "the free axis has tiles of 700 elements");
  Bound whole = bind(text.c_str(), {{5, 600}, {700}});
  CHECK(check_fit(whole.program, whole.slots.data(), t).ok());
}

TEST_CASE("bounds: one element too few is noticed") {
  Bound b = bind(samples::kSoftmax, {{3, 5}, {3, 5}});
  std::vector<ArgBounds> bounds = {{0, 60}, {0, 60}};
  CHECK(check_bounds(b.program, b.slots.data(), bounds.data()).ok());
  bounds[1].buffer_bytes = 59;
  const Status s = check_bounds(b.program, b.slots.data(), bounds.data());
  check_message(s, "a1: touches elements 0 to 14, allowed are 0 to 13");
  CHECK(s.code() == StatusCode::kOutOfRange);
  bounds[1] = {4, 64};
  CHECK(check_bounds(b.program, b.slots.data(), bounds.data()).ok());
  bounds[1] = {6, 66};
  check_message(check_bounds(b.program, b.slots.data(), bounds.data()),
                "offset of 6 bytes is not a multiple");
  // No element, no access.
  Bound empty = bind(samples::kSoftmax, {{0, 5}, {0, 5}});
  bounds = {{0, 0}, {0, 0}};
  CHECK(check_bounds(empty.program, empty.slots.data(), bounds.data()).ok());
}

TEST_CASE("bounds: every legal index counts") {
  Bound b = bind(samples::kGather, {{10, 4}, {6}, {6, 4}});
  std::vector<ArgBounds> bounds = {{0, 160}, {0, 48}, {0, 96}};
  CHECK(check_bounds(b.program, b.slots.data(), bounds.data()).ok());
  bounds[0].buffer_bytes = 156;
  check_message(check_bounds(b.program, b.slots.data(), bounds.data()),
                "a0: touches elements 0 to 39");
}

TEST_CASE("bounds of split axes are exact: compared with a walk over all points") {
  std::mt19937_64 rng(3);
  for (int round = 0; round < 300; ++round) {
    const int64_t n = 1 + static_cast<int64_t>(rng() % 40),
                  part = 1 + static_cast<int64_t>(rng() % 9);
    const int64_t parts = (n + part - 1) / part;
    const int64_t so = static_cast<int64_t>(rng() % 41) - 20,
                  si = static_cast<int64_t>(rng() % 11) - 5;
    const std::string text =
        "program p {\n arg x: view u8 rank 1 read\n arg y: view u8 rank 1 write\n nest {\n "
        "partition r: " +
        std::to_string(parts) + "\n free c: " + std::to_string(part) + " split r of " +
        std::to_string(n) + "\n tile t: u8 [r, c]\n t = dma_copy(x[r * " + std::to_string(so) +
        " + c * " + std::to_string(si) + "])\n y[] = dma_copy(t)\n }\n}\n";
    std::string stored = text;
    stored.replace(stored.find("y[]"), 3, "y[c * 0]");
    Bound b = bind(stored.c_str(), {{1}, {1}});
    int64_t low = 0, high = 0;
    bool first = true;
    for (int64_t o = 0; o < parts; ++o) {
      for (int64_t i = 0; i < part && o * part + i < n; ++i) {
        const int64_t v = o * so + i * si;
        low = first ? v : std::min(low, v);
        high = first ? v : std::max(high, v);
        first = false;
      }
    }
    CAPTURE(text);
    std::vector<ArgBounds> bounds = {{-low, high - low + 1}, {0, 1}};
    CHECK(check_bounds(b.program, b.slots.data(), bounds.data()).ok());
    bounds[0].buffer_bytes -= 1;
    CHECK_FALSE(check_bounds(b.program, b.slots.data(), bounds.data()).ok());
    if (low < 0) {
      bounds[0] = {-low - 1, high - low};
      CHECK_FALSE(check_bounds(b.program, b.slots.data(), bounds.data()).ok());
    }
  }
}

TEST_CASE("a split that does not cover its limit is refused") {
  std::string text = samples::kRandom;
  text.replace(text.find("ceil_div(%n, 512)"), 17, "1");
  Bound b = bind(text.c_str(), {{513}, {513}});
  check_message(check_fit(b.program, b.slots.data(), *find_target("trn2")),
                "1 parts of 512 do not cover the split's limit 513");
}

}  // namespace
}  // namespace nax
