#include "device/isa/slots.h"

#include <algorithm>
#include <limits>

namespace nax {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? (a < 0 ? kMin : kMax) : r;
}

int64_t saturating_sub(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_sub_overflow(a, b, &r) ? (a < 0 ? kMin : kMax) : r;
}

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? ((a < 0) != (b < 0) ? kMin : kMax) : r;
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (a == kMin && b == -1) return kMax;
  const int64_t q = a / b;
  return q - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

int64_t ceil_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (a == kMin && b == -1) return kMax;
  const int64_t q = a / b;
  return q + ((a % b != 0 && (a < 0) == (b < 0)) ? 1 : 0);
}

bool commutes(SlotOp op) {
  return op == SlotOp::kAdd || op == SlotOp::kMul || op == SlotOp::kMin || op == SlotOp::kMax;
}

}  // namespace

int64_t slot_arithmetic(SlotOp op, int64_t a, int64_t b) {
  switch (op) {
    case SlotOp::kAdd:
      return saturating_add(a, b);
    case SlotOp::kSub:
      return saturating_sub(a, b);
    case SlotOp::kMul:
      return saturating_mul(a, b);
    case SlotOp::kCeilDiv:
      return ceil_div(a, b);
    case SlotOp::kFloorDiv:
      return floor_div(a, b);
    case SlotOp::kMin:
      return std::min(a, b);
    case SlotOp::kMax:
      return std::max(a, b);
    case SlotOp::kConst:
    case SlotOp::kArgSize:
    case SlotOp::kArgStride:
      break;
  }
  return 0;
}

void evaluate_slots(const Program& program, const ArgValue* row, int64_t* out) {
  const size_t count = program.slots.size();
  for (size_t i = 0; i < count; ++i) {
    const Slot& s = program.slots[i];
    switch (s.op) {
      case SlotOp::kConst:
        out[i] = s.imm;
        break;
      case SlotOp::kArgSize:
        out[i] = row[s.a].sizes[s.b];
        break;
      case SlotOp::kArgStride:
        out[i] = row[s.a].strides[s.b];
        break;
      default:
        out[i] = slot_arithmetic(s.op, out[s.a], out[s.b]);
        break;
    }
  }
}

bool guards_hold(const Program& program, const int64_t* slots) {
  return std::all_of(program.guards.begin(), program.guards.end(),
                     [&](const Guard& g) { return slots[g.slot] <= g.limit; });
}

size_t SlotBuilder::SlotHasher::operator()(const Slot& s) const {
  uint64_t h = static_cast<uint64_t>(s.op) |
               static_cast<uint64_t>(static_cast<uint16_t>(s.a)) << 8 |
               static_cast<uint64_t>(static_cast<uint16_t>(s.b)) << 24;
  h ^= static_cast<uint64_t>(s.imm) * 0x9E3779B97F4A7C15u;
  return static_cast<size_t>(h ^ (h >> 29));
}

bool SlotBuilder::SlotEqual::operator()(const Slot& x, const Slot& y) const {
  return x.op == y.op && x.a == y.a && x.b == y.b && x.imm == y.imm;
}

SlotBuilder::SlotBuilder(std::vector<Slot>* slots) : slots_(slots) {
  for (size_t i = 0; i < slots_->size(); ++i) ids_.emplace((*slots_)[i], static_cast<SlotId>(i));
}

SlotId SlotBuilder::intern(const Slot& slot) {
  const auto it = ids_.find(slot);
  if (it != ids_.end()) return it->second;
  if (slots_->size() >= static_cast<size_t>(std::numeric_limits<SlotId>::max())) overflowed_ = true;
  if (overflowed_) return kNoSlot;
  const SlotId id = static_cast<SlotId>(slots_->size());
  slots_->push_back(slot);
  ids_.emplace(slot, id);
  return id;
}

SlotId SlotBuilder::constant(int64_t value) { return intern({SlotOp::kConst, 0, 0, value}); }
SlotId SlotBuilder::size(ArgId arg, int dim) {
  return intern({SlotOp::kArgSize, arg, static_cast<int16_t>(dim), 0});
}
SlotId SlotBuilder::stride(ArgId arg, int dim) {
  return intern({SlotOp::kArgStride, arg, static_cast<int16_t>(dim), 0});
}

std::optional<int64_t> SlotBuilder::constant_value(SlotId slot) const {
  if (slot == kNoSlot) return 0;
  const Slot& s = (*slots_)[slot];
  if (s.op != SlotOp::kConst) return std::nullopt;
  return s.imm;
}

SlotId SlotBuilder::binary(SlotOp op, SlotId a, SlotId b) {
  if (overflowed_) return kNoSlot;
  if (a == kNoSlot) a = constant(0);
  if (b == kNoSlot) b = constant(0);
  if (overflowed_) return kNoSlot;
  const std::optional<int64_t> ca = constant_value(a), cb = constant_value(b);
  if (ca && cb) return constant(slot_arithmetic(op, *ca, *cb));
  switch (op) {
    case SlotOp::kAdd:
      if (ca == 0) return b;
      if (cb == 0) return a;
      break;
    case SlotOp::kSub:
      if (cb == 0) return a;
      if (a == b) return constant(0);
      break;
    case SlotOp::kMul:
      if (ca == 1) return b;
      if (cb == 1) return a;
      if (ca == 0 || cb == 0) return constant(0);
      break;
    case SlotOp::kCeilDiv:
    case SlotOp::kFloorDiv:
      if (cb == 1) return a;
      if (ca == 0 || cb == 0) return constant(0);
      break;
    case SlotOp::kMin:
    case SlotOp::kMax:
      if (a == b) return a;
      break;
    default:
      break;
  }
  if (commutes(op) && a > b) std::swap(a, b);
  return intern({op, a, b, 0});
}

SlotId SlotBuilder::add(SlotId a, SlotId b) { return binary(SlotOp::kAdd, a, b); }
SlotId SlotBuilder::sub(SlotId a, SlotId b) { return binary(SlotOp::kSub, a, b); }
SlotId SlotBuilder::mul(SlotId a, SlotId b) { return binary(SlotOp::kMul, a, b); }
SlotId SlotBuilder::ceil_div(SlotId a, SlotId b) { return binary(SlotOp::kCeilDiv, a, b); }
SlotId SlotBuilder::floor_div(SlotId a, SlotId b) { return binary(SlotOp::kFloorDiv, a, b); }
SlotId SlotBuilder::min(SlotId a, SlotId b) { return binary(SlotOp::kMin, a, b); }
SlotId SlotBuilder::max(SlotId a, SlotId b) { return binary(SlotOp::kMax, a, b); }

SlotId SlotBuilder::product(const std::vector<SlotId>& factors) {
  SlotId result = constant(1);
  for (SlotId f : factors) result = mul(result, f);
  return result;
}

}  // namespace nax
