#include "device/isa/slots.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>

namespace nax {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST_CASE("slot arithmetic saturates and division by zero is 0") {
  CHECK(slot_arithmetic(SlotOp::kAdd, kMax, 1) == kMax);
  CHECK(slot_arithmetic(SlotOp::kAdd, kMin, -1) == kMin);
  CHECK(slot_arithmetic(SlotOp::kSub, kMin, 1) == kMin);
  CHECK(slot_arithmetic(SlotOp::kSub, 0, kMin) == kMax);
  CHECK(slot_arithmetic(SlotOp::kMul, kMax, 2) == kMax);
  CHECK(slot_arithmetic(SlotOp::kMul, kMax, -2) == kMin);
  CHECK(slot_arithmetic(SlotOp::kCeilDiv, 7, 0) == 0);
  CHECK(slot_arithmetic(SlotOp::kFloorDiv, 7, 0) == 0);
  CHECK(slot_arithmetic(SlotOp::kFloorDiv, kMin, -1) == kMax);
  CHECK(slot_arithmetic(SlotOp::kCeilDiv, kMin, -1) == kMax);
  CHECK(slot_arithmetic(SlotOp::kMin, 3, -4) == -4);
  CHECK(slot_arithmetic(SlotOp::kMax, 3, -4) == 3);
}

TEST_CASE("floor and ceil division round towards their side for every sign") {
  for (int64_t a = -20; a <= 20; ++a)
    for (int64_t b = -7; b <= 7; ++b) {
      if (b == 0) continue;
      // Defined by the inequality, not by another division.
      const int64_t f = slot_arithmetic(SlotOp::kFloorDiv, a, b),
                    c = slot_arithmetic(SlotOp::kCeilDiv, a, b);
      const int64_t s = b > 0 ? 1 : -1;
      CHECK(f * b * s <= a * s);
      CHECK((f + 1) * b * s > a * s);
      CHECK(c * b * s >= a * s);
      CHECK((c - 1) * b * s < a * s);
    }
}

TEST_CASE("a table of sizes and strides is evaluated in order") {
  Program p;
  p.args.resize(2);
  p.args[0].rank = 2;
  p.args[1].rank = 1;
  SlotBuilder b(&p.slots);
  const SlotId rows = b.size(0, 0), cols = b.size(0, 1), stride = b.stride(1, 0);
  const SlotId count = b.mul(rows, cols);
  const SlotId tiles = b.ceil_div(count, b.constant(512));
  const SlotId last = b.mul(b.sub(rows, b.constant(1)), stride);
  p.guards.push_back({cols, 100});
  ArgValue row[2];
  row[0].sizes = {7, 100};
  row[1].strides = {3};
  std::vector<int64_t> v(p.slots.size());
  evaluate_slots(p, row, v.data());
  CHECK(v[count] == 700);
  CHECK(v[tiles] == 2);
  CHECK(v[last] == 18);
  CHECK(guards_hold(p, v.data()));
  row[0].sizes = {7, 101};
  evaluate_slots(p, row, v.data());
  CHECK_FALSE(guards_hold(p, v.data()));
}

TEST_CASE("equal expressions get one slot and constants fold") {
  std::vector<Slot> table;
  SlotBuilder b(&table);
  const SlotId n = b.size(0, 0), m = b.size(0, 1);
  CHECK(b.size(0, 0) == n);
  CHECK(b.mul(n, m) == b.mul(m, n));
  CHECK(b.add(n, m) == b.add(m, n));
  CHECK(b.sub(n, m) != b.sub(m, n));
  CHECK(b.add(n, b.constant(0)) == n);
  CHECK(b.add(n, kNoSlot) == n);
  CHECK(b.mul(n, b.constant(1)) == n);
  CHECK(b.constant_value(b.mul(n, b.constant(0))) == 0);
  CHECK(b.constant_value(b.mul(n, kNoSlot)) == 0);
  CHECK(b.ceil_div(n, b.constant(1)) == n);
  CHECK(b.min(n, n) == n);
  CHECK(b.constant_value(b.ceil_div(b.constant(1000), b.constant(512))) == 2);
  CHECK(b.constant_value(b.sub(n, n)) == 0);
  CHECK_FALSE(b.constant_value(n).has_value());
  CHECK(b.constant_value(b.product({})) == 1);
  const size_t before = table.size();
  SlotBuilder again(&table);  // continues an existing table
  CHECK(again.size(0, 1) == m);
  CHECK(table.size() == before);
}

TEST_CASE("folding does not change values") {
  std::mt19937_64 rng(7);
  for (int round = 0; round < 200; ++round) {
    Program plain, folded;
    plain.args.resize(1);
    folded.args.resize(1);
    SlotBuilder b(&folded.slots);
    std::vector<SlotId> ids;
    auto push = [&](Slot s, SlotId id) {
      plain.slots.push_back(s);
      ids.push_back(id);
    };
    for (int16_t d = 0; d < 3; ++d) push({SlotOp::kArgSize, 0, d, 0}, b.size(0, d));
    for (int64_t c : {0, 1, -1, 512}) push({SlotOp::kConst, 0, 0, c}, b.constant(c));
    for (int i = 0; i < 30; ++i) {
      const auto op = static_cast<SlotOp>(3 + rng() % 7);
      const auto x = static_cast<int16_t>(rng() % plain.slots.size()),
                 y = static_cast<int16_t>(rng() % plain.slots.size());
      SlotId id = kNoSlot;
      switch (op) {
        case SlotOp::kAdd:
          id = b.add(ids[x], ids[y]);
          break;
        case SlotOp::kSub:
          id = b.sub(ids[x], ids[y]);
          break;
        case SlotOp::kMul:
          id = b.mul(ids[x], ids[y]);
          break;
        case SlotOp::kCeilDiv:
          id = b.ceil_div(ids[x], ids[y]);
          break;
        case SlotOp::kFloorDiv:
          id = b.floor_div(ids[x], ids[y]);
          break;
        case SlotOp::kMin:
          id = b.min(ids[x], ids[y]);
          break;
        default:
          id = b.max(ids[x], ids[y]);
          break;
      }
      push({op, x, y, 0}, id);
    }
    ArgValue row;
    for (int d = 0; d < 3; ++d) row.sizes[d] = static_cast<int64_t>(rng() % 2000);
    std::vector<int64_t> v(plain.slots.size()), w(folded.slots.size());
    evaluate_slots(plain, &row, v.data());
    evaluate_slots(folded, &row, w.data());
    CHECK(folded.slots.size() <= plain.slots.size());
    for (size_t i = 0; i < ids.size(); ++i) CHECK(v[i] == w[ids[i]]);
  }
}

TEST_CASE("a full table is reported, not overrun") {
  std::vector<Slot> table;
  SlotBuilder b(&table);
  for (int64_t i = 0; i < 40000; ++i) b.constant(i);
  CHECK(b.overflowed());
  CHECK(table.size() == 32767);
  CHECK(b.constant(5) == 5);
  CHECK(b.add(1, 2) == kNoSlot);
}

}  // namespace
}  // namespace nax
