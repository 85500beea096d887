#include <algorithm>

#include "device/isa/equal.h"
#include "device/isa/opcode_info.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"
#include "device/isa/verify_impl.h"

namespace nax {
namespace {

std::string num(int64_t v) { return std::to_string(v); }

const char* shape_text(TileShape s) {
  static constexpr const char* kShapes[] = {"[p, f]", "[p, 1]", "[1, f]", "[1, 1]"};
  return kShapes[static_cast<int>(s)];
}

const char* lane_text(Lane k) {
  static constexpr const char* kLanes[] = {"f32 (f32, bf16, f16)", "f64", "i64",
                                           "i32 (bool, u8, i8, i16, i32)"};
  return kLanes[static_cast<int>(k)];
}

// A value of `from` may stand where one of `to` is computed: equal, or broadcast along free, or one
// value for all.
bool broadcasts(TileShape from, TileShape to) {
  return from == to || from == TileShape::kOne ||
         (from == TileShape::kRow && to == TileShape::kFull);
}

bool spans_partition(TileShape s) { return s == TileShape::kFull || s == TileShape::kRow; }
bool spans_free(TileShape s) { return s == TileShape::kFull || s == TileShape::kColumn; }

std::vector<AxisRole> roles_of(TileShape s) {
  std::vector<AxisRole> roles = {AxisRole::kLoop};
  if (spans_partition(s)) roles.push_back(AxisRole::kPartition);
  if (spans_free(s)) roles.push_back(AxisRole::kFree);
  return roles;
}

}  // namespace

Status NestVerifier::instr(const Instr& i, bool finish) {
  if (static_cast<int>(i.opcode) >= kOpcodeCount)
    return verify_failed("unknown opcode " + num(static_cast<int>(i.opcode)));
  if (static_cast<int>(i.engine) >= kEngineCount) return verify_failed("unknown engine");
  if (static_cast<int>(i.reduce) > 5 || static_cast<int>(i.order) > 2)
    return verify_failed("unknown reduction or order");
  if (i.op >= program_.op_count)
    return verify_failed("op " + num(i.op) + ", the program has " + num(program_.op_count));
  for (const Operand& o : i.src)
    if (static_cast<int>(o.kind) > 3) return verify_failed("unknown kind of operand");
  NAX_RETURN_IF_ERROR(unused_fields(i));
  switch (i.opcode) {
    case Opcode::kDmaLoad:
    case Opcode::kDmaStore:
      return dma(i, finish);
    case Opcode::kTensorReduce:
    case Opcode::kPartitionReduce:
    case Opcode::kScan:
      return reduction(i, finish);
    case Opcode::kIota:
    case Opcode::kPhilox:
      NAX_RETURN_IF_ERROR(destination(i, finish));
      return generator(i);
    default:
      return pointwise(i, finish);
  }
}

Status NestVerifier::unused_fields(const Instr& i) const {
  const OpcodeInfo& info = opcode_info(i.opcode);
  Instr used;
  used.opcode = i.opcode;
  used.engine = i.engine;
  used.op = i.op;
  size_t operands = info.max_src;
  if (info.fn == OpcodeFn::kScalar) {
    const ScalarOpInfo& fn = scalar_op_info(i.fn);
    if (fn.name.empty()) return verify_failed("unknown function " + num(static_cast<int>(i.fn)));
    if (fn.arity < info.min_src || fn.arity > info.max_src) {
      return verify_failed(std::string(fn.name) + " takes " + num(fn.arity) + " operands; " +
                           std::string(info.name) + " takes " + num(info.min_src) + " to " +
                           num(info.max_src));
    }
    used.fn = i.fn;
    operands = fn.arity;
  }
  for (size_t k = 0; k < i.src.size(); ++k) {
    const bool present = i.src[k].kind != OperandKind::kNone;
    if (present != (k < operands)) {
      size_t found = 0;
      for (const Operand& o : i.src) found += o.kind != OperandKind::kNone;
      return verify_failed("takes " + num(static_cast<int64_t>(operands)) + " operands, found " +
                           num(static_cast<int64_t>(found)));
    }
    if (present) used.src[k] = i.src[k];
  }
  if (info.fn == OpcodeFn::kSelect) {
    if (i.fn != ScalarOp::kSelect) return verify_failed("the function of x.select is x.select");
    used.fn = i.fn;
  }
  if (info.fn == OpcodeFn::kReduce) {
    used.reduce = i.reduce;
    used.order = i.order;
    used.start = i.start;
  }
  if (i.opcode != Opcode::kDmaStore) used.dst = i.dst;
  if (i.opcode == Opcode::kDmaLoad || i.opcode == Opcode::kDmaStore || i.opcode == Opcode::kPhilox)
    used.hbm = i.hbm;
  if (i.opcode == Opcode::kIota) used.axis = i.axis;
  if (!(used == i))
    return verify_failed("a field that " + std::string(info.name) +
                         " does not use has not its default");
  return {};
}

Status NestVerifier::tile_readable(TileId t, bool finish) const {
  if (t < 0 || static_cast<size_t>(t) >= nest_.tiles.size())
    return verify_failed("tile " + num(t) + " is out of range");
  const std::string name = "t" + num(t);
  if (state_[t] == State::kUnwritten) return verify_failed(name + " is read before it is written");
  if (!finish && state_[t] == State::kReducing) {
    return verify_failed(
        name + " is the result of a reduction over several tiles: it is complete only in 'finish'");
  }
  if (!finish || !from_body_[t]) return {};
  const TileShape s = nest_.tiles[t].shape;
  if (carried_ && spans_partition(s)) {
    return verify_failed(name + " " + shape_text(s) +
                         " of the body does not outlive its partition tile; only [1, f] and " +
                         "[1, 1] tiles may be read in the 'finish' of a carried partition axis");
  }
  if (tiled_ && !carried_ && spans_free(s)) {
    return verify_failed(name + " " + shape_text(s) +
                         " of the body does not outlive its free tile; only [p, 1] and " +
                         "[1, 1] tiles may be read in the 'finish' of a tiled free axis");
  }
  return {};
}

Status NestVerifier::destination(const Instr& i, bool finish) {
  if (i.dst < 0 || static_cast<size_t>(i.dst) >= nest_.tiles.size())
    return verify_failed("dst is out of range");
  const Tile& t = tile(i.dst);
  const std::string name = "t" + num(i.dst);
  if (t.space == Space::kPsum) return verify_failed(name + " is psum: only the matmul writes it");
  if (finish && carried_ && spans_partition(t.shape)) {
    return verify_failed(
        "the 'finish' of a carried partition axis works on [1, f] and [1, 1] tiles, " + name +
        " is " + shape_text(t.shape));
  }
  if (finish && tiled_ && !carried_ && spans_free(t.shape)) {
    return verify_failed("the 'finish' of a tiled free axis works on [p, 1] and [1, 1] tiles, " +
                         name + " is " + shape_text(t.shape));
  }
  if (!finish && t.shape == TileShape::kColumn && i.opcode != Opcode::kPartitionReduce) {
    return verify_failed(name +
                         " is [1, f]: in the body only tensor_partition_reduce writes such a tile");
  }
  if (!finish && state_[i.dst] == State::kReducing) {
    return verify_failed(
        name + " collects a reduction over several tiles and cannot be written again in the body");
  }
  state_[i.dst] = State::kWritten;
  from_body_[i.dst] = !finish;
  return {};
}

Status NestVerifier::engine(const Instr& i, Lane lane) const {
  std::string why;
  if (!engine_allowed(i.opcode, i.fn, lane, i.engine, &why)) return verify_failed(why);
  if (i.engine == Engine::kPOOL) {
    for (const Operand& o : i.src) {
      if (o.kind == OperandKind::kTile && tile(o.id).space == Space::kPsum &&
          tile(o.id).dtype == DType::kF32) {
        return verify_failed("pool cannot read psum: copy t" + num(o.id) +
                             " to an SBUF tile first");
      }
    }
  }
  return {};
}

Status NestVerifier::operand(const Instr& i, size_t k, bool finish, bool may_be_scalar) {
  const Operand& o = i.src[k];
  switch (o.kind) {
    case OperandKind::kTile:
      return tile_readable(o.id, finish);
    case OperandKind::kScalarArg:
      if (o.id < 0 || static_cast<size_t>(o.id) >= program_.args.size())
        return verify_failed("argument a" + num(o.id) + " is out of range");
      if (program_.args[o.id].kind != ArgKind::kScalar)
        return verify_failed("a" + num(o.id) + " is not a scalar argument");
      break;
    case OperandKind::kConstant:
      if (o.id < 0 || static_cast<size_t>(o.id) >= program_.constants.size())
        return verify_failed("constant c" + num(o.id) + " is out of range");
      break;
    case OperandKind::kNone:
      return verify_failed("operand " + num(static_cast<int64_t>(k)) + " is missing");
  }
  if (!may_be_scalar)
    return verify_failed("operand " + num(static_cast<int64_t>(k)) + " must be a tile");
  return {};
}

Status NestVerifier::dma(const Instr& i, bool finish) {
  std::string why;
  if (!engine_allowed(i.opcode, i.fn, Lane::kF32, i.engine, &why)) return verify_failed(why);
  const bool store = i.opcode == Opcode::kDmaStore;
  if (i.hbm.index != kNone) {
    NAX_RETURN_IF_ERROR(tile_readable(i.hbm.index, finish));
    const DType t = tile(i.hbm.index).dtype;
    if (t != DType::kI32 && t != DType::kI64) {
      return verify_failed("the index tile is " + std::string(dtype_name(t)) +
                           "; allowed: i32, i64");
    }
  }
  TileId data = i.dst;
  if (store) {
    NAX_RETURN_IF_ERROR(operand(i, 0, finish, false));
    data = i.src[0].id;
  } else {
    NAX_RETURN_IF_ERROR(destination(i, finish));
  }
  const TileShape shape = tile(data).shape;
  NAX_RETURN_IF_ERROR(access(i.hbm, store, roles_of(shape)));
  if (i.hbm.index != kNone && !broadcasts(tile(i.hbm.index).shape, shape)) {
    return verify_failed("the index tile " + std::string(shape_text(tile(i.hbm.index).shape)) +
                         " does not fit a " + shape_text(shape) + " tile");
  }
  return {};
}

Status NestVerifier::pointwise(const Instr& i, bool finish) {
  const OpcodeInfo& info = opcode_info(i.opcode);
  if (i.dst < 0 || static_cast<size_t>(i.dst) >= nest_.tiles.size())
    return verify_failed("dst is out of range");
  const Tile& dst = tile(i.dst);
  const bool all_tiles = i.opcode == Opcode::kTensorTensor || i.opcode == Opcode::kActivation ||
                         i.opcode == Opcode::kTensorCopy;
  if (i.opcode == Opcode::kMemset && i.src[0].kind == OperandKind::kTile)
    return verify_failed("its operand must be a scalar");
  if ((i.opcode == Opcode::kSelect) != (i.fn == ScalarOp::kSelect)) {
    return verify_failed("x.select is the function of the opcode x.select, and of no other");
  }
  bool has_lane = false, full = false;
  Lane lane = lane_of(dst.dtype);
  int psum_operands = 0;
  for (size_t k = 0; k < i.src.size() && i.src[k].kind != OperandKind::kNone; ++k) {
    NAX_RETURN_IF_ERROR(
        operand(i, k, finish, !all_tiles && !(i.opcode == Opcode::kSelect && k == 0)));
    if (i.src[k].kind != OperandKind::kTile) continue;
    const TileId id = i.src[k].id;
    const Tile& t = tile(id);
    psum_operands += t.space == Space::kPsum;
    const bool exact = i.opcode == Opcode::kTensorTensor || i.opcode == Opcode::kActivation;
    if (exact ? t.shape != dst.shape : !broadcasts(t.shape, dst.shape)) {
      return verify_failed("t" + num(id) + " is " + shape_text(t.shape) + ", dst is " +
                           shape_text(dst.shape) +
                           (exact && broadcasts(t.shape, dst.shape)
                                ? "; tensor_scalar broadcasts, this opcode does not"
                                : ""));
    }
    full = full || t.shape == dst.shape;
    if (i.opcode == Opcode::kSelect && k == 0) {
      if (lane_of(t.dtype) != Lane::kI32) {
        return verify_failed("the condition t" + num(id) + " is " +
                             std::string(dtype_name(t.dtype)) +
                             "; allowed: bool, u8, i8, i16, i32");
      }
      continue;
    }
    if (has_lane && lane_of(t.dtype) != lane) {
      return verify_failed("operands of " + std::string(lane_text(lane)) + " and " +
                           lane_text(lane_of(t.dtype)) + "; convert one with tensor_copy first");
    }
    lane = lane_of(t.dtype);
    has_lane = true;
  }
  if (i.opcode == Opcode::kTensorTensor && psum_operands == 2) {
    return verify_failed("both operands are in psum; copy one to an SBUF tile first");
  }
  if (i.opcode == Opcode::kTensorScalar && !full) {
    return verify_failed("one operand must be a tile of dst's shape " +
                         std::string(shape_text(dst.shape)));
  }
  if (info.fn == OpcodeFn::kScalar || info.fn == OpcodeFn::kSelect) {
    const ScalarOpInfo& fn = scalar_op_info(i.fn);
    if (i.opcode == Opcode::kPointwise && !has_lane)
      return verify_failed("one operand must be a tile");
    if (i.opcode == Opcode::kActivation) {
      if (fn.engine != ScalarEngine::kACT && i.fn != ScalarOp::kCopy) {
        return verify_failed(std::string(fn.name) +
                             " is not a function of act; use tensor_scalar or x.pointwise");
      }
      if (lane == Lane::kF64 || lane == Lane::kI64) {
        return verify_failed("act computes in fp32; use x.pointwise for " +
                             std::string(lane_text(lane)));
      }
    }
    if (!fn.allows(lane)) {
      return verify_failed(std::string(fn.name) + " is not defined for operands of " +
                           lane_text(lane));
    }
    const Lane result = fn.result == ScalarResult::kBool ? Lane::kI32 : lane;
    if (lane_of(dst.dtype) != result) {
      return verify_failed("the result is " + std::string(lane_text(result)) + ", dst is " +
                           std::string(dtype_name(dst.dtype)) + "; convert with tensor_copy");
    }
  }
  NAX_RETURN_IF_ERROR(engine(i, lane));
  return destination(i, finish);
}

Status NestVerifier::reduction(const Instr& i, bool finish) {
  NAX_RETURN_IF_ERROR(operand(i, 0, finish, false));
  if (i.dst < 0 || static_cast<size_t>(i.dst) >= nest_.tiles.size())
    return verify_failed("dst is out of range");
  const Tile& src = tile(i.src[0].id);
  const Tile& dst = tile(i.dst);
  const Lane lane = lane_of(src.dtype);
  if (lane_of(dst.dtype) != lane) {
    return verify_failed("operand of " + std::string(lane_text(lane)) + ", dst of " +
                         lane_text(lane_of(dst.dtype)) + "; convert with tensor_copy");
  }
  const bool logical = i.reduce == ReduceFn::kAny || i.reduce == ReduceFn::kAll;
  if (logical && lane != Lane::kI32) {
    return verify_failed("any and all take bool, u8, i8, i16 or i32; compare with zero first");
  }
  NAX_RETURN_IF_ERROR(engine(i, lane));
  auto shapes = [&](TileShape from, TileShape to) { return src.shape == from && dst.shape == to; };
  const std::string found =
      "found " + std::string(shape_text(src.shape)) + " to " + shape_text(dst.shape);
  bool over_tiles = false;
  switch (i.opcode) {
    case Opcode::kTensorReduce:
      if (!shapes(TileShape::kFull, TileShape::kRow) &&
          !shapes(TileShape::kColumn, TileShape::kOne)) {
        return verify_failed("reduces [p, f] to [p, 1] or [1, f] to [1, 1], " + found);
      }
      if (i.order == ReduceOrder::kColumn)
        return verify_failed("order column belongs to tensor_partition_reduce");
      if (carried_ && tiled_) {
        return verify_failed(
            "a reduction along free in a nest with a carried partition axis needs a free axis of "
            "one tile");
      }
      if (i.order == ReduceOrder::kTree && tiled_)
        return verify_failed("order tree needs a free axis of one tile");
      for (const Axis& a : nest_.axes) {
        if (a.tile == kNoSlot || program_.slots[a.tile].op != SlotOp::kConst) continue;
        const int64_t size = program_.slots[a.tile].imm;
        if (size % kRowChunk != 0) {
          return verify_failed("the free axis has tiles of " + num(size) +
                               " elements; a reduction needs multiples of 512");
        }
      }
      over_tiles = tiled_ && !finish;
      break;
    case Opcode::kPartitionReduce:
      if (finish) return verify_failed("reduces partitions, so it stands in the body");
      if (!carried_) return verify_failed("needs a carried partition axis");
      if (!shapes(TileShape::kFull, TileShape::kColumn) &&
          !shapes(TileShape::kRow, TileShape::kOne)) {
        return verify_failed("reduces [p, f] to [1, f] or [p, 1] to [1, 1], " + found);
      }
      if (i.order == ReduceOrder::kRow)
        return verify_failed("order row belongs to tensor_reduce; allowed: column, tree");
      over_tiles = true;
      break;
    default:  // scan
      if (!shapes(TileShape::kFull, TileShape::kFull))
        return verify_failed("scans [p, f] to [p, f], " + found);
      if (logical) return verify_failed("allowed are sum, prod, max and min");
      if (i.order != ReduceOrder::kRow) return verify_failed("a scan has order row");
      break;
  }
  if (!i.start) {
    if (i.opcode == Opcode::kPartitionReduce || i.order == ReduceOrder::kTree || over_tiles ||
        i.opcode == Opcode::kScan) {
      return verify_failed(
          "'continue' is for a tensor_reduce in order row over a free axis of one tile");
    }
    NAX_RETURN_IF_ERROR(tile_readable(i.dst, finish));
  }
  NAX_RETURN_IF_ERROR(destination(i, finish));
  if (over_tiles) state_[i.dst] = State::kReducing;
  return {};
}

Status NestVerifier::generator(const Instr& i) {
  const Tile& dst = tile(i.dst);
  if (i.opcode == Opcode::kIota) {
    if (i.axis < 0 || static_cast<size_t>(i.axis) >= nest_.axes.size())
      return verify_failed("its axis is out of range");
    const AxisRole role = nest_.axes[i.axis].role;
    const std::vector<AxisRole> roles = roles_of(dst.shape);
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) {
      return verify_failed("counts along axis " + axis_text(nest_, i.axis) + ", which dst " +
                           shape_text(dst.shape) + " does not span");
    }
    for (size_t k = 0; k < 2; ++k) {
      if (i.src[k].kind == OperandKind::kTile) return verify_failed("start and step are scalars");
      NAX_RETURN_IF_ERROR(operand(i, k, false, true));
    }
    return engine(i, lane_of(dst.dtype));
  }
  const Operand& seed = i.src[0];
  if (seed.kind != OperandKind::kScalarArg || seed.id < 0 ||
      static_cast<size_t>(seed.id) >= program_.args.size() ||
      program_.args[seed.id].kind != ArgKind::kSeed) {
    return verify_failed("its operand must be a seed argument");
  }
  if (dst.dtype != DType::kI32 && dst.dtype != DType::kI64)
    return verify_failed("dst must be i32 or i64");
  const HbmAccess& h = i.hbm;
  if (h.arg != kNone || h.index != kNone || h.index_stride != kNoSlot || h.index_size != kNoSlot ||
      h.accumulate) {
    return verify_failed("its index is an affine expression of axes");
  }
  NAX_RETURN_IF_ERROR(slot(h.offset, "its offset", false));
  const std::vector<AxisRole> roles = roles_of(dst.shape);
  for (int k = 0; k < kMaxAxes; ++k) {
    if (h.strides[k] == kNoSlot) continue;
    NAX_RETURN_IF_ERROR(slot(h.strides[k], "a stride", true));
    if (static_cast<size_t>(k) >= nest_.axes.size() ||
        std::find(roles.begin(), roles.end(), nest_.axes[k].role) == roles.end()) {
      return verify_failed("a stride along an axis that dst " + std::string(shape_text(dst.shape)) +
                           " does not span");
    }
  }
  return engine(i, lane_of(dst.dtype));
}

}  // namespace nax
