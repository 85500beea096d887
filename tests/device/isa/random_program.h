// Random programs whose ids are in range and whose unused fields have their defaults: enough for
// text and bytes, which must keep every such program. They need not make sense to the verifier.
#pragma once

#include <bit>
#include <limits>
#include <random>

#include "device/isa/opcode_info.h"
#include "device/isa/program.h"

namespace nax {

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : rng_(seed) {}

  Program make() {
    Program p;
    p.name = "random.program_" + std::to_string(below(100));
    p.target = below(2) ? "trn1" : "trn2";
    p.op_count = static_cast<uint16_t>(1 + below(5));
    const int args = 2 + below(4);
    for (int i = 0; i < args; ++i) {
      ArgDecl a;
      a.kind = i == 0 ? ArgKind::kView : static_cast<ArgKind>(below(4));
      a.dtype = dtype();
      if (a.kind == ArgKind::kView) a.rank = static_cast<uint8_t>(1 + below(kMaxRank));
      if (a.kind == ArgKind::kSeed) a.dtype = DType::kF32;
      if (a.kind == ArgKind::kView || a.kind == ArgKind::kScratch) {
        a.read = below(2) != 0;
        a.written = below(2) != 0;
      }
      p.args.push_back(a);
    }
    p.slots.push_back({SlotOp::kConst, 0, 0, static_cast<int64_t>(rng_())});
    const int slots = 3 + below(20);
    for (int i = 0; i < slots; ++i) {
      Slot s;
      s.op = static_cast<SlotOp>(below(10));
      if (s.op == SlotOp::kConst) {
        s.imm = below(2) ? static_cast<int64_t>(rng_()) : below(2000) - 1000;
      } else if (s.op == SlotOp::kArgSize || s.op == SlotOp::kArgStride) {
        s.b = static_cast<int16_t>(below(p.args[0].rank));
      } else {
        s.a = static_cast<int16_t>(below(static_cast<int>(p.slots.size())));
        s.b = static_cast<int16_t>(below(static_cast<int>(p.slots.size())));
      }
      p.slots.push_back(s);
    }
    for (ArgDecl& a : p.args)
      if (a.kind == ArgKind::kScratch) a.scratch_elements = slot(p);
    const int constants = 1 + below(6);
    for (int i = 0; i < constants; ++i) p.constants.push_back(constant());
    for (int i = below(3); i > 0; --i) p.guards.push_back({slot(p), static_cast<int64_t>(rng_())});
    for (int i = 1 + below(3); i > 0; --i) p.nests.push_back(nest(p));
    return p;
  }

 private:
  int below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  DType dtype() { return static_cast<DType>(1 + below(kDTypeCount - 1)); }
  SlotId slot(const Program& p) {
    return static_cast<SlotId>(below(static_cast<int>(p.slots.size())));
  }
  SlotId slot_or_none(const Program& p) { return below(2) ? kNoSlot : slot(p); }

  ScalarValue constant() {
    switch (below(6)) {
      case 0:
        return ScalarValue::from_i64(static_cast<int64_t>(rng_()));
      case 1: {
        ScalarValue v = ScalarValue::from_i64(below(2));
        v.kind = ScalarValue::Kind::kBool;
        return v;
      }
      case 2:
        return ScalarValue::from_f64(below(100));
      case 3: {
        static constexpr double kSpecial[] = {0.0,
                                              -0.0,
                                              1e300,
                                              5e-324,
                                              std::numeric_limits<double>::infinity(),
                                              -std::numeric_limits<double>::infinity()};
        return ScalarValue::from_f64(kSpecial[below(6)]);
      }
      case 4:
        return ScalarValue::from_f64(
            std::bit_cast<double>(0x7ff0000000000001u | (rng_() & 0x800fffffffffffffu)));
      default:
        return ScalarValue::from_f64(std::bit_cast<double>(rng_()));
    }
  }

  HbmAccess access(const Program& p, const Nest& n) {
    HbmAccess h = affine(p, n);
    h.arg = static_cast<ArgId>(below(static_cast<int>(p.args.size())));
    if (below(5) == 0) {
      h.index = tile(n);
      h.index_stride = slot(p);
      h.index_size = slot(p);
    }
    return h;
  }
  HbmAccess affine(const Program& p, const Nest& n) {
    HbmAccess h;
    h.offset = slot_or_none(p);
    for (size_t i = 0; i < n.axes.size(); ++i) h.strides[i] = slot_or_none(p);
    return h;
  }
  TileId tile(const Nest& n) {
    return static_cast<TileId>(below(static_cast<int>(n.tiles.size())));
  }

  Operand operand(const Program& p, const Nest& n) {
    switch (below(3)) {
      case 0:
        return {OperandKind::kTile, tile(n)};
      case 1:
        return {OperandKind::kScalarArg,
                static_cast<int16_t>(below(static_cast<int>(p.args.size())))};
      default:
        return {OperandKind::kConstant,
                static_cast<int16_t>(below(static_cast<int>(p.constants.size())))};
    }
  }

  Instr instr(const Program& p, const Nest& n) {
    Instr i;
    i.opcode = static_cast<Opcode>(below(kOpcodeCount));
    i.engine = static_cast<Engine>(below(kEngineCount));
    i.op = static_cast<uint16_t>(below(p.op_count));
    const OpcodeInfo& info = opcode_info(i.opcode);
    if (i.opcode != Opcode::kDmaStore) i.dst = tile(n);
    int operands = info.max_src;
    if (info.fn == OpcodeFn::kScalar) {
      do i.fn = static_cast<ScalarOp>(below(kScalarOpLimit));
      while (scalar_op_name(i.fn).empty());
      operands = scalar_op_info(i.fn).arity;
    } else if (info.fn == OpcodeFn::kSelect) {
      i.fn = ScalarOp::kSelect;
    } else if (info.fn == OpcodeFn::kReduce) {
      i.reduce = static_cast<ReduceFn>(below(6));
      i.order = static_cast<ReduceOrder>(below(3));
      i.start = below(4) != 0;
    }
    for (int k = 0; k < operands; ++k) i.src[k] = operand(p, n);
    if (i.opcode == Opcode::kDmaLoad) i.hbm = access(p, n);
    if (i.opcode == Opcode::kDmaStore) {
      i.src[0] = {OperandKind::kTile, tile(n)};
      i.hbm = access(p, n);
      i.hbm.accumulate = below(3) == 0;
    }
    if (i.opcode == Opcode::kIota)
      i.axis = static_cast<AxisId>(below(static_cast<int>(n.axes.size())));
    if (i.opcode == Opcode::kPhilox) i.hbm = affine(p, n);
    return i;
  }

  Nest nest(const Program& p) {
    Nest n;
    for (int i = 1 + below(kMaxAxes); i > 0; --i) {
      Axis a;
      a.role = static_cast<AxisRole>(below(4));
      a.kind = static_cast<LoopKind>(below(3));
      a.extent = slot(p);
      if (!n.axes.empty() && below(3) == 0) {
        a.split_outer = static_cast<AxisId>(below(static_cast<int>(n.axes.size())));
        a.split_limit = slot(p);
      }
      if (below(3) == 0) a.tile = slot(p);
      n.axes.push_back(a);
    }
    for (int i = 1 + below(6); i > 0; --i) {
      Tile t;
      t.space = static_cast<Space>(below(2));
      t.shape = static_cast<TileShape>(below(4));
      t.dtype = dtype();
      n.tiles.push_back(t);
    }
    if (below(3) == 0) {
      n.has_matmul = true;
      n.matmul.a = access(p, n);
      n.matmul.b = access(p, n);
      n.matmul.psum = tile(n);
      n.matmul.op = static_cast<uint16_t>(below(p.op_count));
    }
    for (int i = below(12); i > 0; --i) n.body.push_back(instr(p, n));
    for (int i = below(4); i > 0; --i) n.finish.push_back(instr(p, n));
    return n;
  }

  std::mt19937_64 rng_;
};

}  // namespace nax
