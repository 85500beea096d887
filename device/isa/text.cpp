#include "device/isa/text.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "device/isa/opcode_info.h"

namespace nax {
namespace {

std::string number(int64_t v) { return std::to_string(v); }

std::string numbered(const char* prefix, int64_t id, size_t count) {
  if (id < 0 || static_cast<size_t>(id) >= count) return "?" + number(id);
  return prefix + number(id);
}

std::string_view dtype_text(DType t) {
  return static_cast<int>(t) < kDTypeCount ? dtype_name(t) : "?";
}

class Printer {
 public:
  explicit Printer(const Program& p) : p_(p) {}

  std::string program() {
    out_ = "program " + (p_.name.empty() ? std::string("?") : p_.name) + " {\n";
    out_ += "  target " + p_.target + "\n";
    out_ += "  ops " + number(p_.op_count) + "\n";
    for (size_t i = 0; i < p_.args.size(); ++i) arg(i);
    for (size_t i = 0; i < p_.slots.size(); ++i) {
      out_ += "  %" + number(static_cast<int64_t>(i)) + " = " + slot_value(p_.slots[i]) + "\n";
    }
    for (size_t i = 0; i < p_.constants.size(); ++i) {
      out_ += "  const c" + number(static_cast<int64_t>(i)) + " = " +
              constant_text(p_.constants[i]) + "\n";
    }
    for (const Guard& g : p_.guards)
      out_ += "  guard " + slot(g.slot) + " <= " + number(g.limit) + "\n";
    for (const Nest& n : p_.nests) nest(n);
    out_ += "}\n";
    return std::move(out_);
  }

  std::string instr(const Nest& n, const Instr& i) const {
    std::string s;
    if (i.opcode == Opcode::kDmaStore) {
      s = access(n, i.hbm) + (i.hbm.accumulate ? " += " : " = ");
    } else {
      s = tile(n, i.dst) + " = ";
    }
    if (static_cast<int>(i.opcode) >= kOpcodeCount)
      return s + "?" + number(static_cast<int>(i.opcode));
    const OpcodeInfo& info = opcode_info(i.opcode);
    s += info.name;
    if (info.fn == OpcodeFn::kScalar) {
      const std::string_view name = scalar_op_name(i.fn);
      s += " " + (name.empty() ? "?" + number(static_cast<int>(i.fn)) : std::string(name));
    } else if (info.fn == OpcodeFn::kReduce) {
      s += static_cast<int>(i.reduce) <= 5 ? " " + std::string(reduce_fn_name(i.reduce))
                                           : std::string(" ?");
    }
    s += "(";
    std::string args;
    auto add = [&](const std::string& a) { args += (args.empty() ? "" : ", ") + a; };
    if (i.opcode == Opcode::kIota) add(axis_text(n, i.axis));
    if (i.opcode == Opcode::kDmaLoad) add(access(n, i.hbm));
    for (const Operand& o : i.src)
      if (o.kind != OperandKind::kNone) add(operand(n, o));
    if (i.opcode == Opcode::kPhilox) add("[" + affine(n, i.hbm) + "]");
    s += args + ")";
    const bool partition = i.opcode == Opcode::kPartitionReduce;
    if (i.order != (partition ? ReduceOrder::kColumn : ReduceOrder::kRow)) {
      s += " order ";
      s += static_cast<int>(i.order) <= 2 ? reduce_order_name(i.order) : "?";
    }
    if (!i.start) s += " continue";
    s += " on ";
    s += static_cast<int>(i.engine) < kEngineCount ? engine_name(i.engine) : "?";
    return s + " op " + number(i.op);
  }

  std::string matmul(const Nest& n) const {
    return tile(n, n.matmul.psum) + " = matmul(" + access(n, n.matmul.a) + ", " +
           access(n, n.matmul.b) + ") op " + number(n.matmul.op);
  }

 private:
  std::string slot(SlotId s) const { return numbered("%", s, p_.slots.size()); }
  std::string arg_name(ArgId a) const { return numbered("a", a, p_.args.size()); }
  std::string tile(const Nest& n, TileId t) const { return numbered("t", t, n.tiles.size()); }

  void arg(size_t index) {
    const ArgDecl& a = p_.args[index];
    out_ += "  arg a" + number(static_cast<int64_t>(index)) + ": ";
    static constexpr const char* kKinds[] = {"view", "scalar", "seed", "scratch"};
    out_ += static_cast<int>(a.kind) < 4 ? kKinds[static_cast<int>(a.kind)] : "?";
    if (a.kind != ArgKind::kSeed || a.dtype != ArgDecl().dtype)
      out_ += " " + std::string(dtype_text(a.dtype));
    if (a.kind == ArgKind::kView || a.rank != 0) out_ += " rank " + number(a.rank);
    if (a.read) out_ += " read";
    if (a.written) out_ += " write";
    if (a.kind == ArgKind::kScratch || a.scratch_elements != kNoSlot)
      out_ += " elements " + slot(a.scratch_elements);
    out_ += "\n";
  }

  std::string slot_value(const Slot& s) const {
    auto infix = [&](const char* op) { return slot(s.a) + op + slot(s.b); };
    auto call = [&](const char* name) {
      return std::string(name) + "(" + slot(s.a) + ", " + slot(s.b) + ")";
    };
    switch (s.op) {
      case SlotOp::kConst:
        return number(s.imm);
      case SlotOp::kArgSize:
        return "size(" + arg_name(s.a) + ", " + number(s.b) + ")";
      case SlotOp::kArgStride:
        return "stride(" + arg_name(s.a) + ", " + number(s.b) + ")";
      case SlotOp::kAdd:
        return infix(" + ");
      case SlotOp::kSub:
        return infix(" - ");
      case SlotOp::kMul:
        return infix(" * ");
      case SlotOp::kCeilDiv:
        return call("ceil_div");
      case SlotOp::kFloorDiv:
        return call("floor_div");
      case SlotOp::kMin:
        return call("min");
      case SlotOp::kMax:
        return call("max");
    }
    return "?";
  }

  void nest(const Nest& n) {
    out_ += "  nest {\n";
    for (size_t i = 0; i < n.axes.size(); ++i) axis(n, static_cast<AxisId>(i));
    for (size_t i = 0; i < n.tiles.size(); ++i) {
      const Tile& t = n.tiles[i];
      static constexpr const char* kShapes[] = {"[p, f]", "[p, 1]", "[1, f]", "[1, 1]"};
      out_ += "    tile t" + number(static_cast<int64_t>(i)) + ": ";
      if (t.space == Space::kPsum) out_ += "psum ";
      out_ += std::string(dtype_text(t.dtype)) + " " +
              (static_cast<int>(t.shape) < 4 ? kShapes[static_cast<int>(t.shape)] : "?") + "\n";
    }
    if (n.has_matmul) out_ += "    " + matmul(n) + "\n";
    for (const Instr& i : n.body) out_ += "    " + instr(n, i) + "\n";
    if (!n.finish.empty()) {
      out_ += "    finish {\n";
      for (const Instr& i : n.finish) out_ += "      " + instr(n, i) + "\n";
      out_ += "    }\n";
    }
    out_ += "  }\n";
  }

  void axis(const Nest& n, AxisId id) {
    static constexpr const char* kRoles[] = {"loop", "partition", "free", "contract"};
    const Axis& a = n.axes[id];
    out_ += "    ";
    out_ += static_cast<int>(a.role) < 4 ? kRoles[static_cast<int>(a.role)] : "?";
    out_ += " " + axis_text(n, id) + ": " + slot(a.extent);
    if (a.split_outer != kNone)
      out_ += " split " + axis_text(n, a.split_outer) + " of " + slot(a.split_limit);
    if (a.tile != kNoSlot) out_ += " tile " + slot(a.tile);
    if (a.kind == LoopKind::kSequential) out_ += " sequential";
    if (a.kind == LoopKind::kCarried) out_ += " carried";
    out_ += "\n";
  }

  std::string affine(const Nest& n, const HbmAccess& h) const {
    std::string s;
    auto add = [&](const std::string& term) { s += (s.empty() ? "" : " + ") + term; };
    if (h.offset != kNoSlot) add(slot(h.offset));
    for (size_t i = 0; i < kMaxAxes; ++i)
      if (h.strides[i] != kNoSlot)
        add(axis_text(n, static_cast<AxisId>(i)) + " * " + slot(h.strides[i]));
    if (h.index != kNone) {
      add("index(" + tile(n, h.index) + ", " + slot(h.index_stride) + ", " + slot(h.index_size) +
          ")");
    }
    return s;
  }
  std::string access(const Nest& n, const HbmAccess& h) const {
    return arg_name(h.arg) + "[" + affine(n, h) + "]";
  }

  std::string operand(const Nest& n, const Operand& o) const {
    switch (o.kind) {
      case OperandKind::kTile:
        return tile(n, o.id);
      case OperandKind::kScalarArg:
        return arg_name(o.id);
      case OperandKind::kConstant:
        return numbered("c", o.id, p_.constants.size());
      default:
        return "?";
    }
  }

  const Program& p_;
  std::string out_;
};

}  // namespace

std::string axis_text(const Nest& nest, AxisId axis) {
  static constexpr const char* kLetters[] = {"i", "p", "f", "k"};
  if (axis < 0 || static_cast<size_t>(axis) >= nest.axes.size()) return "?" + number(axis);
  const int role = static_cast<int>(nest.axes[axis].role);
  return (role < 4 ? kLetters[role] : "?") + number(axis);
}

std::string constant_text(const ScalarValue& v) {
  switch (v.kind) {
    case ScalarValue::Kind::kI64:
      return number(v.i64);
    case ScalarValue::Kind::kBool:
      return v.i64 == 0 ? "false" : v.i64 == 1 ? "true" : "?";
    case ScalarValue::Kind::kF64:
      break;
    default:
      return "?";
  }
  if (std::isnan(v.f64)) {
    const uint64_t bits = std::bit_cast<uint64_t>(v.f64);
    if (bits == 0x7ff8000000000000u) return "nan";
    char hex[17];
    const auto end = std::to_chars(hex, hex + sizeof hex, bits, 16).ptr;
    return "nan(0x" + std::string(hex, end) + ")";
  }
  if (std::isinf(v.f64)) return v.f64 < 0 ? "-inf" : "inf";
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, v.f64)
                       .ptr;  // shortest form that reads back exactly
  std::string s(digits, end);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string to_text(const Program& program) { return Printer(program).program(); }
std::string instr_text(const Program& program, const Nest& nest, const Instr& instr) {
  return Printer(program).instr(nest, instr);
}
std::string matmul_text(const Program& program, const Nest& nest) {
  return Printer(program).matmul(nest);
}

}  // namespace nax
