#include "device/isa/equal.h"

#include <bit>
#include <tuple>

namespace nax {
namespace {

int64_t bits(const ScalarValue& v) {
  return v.kind == ScalarValue::Kind::kF64 ? std::bit_cast<int64_t>(v.f64) : v.i64;
}

}  // namespace

bool operator==(const ScalarValue& x, const ScalarValue& y) {
  return x.kind == y.kind && bits(x) == bits(y);
}

bool operator==(const ArgDecl& x, const ArgDecl& y) {
  return std::tie(x.kind, x.dtype, x.rank, x.read, x.written, x.scratch_elements) ==
         std::tie(y.kind, y.dtype, y.rank, y.read, y.written, y.scratch_elements);
}

bool operator==(const Slot& x, const Slot& y) {
  return std::tie(x.op, x.a, x.b, x.imm) == std::tie(y.op, y.a, y.b, y.imm);
}

bool operator==(const Axis& x, const Axis& y) {
  return std::tie(x.role, x.kind, x.extent, x.split_outer, x.split_limit, x.tile) ==
         std::tie(y.role, y.kind, y.extent, y.split_outer, y.split_limit, y.tile);
}

bool operator==(const Tile& x, const Tile& y) {
  return std::tie(x.space, x.shape, x.dtype) == std::tie(y.space, y.shape, y.dtype);
}

bool operator==(const HbmAccess& x, const HbmAccess& y) {
  return std::tie(x.arg, x.offset, x.strides, x.index, x.index_stride, x.index_size,
                  x.accumulate) ==
         std::tie(y.arg, y.offset, y.strides, y.index, y.index_stride, y.index_size, y.accumulate);
}

bool operator==(const Operand& x, const Operand& y) { return x.kind == y.kind && x.id == y.id; }

bool operator==(const Instr& x, const Instr& y) {
  return std::tie(x.opcode, x.engine, x.fn, x.reduce, x.order, x.axis, x.dst, x.src, x.hbm, x.start,
                  x.op) == std::tie(y.opcode, y.engine, y.fn, y.reduce, y.order, y.axis, y.dst,
                                    y.src, y.hbm, y.start, y.op);
}

bool operator==(const Matmul& x, const Matmul& y) {
  return x.a == y.a && x.b == y.b && x.psum == y.psum && x.op == y.op;
}

bool operator==(const Nest& x, const Nest& y) {
  return x.axes == y.axes && x.tiles == y.tiles && x.has_matmul == y.has_matmul &&
         x.matmul == y.matmul && x.body == y.body && x.finish == y.finish;
}

bool operator==(const Guard& x, const Guard& y) { return x.slot == y.slot && x.limit == y.limit; }

bool operator==(const Program& x, const Program& y) {
  return x.name == y.name && x.target == y.target && x.args == y.args && x.slots == y.slots &&
         x.constants == y.constants && x.guards == y.guards && x.nests == y.nests &&
         x.op_count == y.op_count;
}

}  // namespace nax
