#include "device/interpreter/build_lanes.h"

#include <algorithm>
#include <optional>
#include <string>

#include "device/isa/opcode_info.h"

namespace nax {
namespace {

DType natural_dtype(Lane lane) {
  switch (lane) {
    case Lane::kF32: return DType::kF32;
    case Lane::kF64: return DType::kF64;
    case Lane::kI64: return DType::kI64;
    case Lane::kI32: return DType::kI32;
  }
  return DType::kInvalid;
}

// Order of promotion between operands of different lanes.
int lane_rank(Lane lane) {
  switch (lane) {
    case Lane::kI32: return 0;
    case Lane::kI64: return 1;
    case Lane::kF32: return 2;
    case Lane::kF64: return 3;
  }
  return 0;
}

// A load of `from` gives values of `to` without rounding, in one lane.
bool widens(DType from, DType to) {
  return from == to || (lane_of(from) == lane_of(to) && to == natural_dtype(lane_of(to)));
}

class Builder {
 public:
  Builder(const Program& program, const Nest& nest, AliasRule rule)
      : program_(program), nest_(nest), rule_(rule), current_(nest.tiles.size(), -1),
        column_of_(nest.tiles.size(), -1), in_finish_(nest.tiles.size(), false) {}

  StatusOr<LaneProgram> build() {
    if (nest_.has_matmul) define_psum();
    for (const Instr& instr : nest_.body) NAX_RETURN_IF_ERROR(add(instr));
    std::vector<const Instr*> column_instrs;
    for (const Instr& instr : nest_.finish) {
      if (belongs_to_columns(instr)) {
        if (instr.dst != kNone) in_finish_[instr.dst] = true;
        column_instrs.push_back(&instr);
      } else {
        NAX_RETURN_IF_ERROR(add(instr));
      }
    }
    NAX_RETURN_IF_ERROR(assign_stages());
    if (!out_.accumulators.empty() || !column_instrs.empty()) NAX_RETURN_IF_ERROR(build_finish(column_instrs));
    return std::move(out_);
  }

 private:
  // ---- Values ----

  int16_t new_value(DType dtype, TileShape shape) {
    LaneValue v;
    v.lane = lane_of(dtype);
    v.dtype = dtype;
    v.shape = shape;
    out_.values.push_back(v);
    return static_cast<int16_t>(out_.values.size() - 1);
  }

  int16_t emit(LaneOp op) {
    const int16_t index = static_cast<int16_t>(out_.ops.size());
    if (op.dst >= 0) out_.values[op.dst].def = index;
    out_.ops.push_back(op);
    return index;
  }

  static LaneOperand value_operand(int16_t id) { return {LaneOperand::Kind::kValue, id}; }

  LaneOperand scalar_operand(const Operand& source, Lane lane) {
    for (size_t i = 0; i < out_.scalars.size(); ++i) {
      const LaneScalar& s = out_.scalars[i];
      if (s.source.kind == source.kind && s.source.id == source.id && s.lane == lane)
        return {LaneOperand::Kind::kScalar, static_cast<int16_t>(i)};
    }
    out_.scalars.push_back({source, lane});
    return {LaneOperand::Kind::kScalar, static_cast<int16_t>(out_.scalars.size() - 1)};
  }

  // Value of a tile operand, or -1.
  StatusOr<int16_t> tile_value(const Operand& operand) {
    const int16_t v = current_[operand.id];
    if (v < 0) return unimplemented("tile t" + std::to_string(operand.id) + " is read before it is written in this phase");
    return v;
  }

  // The value converted to `dtype` where its lane differs; shapes stay.
  int16_t converted(int16_t value, DType dtype, uint16_t op) {
    LaneOp convert;
    convert.kind = LaneOpKind::kConvert;
    convert.lane = out_.values[value].lane;
    convert.src[0] = value_operand(value);
    convert.op = op;
    convert.dst = new_value(dtype, out_.values[value].shape);
    emit(convert);
    return convert.dst;
  }

  int16_t to_lane(int16_t value, Lane lane, uint16_t op) {
    return out_.values[value].lane == lane ? value : converted(value, natural_dtype(lane), op);
  }

  // ---- Instructions ----

  void define_psum() {
    const Tile& tile = nest_.tiles[nest_.matmul.psum];
    LaneAccess access;
    access.source = AccessSource::kPsum;
    access.dtype = tile.dtype;
    access.inner = InnerStride::kUnit;
    out_.accesses.push_back(access);
    LaneOp load;
    load.kind = LaneOpKind::kLoad;
    load.lane = lane_of(tile.dtype);
    load.access = 0;
    load.dst = new_value(tile.dtype, TileShape::kFull);
    load.op = nest_.matmul.op;
    emit(load);
    current_[nest_.matmul.psum] = load.dst;
  }

  InnerStride static_inner(const HbmAccess& hbm) const {
    int inner = -1;
    for (size_t a = 0; a < nest_.axes.size(); ++a)
      if (nest_.axes[a].role == AxisRole::kFree) inner = static_cast<int>(a);
    if (inner < 0 || hbm.strides[inner] == kNoSlot) return InnerStride::kZero;
    const Slot& slot = program_.slots[hbm.strides[inner]];
    if (slot.op != SlotOp::kConst) return InnerStride::kAny;
    return slot.imm == 0 ? InnerStride::kZero : slot.imm == 1 ? InnerStride::kUnit : InnerStride::kAny;
  }

  StatusOr<int16_t> add_access(const Instr& instr, bool store, TileShape shape) {
    LaneAccess access;
    access.hbm = instr.hbm;
    access.store = store;
    access.dtype = program_.args[instr.hbm.arg].dtype;
    access.shape = shape;
    access.inner = static_inner(instr.hbm);
    if (!is_computable(access.dtype))
      return unimplemented("dma_copy of " + std::string(dtype_name(access.dtype)) +
                           ": allowed are bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64");
    if (instr.hbm.index != kNone) {
      const int16_t index = current_[instr.hbm.index];
      if (index < 0) return unimplemented("an index tile is read before it is written");
      const Lane lane = out_.values[index].lane;
      if (lane != Lane::kI64 && lane != Lane::kI32) return unimplemented("an index tile must hold integers");
      access.index_value = to_lane(index, Lane::kI64, instr.op);
      out_.has_indirect = true;
      out_.may_fail = true;
    }
    out_.accesses.push_back(access);
    return static_cast<int16_t>(out_.accesses.size() - 1);
  }

  Status add(const Instr& instr) {
    switch (instr.opcode) {
      case Opcode::kDmaLoad: return add_load(instr);
      case Opcode::kDmaStore: return add_store(instr);
      case Opcode::kTensorCopy:
      case Opcode::kMemset: return add_copy(instr);
      case Opcode::kTensorTensor:
      case Opcode::kTensorScalar:
      case Opcode::kActivation:
      case Opcode::kSelect:
      case Opcode::kPointwise: return add_apply(instr);
      case Opcode::kTensorReduce: return add_reduce(instr);
      case Opcode::kPartitionReduce: return add_partition_reduce(instr);
      case Opcode::kIota: return add_iota(instr);
      case Opcode::kScan: return add_scan(instr);
      case Opcode::kPhilox: return add_philox(instr);
    }
    return unimplemented("opcode " + std::to_string(static_cast<int>(instr.opcode)));
  }

  Status add_load(const Instr& instr) {
    const Tile& tile = nest_.tiles[instr.dst];
    NAX_ASSIGN_OR_RETURN(const int16_t access, add_access(instr, false, tile.shape));
    const DType from = out_.accesses[access].dtype;
    const bool direct = widens(from, tile.dtype);
    LaneOp load;
    load.kind = LaneOpKind::kLoad;
    load.lane = lane_of(from);
    load.access = access;
    load.op = instr.op;
    load.dst = new_value(direct ? tile.dtype : from, tile.shape);
    emit(load);
    current_[instr.dst] = direct ? load.dst : converted(load.dst, tile.dtype, instr.op);
    return {};
  }

  Status add_store(const Instr& instr) {
    LaneOp store;
    store.kind = LaneOpKind::kStore;
    store.op = instr.op;
    const DType to = program_.args[instr.hbm.arg].dtype;
    TileShape shape = TileShape::kFull;
    if (instr.src[0].kind != OperandKind::kTile) return unimplemented("dma_copy from a scalar: use memset and a tile");
    shape = nest_.tiles[instr.src[0].id].shape;
    NAX_ASSIGN_OR_RETURN(int16_t value, tile_value(instr.src[0]));
    if (out_.values[value].lane != lane_of(to)) value = converted(value, to, instr.op);
    NAX_ASSIGN_OR_RETURN(store.access, add_access(instr, true, shape));
    store.lane = lane_of(to);
    store.src[0] = value_operand(value);
    emit(store);
    return {};
  }

  Status add_copy(const Instr& instr) {
    const Tile& tile = nest_.tiles[instr.dst];
    LaneOp copy;
    copy.kind = LaneOpKind::kConvert;
    copy.op = instr.op;
    if (instr.src[0].kind == OperandKind::kTile) {
      NAX_ASSIGN_OR_RETURN(const int16_t value, tile_value(instr.src[0]));
      const LaneValue& v = out_.values[value];
      if (v.shape == tile.shape && widens(v.dtype, tile.dtype)) {
        current_[instr.dst] = value;
        return {};
      }
      copy.lane = v.lane;
      copy.src[0] = value_operand(value);
    } else {
      copy.lane = lane_of(tile.dtype);
      copy.src[0] = scalar_operand(instr.src[0], copy.lane);
    }
    copy.dst = new_value(tile.dtype, tile.shape);
    emit(copy);
    current_[instr.dst] = copy.dst;
    return {};
  }

  Status add_apply(const Instr& instr) {
    const ScalarOp fn = instr.opcode == Opcode::kSelect ? ScalarOp::kSelect : instr.fn;
    if (fn == ScalarOp::kCopy) return add_copy(instr);
    const ScalarOpInfo& info = scalar_op_info(fn);
    const Tile& tile = nest_.tiles[instr.dst];
    const int first_data = fn == ScalarOp::kSelect ? 1 : 0;  // select's condition does not take part in promotion
    std::optional<Lane> lane;
    std::array<int16_t, 3> values = {-1, -1, -1};
    for (int i = 0; i < info.arity; ++i) {
      if (instr.src[i].kind != OperandKind::kTile) continue;
      NAX_ASSIGN_OR_RETURN(values[i], tile_value(instr.src[i]));
      const Lane l = out_.values[values[i]].lane;
      if (i >= first_data && (!lane || lane_rank(l) > lane_rank(*lane))) lane = l;
    }
    if (!lane) lane = info.result == ScalarResult::kBool ? Lane::kF64 : lane_of(tile.dtype);
    if (!info.allows(*lane))
      return unimplemented(std::string(info.name) + " on the lane of " + std::string(dtype_name(natural_dtype(*lane))));
    LaneOp apply;
    apply.kind = LaneOpKind::kApply;
    apply.fn = fn;
    apply.lane = *lane;
    apply.op = instr.op;
    for (int i = 0; i < info.arity; ++i) {
      const Lane want = i < first_data ? Lane::kI32 : *lane;
      if (values[i] >= 0) {
        const LaneValue& v = out_.values[values[i]];
        if (i < first_data && v.lane != Lane::kI32)
          apply.src[i] = value_operand(converted(values[i], DType::kBool, instr.op));
        else
          apply.src[i] = value_operand(to_lane(values[i], want, instr.op));
      } else {
        apply.src[i] = scalar_operand(instr.src[i], want);
      }
    }
    const Lane result = info.result == ScalarResult::kBool ? Lane::kI32 : *lane;
    const bool direct = info.result == ScalarResult::kBool ? tile.dtype == DType::kBool : lane_of(tile.dtype) == result;
    const DType dtype = direct ? tile.dtype
                        : info.result == ScalarResult::kBool ? DType::kBool
                                                             : natural_dtype(result);
    apply.dst = new_value(dtype, tile.shape);
    if (info.may_fail && (*lane == Lane::kI32 || *lane == Lane::kI64)) out_.may_fail = true;
    emit(apply);
    current_[instr.dst] = direct ? apply.dst : converted(apply.dst, tile.dtype, instr.op);
    return {};
  }

  // The operand of a reduction in the lane it accumulates in: that of the result, bools for any and all.
  StatusOr<int16_t> reduction_operand(const Instr& instr, const Tile& tile) {
    if (instr.src[0].kind != OperandKind::kTile) return unimplemented("a reduction of a scalar");
    NAX_ASSIGN_OR_RETURN(int16_t value, tile_value(instr.src[0]));
    if (instr.reduce == ReduceFn::kAny || instr.reduce == ReduceFn::kAll) {
      if (lane_of(tile.dtype) != Lane::kI32) return unimplemented("any/all into a tile that is not bool, u8, i8, i16 or i32");
      return out_.values[value].dtype == DType::kBool ? value : converted(value, DType::kBool, instr.op);
    }
    return to_lane(value, lane_of(tile.dtype), instr.op);
  }

  Status add_reduce(const Instr& instr) {
    const Tile& tile = nest_.tiles[instr.dst];
    NAX_ASSIGN_OR_RETURN(const int16_t value, reduction_operand(instr, tile));
    if (out_.values[value].shape != TileShape::kFull) return unimplemented("tensor_reduce of a tile without a free axis");
    if (tile.shape != TileShape::kRow) return unimplemented("tensor_reduce into a tile that is not [p, 1]");
    LaneOp reduce;
    reduce.kind = LaneOpKind::kReduce;
    reduce.reduce = instr.reduce;
    reduce.order = instr.order;
    reduce.lane = out_.values[value].lane;
    reduce.op = instr.op;
    reduce.src[0] = value_operand(value);
    if (!instr.start) {
      if (instr.order == ReduceOrder::kTree) return unimplemented("a tree reduction that goes on from a tile");
      if (current_[instr.dst] < 0) return unimplemented("a reduction goes on from a tile that was never written");
      reduce.src[1] = value_operand(to_lane(current_[instr.dst], reduce.lane, instr.op));
    }
    reduce.dst = new_value(tile.dtype, TileShape::kRow);
    out_.has_row_reduction = true;
    emit(reduce);
    current_[instr.dst] = reduce.dst;
    return {};
  }

  Status add_partition_reduce(const Instr& instr) {
    const Tile& tile = nest_.tiles[instr.dst];
    NAX_ASSIGN_OR_RETURN(const int16_t value, reduction_operand(instr, tile));
    const TileShape from = out_.values[value].shape;
    const bool full = from == TileShape::kFull && tile.shape == TileShape::kColumn;
    if (!full && !(from == TileShape::kRow && tile.shape == TileShape::kOne))
      return unimplemented("tensor_partition_reduce: allowed are [p, f] to [1, f] and [p, 1] to [1, 1]");
    if (!instr.start) return unimplemented("tensor_partition_reduce that goes on from a tile");
    ColumnAccumulator acc;
    acc.reduce = instr.reduce;
    acc.order = instr.order;
    acc.lane = out_.values[value].lane;
    acc.dtype = tile.dtype;
    acc.shape = tile.shape;
    LaneOp reduce;
    reduce.kind = LaneOpKind::kPartitionReduce;
    reduce.reduce = instr.reduce;
    reduce.order = instr.order;
    reduce.lane = acc.lane;
    reduce.op = instr.op;
    reduce.accumulator = static_cast<int16_t>(out_.accumulators.size());
    reduce.src[0] = value_operand(value);
    column_of_[instr.dst] = reduce.accumulator;
    out_.accumulators.push_back(acc);
    current_[instr.dst] = -1;  // known in `finish` only
    emit(reduce);
    return {};
  }

  int16_t index_access(int16_t axis, TileShape shape) {
    LaneAccess access;
    access.source = AccessSource::kIndex;
    access.id = axis;
    access.dtype = DType::kI64;
    access.shape = shape;
    access.rereadable = true;
    out_.accesses.push_back(access);
    return static_cast<int16_t>(out_.accesses.size() - 1);
  }

  Status add_iota(const Instr& instr) {
    const Tile& tile = nest_.tiles[instr.dst];
    LaneOp iota;
    iota.kind = LaneOpKind::kIota;
    iota.op = instr.op;
    iota.lane = is_floating(tile.dtype) ? Lane::kF64 : Lane::kI64;
    for (int i = 0; i < 2; ++i) {
      if (instr.src[i].kind == OperandKind::kTile || instr.src[i].kind == OperandKind::kNone)
        return unimplemented("iota with a tile as start or step: allowed are scalars");
      iota.src[i] = scalar_operand(instr.src[i], iota.lane);
    }
    iota.access = index_access(instr.axis, tile.shape);
    iota.dst = new_value(tile.dtype, tile.shape);
    emit(iota);
    current_[instr.dst] = iota.dst;
    return {};
  }

  Status add_scan(const Instr& instr) {
    const Tile& tile = nest_.tiles[instr.dst];
    NAX_ASSIGN_OR_RETURN(const int16_t value, reduction_operand(instr, tile));
    if (out_.values[value].shape != TileShape::kFull || tile.shape != TileShape::kFull)
      return unimplemented("a scan of a tile without a free axis");
    if (!instr.start) return unimplemented("a scan that goes on from a tile");
    LaneOp scan;
    scan.kind = LaneOpKind::kScan;
    scan.reduce = instr.reduce;
    scan.lane = out_.values[value].lane;
    scan.op = instr.op;
    scan.src[0] = value_operand(value);
    const bool direct = tile.dtype == natural_dtype(scan.lane) || tile.dtype == DType::kBool;
    scan.dst = new_value(direct ? tile.dtype : natural_dtype(scan.lane), TileShape::kFull);
    out_.has_row_reduction = true;
    emit(scan);
    current_[instr.dst] = direct ? scan.dst : converted(scan.dst, tile.dtype, instr.op);
    return {};
  }

  Status add_philox(const Instr& instr) {
    const Tile& tile = nest_.tiles[instr.dst];
    const Lane lane = lane_of(tile.dtype);
    if (tile.dtype != DType::kI32 && tile.dtype != DType::kI64)
      return unimplemented("x.philox into a tile that is not i32 or i64");
    LaneOp philox;
    philox.kind = LaneOpKind::kPhilox;
    philox.op = instr.op;
    philox.lane = lane;
    if (instr.src[0].kind != OperandKind::kScalarArg || program_.args[instr.src[0].id].kind != ArgKind::kSeed)
      return unimplemented("x.philox needs a seed argument");
    philox.src[0] = {LaneOperand::Kind::kScalar, static_cast<int16_t>(out_.seeds.size())};
    out_.seeds.push_back(instr.src[0].id);
    philox.access = index_access(-1, tile.shape);
    out_.accesses[philox.access].hbm = instr.hbm;
    philox.dst = new_value(tile.dtype, tile.shape);
    emit(philox);
    current_[instr.dst] = philox.dst;
    return {};
  }

  // ---- Finish of a column reduction ----

  bool belongs_to_columns(const Instr& instr) const {
    if (instr.dst != kNone) {
      const TileShape shape = nest_.tiles[instr.dst].shape;
      if (shape == TileShape::kColumn || (shape == TileShape::kOne && !out_.accumulators.empty())) return true;
    }
    for (const Operand& s : instr.src)
      if (s.kind == OperandKind::kTile && (column_of_[s.id] >= 0 || in_finish_[s.id])) return true;
    return false;
  }

  // The instructions of `finish` on one row: columns become kFull, [1, 1] becomes kRow.
  Status build_finish(const std::vector<const Instr*>& instrs) {
    Nest columns;
    columns.axes = nest_.axes;
    columns.tiles = nest_.tiles;
    for (Tile& tile : columns.tiles)
      tile.shape = tile.shape == TileShape::kColumn ? TileShape::kFull
                   : tile.shape == TileShape::kOne  ? TileShape::kRow
                                                    : tile.shape;
    for (const Instr* instr : instrs) columns.body.push_back(*instr);
    Builder builder(program_, columns, rule_);
    for (size_t t = 0; t < column_of_.size(); ++t)
      if (column_of_[t] >= 0) builder.define_accumulator(static_cast<TileId>(t), column_of_[t], out_.accumulators[column_of_[t]]);
    NAX_ASSIGN_OR_RETURN(LaneProgram finish, builder.build());
    if (!finish.accumulators.empty()) return unimplemented("tensor_partition_reduce in finish");
    out_.may_fail |= finish.may_fail;
    out_.finish = std::make_shared<const LaneProgram>(std::move(finish));
    return {};
  }

  void define_accumulator(TileId tile, int16_t id, const ColumnAccumulator& acc) {
    const TileShape shape = acc.shape == TileShape::kColumn ? TileShape::kFull : TileShape::kRow;
    LaneAccess access;
    access.source = AccessSource::kAccumulator;
    access.id = id;
    access.dtype = natural_dtype(acc.lane);
    access.shape = shape;
    access.inner = shape == TileShape::kFull ? InnerStride::kUnit : InnerStride::kZero;
    access.rereadable = true;
    out_.accesses.push_back(access);
    LaneOp load;
    load.kind = LaneOpKind::kLoad;
    load.lane = acc.lane;
    load.access = static_cast<int16_t>(out_.accesses.size() - 1);
    load.dst = new_value(natural_dtype(acc.lane), shape);
    emit(load);
    const bool exact = acc.dtype == natural_dtype(acc.lane);
    current_[tile] = exact ? load.dst : converted(load.dst, acc.dtype, 0);
  }

  // ---- Stages ----

  bool row_op(const LaneOp& op) const {
    TileShape shape = TileShape::kFull;
    if (op.kind == LaneOpKind::kReduce) return false;
    if (op.kind == LaneOpKind::kStore) shape = out_.accesses[op.access].shape;
    else if (op.kind == LaneOpKind::kPartitionReduce) shape = out_.values[op.src[0].id].shape;
    else shape = out_.values[op.dst].shape;
    return shape == TileShape::kRow || shape == TileShape::kOne;
  }

  bool may_alias(int16_t a, int16_t b) const {
    const LaneAccess &x = out_.accesses[a], &y = out_.accesses[b];
    if (x.source != AccessSource::kHbm || y.source != AccessSource::kHbm) return false;
    return rule_ == AliasRule::kAnyArg || x.hbm.arg == y.hbm.arg;
  }

  // Values an op reads, the index of an indirect access included.
  template <class F>
  void for_each_use(const LaneOp& op, F f) const {
    if (op.kind != LaneOpKind::kPhilox)
      for (const LaneOperand& s : op.src)
        if (s.kind == LaneOperand::Kind::kValue) f(s.id);
    if (op.access >= 0 && out_.accesses[op.access].index_value >= 0) f(out_.accesses[op.access].index_value);
  }

  Status assign_stages() {
    std::vector<LaneOp>& ops = out_.ops;
    const int n = static_cast<int>(ops.size());
    std::vector<int> stage(n, 0);
    for (int i = 0; i < n; ++i) {
      const bool row = row_op(ops[i]);
      int s = 0;
      for_each_use(ops[i], [&](int16_t v) {
        const int def = out_.values[v].def;
        // Strips run after the rows of their stage; rows see what strips of earlier stages made.
        const bool later = ops[def].kind == LaneOpKind::kReduce;
        s = std::max(s, stage[def] + (later ? 1 : 0));
      });
      if (ops[i].kind == LaneOpKind::kLoad || ops[i].kind == LaneOpKind::kStore) {
        for (int j = 0; j < i; ++j) {
          if (ops[j].kind != LaneOpKind::kLoad && ops[j].kind != LaneOpKind::kStore) continue;
          if (ops[j].kind == LaneOpKind::kLoad && ops[i].kind == LaneOpKind::kLoad) continue;
          if (!may_alias(ops[j].access, ops[i].access)) continue;
          s = std::max(s, stage[j] + (row && !row_op(ops[j]) ? 1 : 0));
        }
      }
      stage[i] = s;
    }
    sink(stage);
    int stages = 1;
    for (int i = 0; i < n; ++i) stages = std::max(stages, stage[i] + 1 + (ops[i].kind == LaneOpKind::kReduce ? 1 : 0));
    // A reduction whose result nobody reads in a later stage needs none.
    out_.stages.resize(stages);
    mark_rereadable(stage);
    for (int i = 0; i < n; ++i) {
      ops[i].stage = static_cast<int16_t>(stage[i]);
      if (ops[i].dst >= 0) out_.values[ops[i].dst].stage = ops[i].stage;
    }
    place(stage);
    while (out_.stages.size() > 1 && out_.stages.back().row_ops.empty() && out_.stages.back().strip_ops.empty())
      out_.stages.pop_back();
    return {};
  }

  // Moves pure full-tile ops to the first stage that needs them, where that costs no row buffer.
  void sink(std::vector<int>& stage) const {
    const std::vector<LaneOp>& ops = out_.ops;
    for (int i = static_cast<int>(ops.size()) - 1; i >= 0; --i) {
      const LaneOp& op = ops[i];
      const bool pure = op.kind == LaneOpKind::kApply || op.kind == LaneOpKind::kConvert ||
                        op.kind == LaneOpKind::kIota || op.kind == LaneOpKind::kPhilox;
      if (!pure || row_op(op)) continue;
      int first = -1;
      for (size_t j = i + 1; j < ops.size(); ++j)
        for_each_use(ops[j], [&](int16_t v) {
          if (v == op.dst && (first < 0 || stage[j] < first)) first = stage[j];
        });
      if (first <= stage[i]) continue;
      bool cheap = true;
      for_each_use(op, [&](int16_t v) {
        const LaneOp& def = ops[out_.values[v].def];
        if (out_.values[v].shape == TileShape::kFull && def.kind != LaneOpKind::kLoad) cheap = false;
      });
      if (cheap) stage[i] = first;
    }
  }

  // A load may be repeated or delayed to its uses if no store that may hit the same memory runs before the last of them.
  void mark_rereadable(const std::vector<int>& stage) {
    const std::vector<LaneOp>& ops = out_.ops;
    const int n = static_cast<int>(ops.size());
    const auto before = [&](int i, int j) { return stage[i] < stage[j] || (stage[i] == stage[j] && i < j); };
    for (int i = 0; i < n; ++i) {
      if (ops[i].kind != LaneOpKind::kLoad) continue;
      LaneAccess& access = out_.accesses[ops[i].access];
      bool safe = access.source != AccessSource::kHbm || access.index_value < 0;
      for (int j = 0; j < n && safe; ++j) {
        bool uses = false;
        for_each_use(ops[j], [&](int16_t v) { uses |= v == ops[i].dst; });
        if (!uses) continue;
        for (int k = i + 1; k < n; ++k)
          if (ops[k].kind == LaneOpKind::kStore && may_alias(ops[k].access, ops[i].access) && before(k, j)) safe = false;
      }
      access.rereadable = safe;
    }
  }

  void place(const std::vector<int>& stage) {
    const int n = static_cast<int>(out_.ops.size());
    const int stages = static_cast<int>(out_.stages.size());
    // Stages in which a value is read.
    std::vector<std::vector<bool>> used(out_.values.size(), std::vector<bool>(stages, false));
    for (int i = 0; i < n; ++i)
      for_each_use(out_.ops[i], [&](int16_t v) { used[v][stage[i]] = true; });
    std::vector<std::vector<bool>> listed(n, std::vector<bool>(stages, false));
    for (int i = 0; i < n; ++i) {
      const LaneOp& op = out_.ops[i];
      const bool repeat = op.kind == LaneOpKind::kLoad && !row_op(op) && out_.accesses[op.access].rereadable;
      if (!repeat) listed[i][stage[i]] = true;
      if (op.dst < 0 || row_op(op) || op.kind == LaneOpKind::kReduce) continue;
      bool later = false;
      for (int s = 0; s < stages; ++s) {
        if (!used[op.dst][s]) continue;
        if (repeat) listed[i][s] = true;
        else if (s > stage[i]) later = true;
      }
      if (later) out_.values[op.dst].row_buffer = static_cast<int16_t>(out_.row_buffers++);
    }
    for (int s = 0; s < stages; ++s)
      for (int i = 0; i < n; ++i)
        if (listed[i][s]) (row_op(out_.ops[i]) ? out_.stages[s].row_ops : out_.stages[s].strip_ops).push_back(static_cast<int16_t>(i));
  }

  const Program& program_;
  const Nest& nest_;
  const AliasRule rule_;
  LaneProgram out_;
  std::vector<int16_t> current_;    // value of each tile, -1: none
  std::vector<int16_t> column_of_;  // accumulator of each tile, -1: none
  std::vector<bool> in_finish_;     // written by an instruction of `finish` that works on columns
};

}  // namespace

StatusOr<LaneProgram> build_lanes(const Program& program, const Nest& nest, AliasRule rule) {
  return Builder(program, nest, rule).build();
}

}  // namespace nax
