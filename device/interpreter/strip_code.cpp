#include "device/interpreter/strip_code.h"

#include <algorithm>
#include <string>

namespace nax {
namespace {

constexpr int64_t kHalfL1 = 16384;

bool memory_is_strip(DType t) {
  return t == DType::kF32 || t == DType::kF64 || t == DType::kI64 || t == DType::kI32;
}

Status missing(std::string what, Lane lane) {
  constexpr std::string_view kLanes[] = {"f32", "f64", "i64", "i32"};
  return unimplemented(std::move(what) + " on " + std::string(kLanes[static_cast<int>(lane)]) + " lanes");
}

class Maker {
 public:
  Maker(const LaneProgram& lanes, HostIsa isa) : p_(lanes) {
    code_.lanes = &lanes;
    code_.isa = isa;
  }

  StatusOr<StripCode> make() {
    for (const LaneOp& op : p_.ops) NAX_RETURN_IF_ERROR(look_up(op));
    merge_stores();
    assign_slots();
    estimate();
    return std::move(code_);
  }

 private:
  bool is_row(TileShape shape) const { return shape == TileShape::kRow || shape == TileShape::kOne; }
  const LaneValue& value(int16_t id) const { return p_.values[id]; }

  Status look_up(const LaneOp& op) {
    StripOp s;
    s.kind = op.kind;
    const HostIsa isa = code_.isa;
    if (op.dst >= 0) {
      s.dst_size = static_cast<uint8_t>(lane_size(value(op.dst).lane));
      s.row = is_row(value(op.dst).shape) && op.kind != LaneOpKind::kReduce;
    }
    if (op.src[0].kind == LaneOperand::Kind::kValue) s.src_size = static_cast<uint8_t>(lane_size(value(op.src[0].id).lane));
    switch (op.kind) {
      case LaneOpKind::kLoad: {
        const LaneAccess& access = p_.accesses[op.access];
        s.memory_size = static_cast<uint8_t>(dtype_size(access.dtype));
        s.load = load_fn(isa, access.dtype);
        s.in_place_load = memory_is_strip(access.dtype) && access.rereadable && access.index_value < 0;
        break;
      }
      case LaneOpKind::kStore: {
        const LaneAccess& access = p_.accesses[op.access];
        s.row = is_row(access.shape);
        s.memory_size = static_cast<uint8_t>(dtype_size(access.dtype));
        s.store = store_fn(isa, access.dtype);
        if (access.hbm.accumulate) {
          s.load = load_fn(isa, access.dtype);
          s.combine = combine_fn(isa, access.dtype == DType::kBool ? ReduceFn::kAny : ReduceFn::kSum, op.lane);
          s.round = round_fn(isa, access.dtype);
          if (s.combine == nullptr) return missing("an accumulating store", op.lane);
        }
        break;
      }
      case LaneOpKind::kApply: {
        const ScalarOpInfo& info = scalar_op_info(op.fn);
        s.arity = info.arity;
        for (unsigned form = 0; form < 8; ++form) {
          if (form >> info.arity) break;
          s.apply[form] = strip_fn(isa, op.fn, op.lane, form, value(op.dst).dtype);
        }
        if (s.apply[kStripAll] == nullptr) return missing(std::string(info.name), op.lane);
        break;
      }
      case LaneOpKind::kConvert:
        s.cast = cast_fn(isa, op.lane, value(op.dst).dtype);
        if (s.src_size == 0) s.src_size = static_cast<uint8_t>(lane_size(op.lane));
        if (s.cast == nullptr) return missing("a conversion to " + std::string(dtype_name(value(op.dst).dtype)), op.lane);
        break;
      case LaneOpKind::kReduce:
        s.row_reduce = row_reduce_fn(isa, op.reduce, op.lane);
        s.round = round_fn(isa, value(op.dst).dtype);
        if (s.row_reduce == nullptr) return missing("this reduction", op.lane);
        break;
      case LaneOpKind::kPartitionReduce:
        s.row = is_row(value(op.src[0].id).shape);
        s.column_reduce = column_reduce_fn(isa, op.reduce, op.lane);
        s.combine = combine_fn(isa, op.reduce, op.lane);
        if (s.column_reduce == nullptr || s.combine == nullptr) return missing("this partition reduction", op.lane);
        break;
      case LaneOpKind::kIota:
        s.cast = cast_fn(isa, op.lane, value(op.dst).dtype);
        break;
      case LaneOpKind::kScan:
        s.scan = scan_fn(isa, op.reduce, op.lane);
        if (s.scan == nullptr) return missing("this scan", op.lane);
        break;
      case LaneOpKind::kPhilox: break;
    }
    code_.ops.push_back(s);
    return {};
  }

  bool may_alias(int16_t a, int16_t b) const {
    // Whatever the rule of the build: a merge must be right for all.
    return p_.accesses[a].source == AccessSource::kHbm && p_.accesses[b].source == AccessSource::kHbm;
  }

  // A store merges into the op that makes its value when nothing between the two, nor a load read in place after them,
  // could see the difference.
  void merge_stores() {
    const int n = static_cast<int>(p_.ops.size());
    for (int j = 0; j < n; ++j) {
      const LaneOp& store = p_.ops[j];
      if (store.kind != LaneOpKind::kStore || code_.ops[j].row) continue;
      const LaneAccess& access = p_.accesses[store.access];
      if (access.index_value >= 0 || access.hbm.accumulate || !memory_is_strip(access.dtype)) continue;
      const LaneValue& v = value(store.src[0].id);
      const int i = v.def;
      const LaneOp& def = p_.ops[i];
      if (v.dtype != access.dtype || v.shape != TileShape::kFull || v.row_buffer >= 0 || def.stage != store.stage) continue;
      if (def.kind != LaneOpKind::kApply && def.kind != LaneOpKind::kConvert) continue;
      if (code_.ops[i].direct_store >= 0) continue;
      bool safe = true;
      for (int k = i + 1; k < j && safe; ++k)
        if (p_.ops[k].access >= 0 && p_.ops[k].kind != LaneOpKind::kIota && p_.ops[k].kind != LaneOpKind::kPhilox &&
            may_alias(p_.ops[k].access, store.access))
          safe = false;
      // In-place loads made before, read after: their memory must not change before the last use.
      for (int l = 0; l < i && safe; ++l) {
        if (p_.ops[l].kind != LaneOpKind::kLoad || !may_alias(p_.ops[l].access, store.access)) continue;
        for (int k = i + 1; k < n; ++k)
          for (const LaneOperand& s : p_.ops[k].src)
            if (s.kind == LaneOperand::Kind::kValue && s.id == p_.ops[l].dst) safe = false;
      }
      // The value itself, read from memory by later ops: no other store may follow before them.
      for (int k = j + 1; k < n && safe; ++k) {
        if (p_.ops[k].kind != LaneOpKind::kStore || !may_alias(p_.ops[k].access, store.access)) continue;
        for (int u = k; u < n; ++u)
          for (const LaneOperand& s : p_.ops[u].src)
            if (s.kind == LaneOperand::Kind::kValue && s.id == store.src[0].id) safe = false;
      }
      if (!safe) continue;
      code_.ops[i].direct_store = static_cast<int16_t>(j);
      code_.ops[j].merged_into = static_cast<int16_t>(i);
    }
  }

  // Linear scan over each stage. kRow and kOne values keep a slot of their own, and so do loads that several stages repeat.
  void assign_slots() {
    code_.slots.assign(p_.values.size(), -1);
    std::vector<int> listed(p_.values.size(), 0);
    for (const LaneStage& stage : p_.stages)
      for (int16_t i : stage.strip_ops)
        if (p_.ops[i].dst >= 0) ++listed[p_.ops[i].dst];
    std::vector<int16_t> own;
    for (size_t v = 0; v < p_.values.size(); ++v) {
      if (p_.values[v].shape != TileShape::kFull) code_.slots[v] = static_cast<int16_t>(code_.row_slots++);
      else code_.lane_bytes = std::max(code_.lane_bytes, lane_size(p_.values[v].lane));
    }
    int live_most = 1;
    for (const LaneStage& stage : p_.stages) {
      std::vector<int> last(p_.values.size(), -1);
      for (size_t k = 0; k < stage.strip_ops.size(); ++k) {
        const LaneOp& op = p_.ops[stage.strip_ops[k]];
        for (const LaneOperand& s : op.src)
          if (s.kind == LaneOperand::Kind::kValue) last[s.id] = static_cast<int>(k);
        if (op.access >= 0 && p_.accesses[op.access].index_value >= 0) last[p_.accesses[op.access].index_value] = static_cast<int>(k);
      }
      std::vector<int16_t> free_slots;
      int used = 0, live = 0;
      for (size_t k = 0; k < stage.strip_ops.size(); ++k) {
        const LaneOp& op = p_.ops[stage.strip_ops[k]];
        int16_t reusable[4];
        int count = 0;
        const auto release = [&](int16_t v) {
          if (p_.values[v].shape != TileShape::kFull || last[v] != static_cast<int>(k) || code_.slots[v] < 0) return;
          if (p_.values[v].row_buffer >= 0 || listed[v] > 1) return;
          last[v] = -2;  // once
          reusable[count++] = code_.slots[v];
        };
        for (const LaneOperand& s : op.src)
          if (s.kind == LaneOperand::Kind::kValue) release(s.id);
        if (op.access >= 0 && p_.accesses[op.access].index_value >= 0) release(p_.accesses[op.access].index_value);
        if (op.dst >= 0 && p_.values[op.dst].shape == TileShape::kFull) {
          ++live;
          live_most = std::max(live_most, live);
          if (listed[op.dst] > 1) {
            if (std::find(own.begin(), own.end(), op.dst) == own.end()) own.push_back(op.dst);
            for (int c = 0; c < count; ++c) free_slots.push_back(reusable[c]), --live;
            continue;
          }
          // In place is allowed where the lanes have one size; slots have room for the widest, so only sizes matter.
          const bool in_place = count > 0 && code_.lane_bytes == 4 && op.kind == LaneOpKind::kApply;
          if (in_place) {
            code_.slots[op.dst] = reusable[--count];
          } else if (!free_slots.empty()) {
            code_.slots[op.dst] = free_slots.back();
            free_slots.pop_back();
          } else {
            code_.slots[op.dst] = static_cast<int16_t>(used++);
          }
          if (in_place) --live;
          if (last[op.dst] < 0 && p_.values[op.dst].row_buffer < 0) {  // never read here
            free_slots.push_back(code_.slots[op.dst]);
            --live;
          }
        }
        for (int c = 0; c < count; ++c) free_slots.push_back(reusable[c]), --live;
      }
      code_.strip_slots = std::max(code_.strip_slots, used);
    }
    for (int16_t v : own) code_.slots[v] = static_cast<int16_t>(code_.strip_slots++);
    // Loads read in place share L1 too, so they count although they use no slot.
    const int64_t fit = kHalfL1 / (live_most * static_cast<int64_t>(code_.lane_bytes)) / kRowChunk * kRowChunk;
    code_.strip = std::clamp<int64_t>(fit, kRowChunk, 2048);
  }

  void estimate() {
    double ns = 0;
    for (const LaneOp& op : p_.ops) {
      const double wide = op.dst >= 0 && lane_size(value(op.dst).lane) == 8 ? 2 : 1;
      switch (op.kind) {
        case LaneOpKind::kLoad:
        case LaneOpKind::kStore: {
          const LaneAccess& access = p_.accesses[op.access];
          ns += access.shape != TileShape::kFull ? 0 : access.index_value >= 0 ? 2 : 0.05 * static_cast<double>(dtype_size(access.dtype));
          break;
        }
        case LaneOpKind::kApply: {
          if (value(op.dst).shape != TileShape::kFull) break;
          const ScalarCost cost = scalar_op_info(op.fn).cost;
          ns += wide * (cost == ScalarCost::kSimple ? 0.08 : cost == ScalarCost::kSoftware ? 2 : 0.6);
          break;
        }
        case LaneOpKind::kScan: ns += 1; break;
        case LaneOpKind::kPhilox: ns += 4; break;
        default: ns += 0.1 * wide;
      }
    }
    code_.element_ns = std::max(ns, 0.05);
  }

  const LaneProgram& p_;
  StripCode code_;
};

}  // namespace

StatusOr<StripCode> make_strip_code(const LaneProgram& lanes, HostIsa isa) { return Maker(lanes, isa).make(); }

}  // namespace nax
