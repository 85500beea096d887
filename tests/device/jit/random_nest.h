// Random nests for comparing tiers: loads of every dtype and shape, random functions with random result dtypes, row and
// column reductions, stores. Valid by construction for build_lanes; every case is reproducible from its seed.
#pragma once

#include <random>

#include "device/isa/program.h"
#include "device/isa/scalar_op.h"

namespace nax::test {

inline constexpr DType kComputable[] = {DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
                                        DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

class RandomNest {
 public:
  explicit RandomNest(uint64_t seed, bool floats_only = false) : rng_(seed), floats_only_(floats_only) {
    program_.name = "random";
    Slot one;
    one.imm = 1;
    program_.slots.push_back(one);  // slot 0: unit stride
    Axis partition, free;
    partition.role = AxisRole::kPartition;
    partition.extent = 0;
    free.role = AxisRole::kFree;
    free.extent = 0;
    nest_.axes = {partition, free};
  }

  Program make(bool reductions, bool columns) {
    const int loads = 1 + pick(4), ops = 1 + pick(14);
    for (int i = 0; i < loads; ++i) load();
    if (full_.empty()) load(TileShape::kFull);
    for (int i = 0; i < ops; ++i) {
      const int kind = pick(12);
      if (reductions && kind == 0) reduce();
      else if (kind == 1) iota();
      else if (kind == 2) copy();
      else apply();
    }
    if (reductions) reduce();
    if (columns) partition_reduce();
    const int stores = 1 + pick(3);
    for (int i = 0; i < stores; ++i) store(pick_from(full_));
    if (!row_.empty() && reductions) store(row_.back());
    program_.nests.push_back(nest_);
    return program_;
  }

 private:
  int pick(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  template <class T>
  const T& pick_from(const std::vector<T>& v) {
    return v[static_cast<size_t>(pick(static_cast<int>(v.size())))];
  }
  DType any_dtype() {
    if (floats_only_) return pick(3) == 0 ? DType::kBF16 : DType::kF32;
    return kComputable[pick(static_cast<int>(std::size(kComputable)))];
  }

  TileId tile(DType dtype, TileShape shape) {
    Tile t;
    t.dtype = dtype;
    t.shape = shape;
    nest_.tiles.push_back(t);
    const auto id = static_cast<TileId>(nest_.tiles.size() - 1);
    (shape == TileShape::kFull ? full_ : row_).push_back(id);
    return id;
  }
  ArgId view(DType dtype) {
    ArgDecl a;
    a.dtype = dtype;
    a.rank = 2;
    program_.args.push_back(a);
    return static_cast<ArgId>(program_.args.size() - 1);
  }
  Operand tile_operand(TileId t) { return {OperandKind::kTile, t}; }
  Operand scalar(bool integral) {
    program_.constants.push_back(integral ? ScalarValue::from_i64(pick(9) - 4) : ScalarValue::from_f64((pick(400) - 200) / 64.0));
    return {OperandKind::kConstant, static_cast<int16_t>(program_.constants.size() - 1)};
  }

  void load() { load(pick(4) == 0 ? TileShape::kRow : TileShape::kFull); }
  void load(TileShape shape) {
    Instr i;
    i.opcode = Opcode::kDmaLoad;
    const DType dtype = any_dtype();
    i.hbm.arg = view(dtype);
    i.hbm.strides[0] = 0;
    if (shape == TileShape::kFull && pick(6) != 0) i.hbm.strides[1] = 0;
    i.dst = tile(pick(3) == 0 ? any_dtype() : dtype, shape);
    nest_.body.push_back(i);
  }

  bool is_float(TileId t) { return is_floating(nest_.tiles[static_cast<size_t>(t)].dtype); }

  void apply() {
    for (int attempt = 0; attempt < 50; ++attempt) {
      const auto op = static_cast<ScalarOp>(pick(kScalarOpLimit));
      const ScalarOpInfo& info = scalar_op_info(op);
      if (info.name.empty()) continue;
      Instr i;
      i.opcode = op == ScalarOp::kSelect ? Opcode::kSelect : Opcode::kPointwise;
      i.fn = op;
      Lane lane = Lane::kI32;
      int rank = -1;
      bool any_full = false, any_float = false;
      std::vector<TileId> tiles;
      for (int k = 0; k < info.arity; ++k) {
        const bool from_row = !row_.empty() && pick(4) == 0;
        const TileId t = pick_from(from_row ? row_ : full_);
        tiles.push_back(t);
        i.src[static_cast<size_t>(k)] = tile_operand(t);
        any_full |= !from_row;
        if (op == ScalarOp::kSelect && k == 0) continue;
        any_float |= is_float(t);
        const Lane l = lane_of(nest_.tiles[static_cast<size_t>(t)].dtype);
        constexpr int kRank[] = {2, 3, 1, 0};
        if (kRank[static_cast<int>(l)] > rank) rank = kRank[static_cast<int>(l)], lane = l;
      }
      if (!info.allows(lane)) continue;
      if (info.arity > 1 && pick(3) == 0) {  // a scalar instead of one operand, never of all
        const int k = 1 + pick(info.arity - 1);
        if (op != ScalarOp::kSelect || k == 2) i.src[static_cast<size_t>(k)] = scalar(!any_float);
        any_full = false;
        lane = Lane::kI32, rank = -1;
        for (int j = 0; j < info.arity; ++j) {
          if (i.src[static_cast<size_t>(j)].kind != OperandKind::kTile) continue;
          const Tile& t = nest_.tiles[static_cast<size_t>(tiles[static_cast<size_t>(j)])];
          any_full |= t.shape == TileShape::kFull;
          constexpr int kRank[] = {2, 3, 1, 0};
          if (op == ScalarOp::kSelect && j == 0) continue;
          if (kRank[static_cast<int>(lane_of(t.dtype))] > rank) rank = kRank[static_cast<int>(lane_of(t.dtype))], lane = lane_of(t.dtype);
        }
        if (!info.allows(lane)) continue;
      }
      i.dst = tile(any_dtype(), any_full ? TileShape::kFull : TileShape::kRow);
      nest_.body.push_back(i);
      return;
    }
  }

  void copy() {
    Instr i;
    i.opcode = pick(3) == 0 ? Opcode::kMemset : Opcode::kTensorCopy;
    const bool from_row = i.opcode == Opcode::kTensorCopy && !row_.empty() && pick(3) == 0;
    const DType dtype = any_dtype();
    i.src[0] = i.opcode == Opcode::kMemset ? scalar(!is_floating(dtype)) : tile_operand(pick_from(from_row ? row_ : full_));
    i.dst = tile(dtype, from_row ? TileShape::kRow : TileShape::kFull);
    nest_.body.push_back(i);
  }

  void iota() {
    Instr i;
    i.opcode = Opcode::kIota;
    i.engine = Engine::kPOOL;
    const DType dtype = any_dtype();
    i.axis = static_cast<AxisId>(pick(2));
    i.src[0] = scalar(!is_floating(dtype));
    i.src[1] = scalar(!is_floating(dtype));
    i.dst = tile(dtype, TileShape::kFull);
    nest_.body.push_back(i);
  }

  void reduce() {
    Instr i;
    i.opcode = Opcode::kTensorReduce;
    i.reduce = static_cast<ReduceFn>(pick(6));
    DType dtype = any_dtype();
    if (i.reduce == ReduceFn::kAny || i.reduce == ReduceFn::kAll) {
      if (floats_only_) i.reduce = ReduceFn::kSum;
      else dtype = DType::kBool;
    }
    i.src[0] = tile_operand(pick_from(full_));
    i.dst = tile(dtype, TileShape::kRow);
    nest_.body.push_back(i);
  }

  void partition_reduce() {
    Instr i;
    i.opcode = Opcode::kPartitionReduce;
    i.order = ReduceOrder::kColumn;
    i.reduce = static_cast<ReduceFn>(pick(4));
    i.src[0] = tile_operand(pick_from(full_));
    Tile t;
    t.dtype = any_dtype();
    t.shape = TileShape::kColumn;
    nest_.tiles.push_back(t);
    i.dst = static_cast<TileId>(nest_.tiles.size() - 1);
    nest_.body.push_back(i);
  }

  void store(TileId t) {
    Instr i;
    i.opcode = Opcode::kDmaStore;
    const Tile& from = nest_.tiles[static_cast<size_t>(t)];
    i.hbm.arg = view(pick(2) == 0 ? from.dtype : any_dtype());
    i.hbm.strides[0] = 0;
    if (from.shape == TileShape::kFull) i.hbm.strides[1] = 0;
    i.src[0] = tile_operand(t);
    nest_.body.push_back(i);
  }

  std::mt19937_64 rng_;
  bool floats_only_;
  Program program_;
  Nest nest_;
  std::vector<TileId> full_, row_;
};

}  // namespace nax::test
