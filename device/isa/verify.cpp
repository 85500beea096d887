#include "device/isa/verify.h"

#include <algorithm>

#include "device/isa/text.h"
#include "device/isa/verify_impl.h"

namespace nax {
namespace {

std::string num(int64_t v) { return std::to_string(v); }

bool is_name(const std::string& s) {
  return !s.empty() && s.size() <= 200 && std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

bool is_target_name(const std::string& s) {
  return is_name(s) && s[0] >= 'a' && s[0] <= 'z' && s.find('.') == std::string::npos;
}

Status check_args(const Program& p) {
  if (p.args.size() > 4096)
    return verify_failed("a program has at most 4096 arguments, this one " + num(p.args.size()));
  for (size_t i = 0; i < p.args.size(); ++i) {
    const ArgDecl& a = p.args[i];
    const std::string who = "argument a" + num(i) + ": ";
    if (static_cast<int>(a.kind) > 3)
      return verify_failed(who + "unknown kind " + num(static_cast<int>(a.kind)));
    if (static_cast<int>(a.dtype) >= kDTypeCount || !is_computable(a.dtype)) {
      const bool known = static_cast<int>(a.dtype) < kDTypeCount;
      return verify_failed(
          who + "dtype " +
          (known ? std::string(dtype_name(a.dtype)) : num(static_cast<int>(a.dtype))) +
          " is not computable; allowed: bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64");
    }
    const bool view = a.kind == ArgKind::kView;
    if (view && a.rank > kMaxRank)
      return verify_failed(who + "rank " + num(a.rank) + ", at most " + num(kMaxRank));
    if (!view && a.rank != 0) return verify_failed(who + "only a view has a rank");
    if (a.kind == ArgKind::kScratch) {
      if (a.scratch_elements < 0 || static_cast<size_t>(a.scratch_elements) >= p.slots.size()) {
        return verify_failed(who + "its number of elements is not a slot of the program");
      }
    } else if (a.scratch_elements != kNoSlot) {
      return verify_failed(who + "only scratch has a number of elements");
    }
    if (!view && a.kind != ArgKind::kScratch && (a.read || a.written)) {
      return verify_failed(who + "a scalar or seed is neither read nor written by a dma_copy");
    }
  }
  return {};
}

Status check_slots(const Program& p) {
  if (p.slots.size() > 32767) return verify_failed("a program has at most 32767 slots");
  for (size_t i = 0; i < p.slots.size(); ++i) {
    const Slot& s = p.slots[i];
    const std::string who = "slot %" + num(i) + ": ";
    switch (s.op) {
      case SlotOp::kConst:
        if (s.a != 0 || s.b != 0) return verify_failed(who + "a constant has no operands");
        continue;
      case SlotOp::kArgSize:
      case SlotOp::kArgStride: {
        if (s.a < 0 || static_cast<size_t>(s.a) >= p.args.size())
          return verify_failed(who + "no argument a" + num(s.a));
        const ArgDecl& a = p.args[s.a];
        if (a.kind != ArgKind::kView)
          return verify_failed(who + "a" + num(s.a) + " is not a view: it has no sizes");
        if (s.b < 0 || s.b >= a.rank) {
          return verify_failed(who + "a" + num(s.a) + " has rank " + num(a.rank) +
                               ", there is no dimension " + num(s.b));
        }
        break;
      }
      case SlotOp::kAdd:
      case SlotOp::kSub:
      case SlotOp::kMul:
      case SlotOp::kCeilDiv:
      case SlotOp::kFloorDiv:
      case SlotOp::kMin:
      case SlotOp::kMax:
        for (const int16_t operand : {s.a, s.b}) {
          if (operand < 0 || static_cast<size_t>(operand) >= i) {
            return verify_failed(who + "refers to %" + num(operand) +
                                 "; only earlier slots are allowed");
          }
        }
        break;
      default:
        return verify_failed(who + "unknown operator " + num(static_cast<int>(s.op)));
    }
    if (s.imm != 0) return verify_failed(who + "only a constant has a value of its own");
  }
  for (const Guard& g : p.guards) {
    if (g.slot < 0 || static_cast<size_t>(g.slot) >= p.slots.size())
      return verify_failed("a guard's slot is out of range");
  }
  for (size_t i = 0; i < p.constants.size(); ++i) {
    const ScalarValue& v = p.constants[i];
    if (static_cast<int>(v.kind) > 2)
      return verify_failed("constant c" + num(i) + ": unknown kind");
    if (v.kind == ScalarValue::Kind::kBool && v.i64 != 0 && v.i64 != 1) {
      return verify_failed("constant c" + num(i) + ": a bool is 0 or 1, not " + num(v.i64));
    }
  }
  return {};
}

const char* role_name(AxisRole r) {
  static constexpr const char* kNames[] = {"loop", "partition", "free", "contract"};
  return kNames[static_cast<int>(r)];
}

}  // namespace

Status verify_failed(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message), ErrorReason::kVerifyFailed};
}

bool has_free_tiles(const Nest& nest) {
  return std::any_of(nest.axes.begin(), nest.axes.end(),
                     [](const Axis& a) { return a.tile != kNoSlot; });
}

AxisId partition_axis(const Nest& nest) {
  for (size_t i = 0; i < nest.axes.size(); ++i)
    if (nest.axes[i].role == AxisRole::kPartition) return static_cast<AxisId>(i);
  return kNone;
}

bool carries_partition(const Nest& nest) {
  const AxisId p = partition_axis(nest);
  return p != kNone && nest.axes[p].kind == LoopKind::kCarried;
}

Status verify(const Program& p) {
  if (!is_name(p.name))
    return verify_failed("the program's name must be [a-z0-9_.]+, at most 200 characters");
  if (!is_target_name(p.target)) return verify_failed("the target's name must be [a-z][a-z0-9_]*");
  if (p.op_count == 0) return verify_failed("a program works for at least one op");
  if (p.nests.size() > 4096)
    return verify_failed("a program has at most 4096 nests, this one " + num(p.nests.size()));
  if (p.constants.size() > 32767) return verify_failed("a program has at most 32767 constants");
  NAX_RETURN_IF_ERROR(check_args(p));
  NAX_RETURN_IF_ERROR(check_slots(p));
  std::vector<bool> scratch_written(p.args.size(), false);
  std::vector<ArgDecl> used(p.args.size());
  for (size_t n = 0; n < p.nests.size(); ++n) {
    Status s = NestVerifier(p, n, &scratch_written, &used).run();
    if (!s.ok()) return std::move(s).with_context("nest " + num(n));
  }
  for (size_t i = 0; i < p.args.size(); ++i) {
    const ArgDecl& a = p.args[i];
    if (a.kind != ArgKind::kView) continue;
    const std::string who = "argument a" + num(i) + ": ";
    if (used[i].read && !a.read) return verify_failed(who + "is read, but not declared 'read'");
    if (used[i].written && !a.written)
      return verify_failed(who + "is written, but not declared 'write'");
    if (a.read && !used[i].read)
      return verify_failed(who + "is declared 'read', but nothing reads it");
    if (a.written && !used[i].written)
      return verify_failed(who + "is declared 'write', but nothing writes it");
  }
  return {};
}

NestVerifier::NestVerifier(const Program& program, size_t index, std::vector<bool>* scratch_written,
                           std::vector<ArgDecl>* used)
    : program_(program),
      nest_(program.nests[index]),
      index_(index),
      scratch_written_(scratch_written),
      used_(used) {}

Status NestVerifier::slot(SlotId id, const char* what, bool required) const {
  if (id == kNoSlot && !required) return {};
  if (id < 0 || static_cast<size_t>(id) >= program_.slots.size()) {
    return verify_failed(std::string(what) + (id == kNoSlot
                                                  ? " is missing"
                                                  : " is slot %" + num(id) + ", out of range"));
  }
  return {};
}

Status NestVerifier::run() {
  NAX_RETURN_IF_ERROR(axes());
  NAX_RETURN_IF_ERROR(tiles());
  tiled_ = has_free_tiles(nest_);
  carried_ = carries_partition(nest_);
  state_.assign(nest_.tiles.size(), State::kUnwritten);
  from_body_.assign(nest_.tiles.size(), false);
  if (nest_.has_matmul) {
    Status s = matmul();
    if (!s.ok()) return std::move(s).with_context(matmul_text(program_, nest_));
  } else if (!(nest_.matmul.psum == kNone && nest_.matmul.a.arg == kNone &&
               nest_.matmul.b.arg == kNone && nest_.matmul.op == 0)) {
    return verify_failed("has matmul operands, but has_matmul is not set");
  }
  for (const bool finish : {false, true}) {
    const std::vector<Instr>& list = finish ? nest_.finish : nest_.body;
    if (list.size() > 4096) return verify_failed("a nest has at most 4096 instructions");
    for (size_t k = 0; k < list.size(); ++k) {
      Status s = instr(list[k], finish);
      if (s.ok()) continue;
      return std::move(s).with_context((finish ? "finish instruction " : "body instruction ") +
                                       num(k) + " (" + instr_text(program_, nest_, list[k]) + ")");
    }
  }
  return {};
}

Status NestVerifier::axes() {
  const std::vector<Axis>& axes = nest_.axes;
  if (axes.size() > kMaxAxes)
    return verify_failed("has " + num(axes.size()) + " axes, at most " + num(kMaxAxes));
  int count[4] = {0, 0, 0, 0};
  int tiles = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& a = axes[i];
    if (static_cast<int>(a.role) > 3 || static_cast<int>(a.kind) > 2)
      return verify_failed("axis " + num(i) + ": bad role");
    const std::string who = "axis " + axis_text(nest_, static_cast<AxisId>(i)) + ": ";
    if (i > 0 && a.role < axes[i - 1].role) {
      return verify_failed(who + "a " + role_name(a.role) + " axis after a " +
                           role_name(axes[i - 1].role) +
                           " axis; the order is loops, partition, free, contract");
    }
    ++count[static_cast<int>(a.role)];
    NAX_RETURN_IF_ERROR(slot(a.extent, "an axis's extent", true));
    if (a.kind == LoopKind::kCarried && a.role != AxisRole::kPartition) {
      return verify_failed(who + "only the partition axis can be carried");
    }
    if (a.kind == LoopKind::kSequential && a.role == AxisRole::kContract) {
      return verify_failed(who + "a contract axis is always ascending; it has no kind");
    }
    if (a.split_outer != kNone) {
      NAX_RETURN_IF_ERROR(split(static_cast<AxisId>(i)));
    } else if (a.split_limit != kNoSlot) {
      return verify_failed(who + "has the limit of a split, but no outer axis");
    }
    if (a.tile == kNoSlot) continue;
    if (a.role != AxisRole::kFree) return verify_failed(who + "only a free axis has a tile size");
    NAX_RETURN_IF_ERROR(slot(a.tile, "an axis's tile size", true));
    const Slot& s = program_.slots[a.tile];
    if (s.op == SlotOp::kConst && s.imm < 1)
      return verify_failed(who + "tile size " + num(s.imm) + ", at least 1");
    ++tiles;
  }
  if (count[1] > 1) return verify_failed("has " + num(count[1]) + " partition axes, at most one");
  if (tiles > 1)
    return verify_failed(
        "two free axes have a tile size; it counts elements of all free axes together");
  if (!nest_.has_matmul && count[3] != 0)
    return verify_failed("has a contract axis, but no matmul");
  if (nest_.has_matmul && (count[1] != 1 || count[2] != 1 || count[3] != 1)) {
    return verify_failed(
        "a matmul needs one partition axis (m), one free axis (n) and one contract axis (k), "
        "found " +
        num(count[1]) + ", " + num(count[2]) + " and " + num(count[3]));
  }
  if (nest_.has_matmul && carries_partition(nest_)) {
    return verify_failed(
        "the partition axis of a matmul cannot be carried: reduce its rows in a nest of their own");
  }
  return {};
}

Status NestVerifier::split(AxisId id) {
  const Axis& a = nest_.axes[id];
  const std::string who = "axis " + axis_text(nest_, id) + ": ";
  if (a.split_outer < 0 || a.split_outer >= id)
    return verify_failed(who + "the outer axis of a split must be an earlier one");
  const Axis& outer = nest_.axes[a.split_outer];
  if (outer.role != AxisRole::kLoop && outer.role != AxisRole::kPartition) {
    return verify_failed(who + "the outer axis of a split is a loop or the partition axis");
  }
  if (outer.split_outer != kNone)
    return verify_failed(who + "the outer axis of a split is itself split");
  if (a.role == AxisRole::kContract) return verify_failed(who + "a contract axis cannot be split");
  for (AxisId other = 0; other < id; ++other) {
    if (nest_.axes[other].split_outer == a.split_outer) {
      return verify_failed(who + axis_text(nest_, a.split_outer) +
                           " is already the outer axis of another split");
    }
  }
  if (a.role == AxisRole::kFree) {
    const auto free = std::count_if(nest_.axes.begin(), nest_.axes.end(),
                                    [](const Axis& x) { return x.role == AxisRole::kFree; });
    if (free > 1) return verify_failed(who + "a split free axis must be the only free axis");
  }
  return slot(a.split_limit, "the limit of a split", true);
}

Status NestVerifier::tiles() {
  if (nest_.tiles.size() > 4096) return verify_failed("a nest has at most 4096 tiles");
  for (size_t i = 0; i < nest_.tiles.size(); ++i) {
    const Tile& t = nest_.tiles[i];
    const std::string who = "tile t" + num(i) + ": ";
    if (static_cast<int>(t.shape) > 3 || static_cast<int>(t.space) > 1)
      return verify_failed(who + "bad shape or space");
    if (static_cast<int>(t.dtype) >= kDTypeCount || !is_computable(t.dtype)) {
      return verify_failed(
          who +
          "dtype is not computable; allowed: bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64");
    }
    if (t.space == Space::kPsum &&
        !(nest_.has_matmul && nest_.matmul.psum == static_cast<TileId>(i))) {
      return verify_failed(who +
                           "a psum tile is the result of its nest's matmul and of nothing else");
    }
  }
  return {};
}

Status NestVerifier::matmul() {
  const Matmul& m = nest_.matmul;
  if (m.psum < 0 || static_cast<size_t>(m.psum) >= nest_.tiles.size())
    return verify_failed("its tile is out of range");
  const Tile& t = nest_.tiles[m.psum];
  if (t.space != Space::kPsum || t.shape != TileShape::kFull)
    return verify_failed("its tile must be psum [p, f]");
  if (m.op >= program_.op_count) {
    return verify_failed("op " + num(m.op) + ", the program has " + num(program_.op_count));
  }
  NAX_RETURN_IF_ERROR(
      access(m.a, false, {AxisRole::kLoop, AxisRole::kPartition, AxisRole::kContract}));
  NAX_RETURN_IF_ERROR(access(m.b, false, {AxisRole::kLoop, AxisRole::kFree, AxisRole::kContract}));
  if (m.a.index != kNone || m.b.index != kNone)
    return verify_failed("a matmul operand cannot be indirect: gather it first");
  const DType a = program_.args[m.a.arg].dtype, b = program_.args[m.b.arg].dtype;
  if (a != b) {
    return verify_failed("operands of " + std::string(dtype_name(a)) + " and " +
                         std::string(dtype_name(b)) + "; both must have the same dtype");
  }
  if (a == DType::kBool) return verify_failed("operands of bool have no product");
  DType want = DType::kI32;
  if (is_floating(a)) want = a == DType::kF64 ? DType::kF64 : DType::kF32;
  if (a == DType::kI64) want = DType::kI64;
  if (t.dtype != want) {
    return verify_failed("operands of " + std::string(dtype_name(a)) + " accumulate in " +
                         std::string(dtype_name(want)) + ", the tile is " +
                         std::string(dtype_name(t.dtype)));
  }
  state_[m.psum] = State::kWritten;
  from_body_[m.psum] = true;
  return {};
}

Status NestVerifier::access(const HbmAccess& h, bool store, const std::vector<AxisRole>& roles) {
  if (h.arg < 0 || static_cast<size_t>(h.arg) >= program_.args.size())
    return verify_failed("the argument is out of range");
  const ArgDecl& a = program_.args[h.arg];
  const std::string name = "a" + num(h.arg);
  if (a.kind != ArgKind::kView && a.kind != ArgKind::kScratch)
    return verify_failed(name + " is not in HBM");
  NAX_RETURN_IF_ERROR(slot(h.offset, "an access's offset", false));
  int dims = 0;
  for (int i = 0; i < kMaxAxes; ++i) {
    if (h.strides[i] == kNoSlot) continue;
    if (static_cast<size_t>(i) >= nest_.axes.size())
      return verify_failed(name + ": a stride for an axis that does not exist");
    NAX_RETURN_IF_ERROR(slot(h.strides[i], "a stride", true));
    const AxisRole role = nest_.axes[i].role;
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) {
      return verify_failed(name + ": a stride along axis " +
                           axis_text(nest_, static_cast<AxisId>(i)) +
                           ", which its tile does not span");
    }
    dims += role != AxisRole::kLoop;
  }
  if (dims > 5)
    return verify_failed(name + ": an access pattern has at most 5 dimensions, found " + num(dims));
  if (h.accumulate && !store) return verify_failed(name + ": only a store accumulates");
  if (store || h.accumulate) (*used_)[h.arg].written = true;
  if (!store || h.accumulate) (*used_)[h.arg].read = true;
  if (a.kind == ArgKind::kScratch) {
    if ((!store || h.accumulate) && !(*scratch_written_)[h.arg])
      return verify_failed(name + ": scratch is read before it is written");
    if (store) (*scratch_written_)[h.arg] = true;
  }
  if (h.index == kNone) {
    if (h.index_stride != kNoSlot || h.index_size != kNoSlot)
      return verify_failed(name + ": index slots without an index tile");
    return {};
  }
  if (h.index < 0 || static_cast<size_t>(h.index) >= nest_.tiles.size())
    return verify_failed(name + ": the index tile is out of range");
  NAX_RETURN_IF_ERROR(slot(h.index_stride, "an index's stride", true));
  return slot(h.index_size, "an index's size", true);
}

}  // namespace nax
