// The meaning of an engine program, element by element, as device/isa/program.h and DESIGN I2 define it: the tests'
// oracle for the interpreter. Slow and literal. Functions that this file does not spell out (exp, erf ...) are taken from
// the scalar library, one element at a time; it has tests of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/isa/program.h"
#include "device/isa/slots.h"
#include "device/scalar/strip.h"

namespace nax::reference {

union Cell {
  float f32;
  double f64;
  int64_t i64;
  int32_t i32;
  Cell() : i64(0) {}
};

inline float round_bf16(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  if (x != x) return x;
  u = (u + 0x7FFF + ((u >> 16) & 1)) & 0xFFFF0000u;
  std::memcpy(&x, &u, 4);
  return x;
}

inline Cell rounded(Cell c, DType t) {
  switch (t) {
    case DType::kBF16: c.f32 = round_bf16(c.f32); break;
    case DType::kF16: c.f32 = static_cast<float>(static_cast<_Float16>(c.f32)); break;
    case DType::kI16: c.i32 = static_cast<int16_t>(c.i32); break;
    case DType::kI8: c.i32 = static_cast<int8_t>(c.i32); break;
    case DType::kU8: c.i32 = static_cast<uint8_t>(c.i32); break;
    case DType::kBool: c.i32 = c.i32 != 0; break;
    default: break;
  }
  return c;
}

inline Cell load(const void* p, DType t) {
  Cell c;
  const auto get = [&](auto v) {
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  switch (t) {
    case DType::kF32: c.f32 = get(float{}); break;
    case DType::kF64: c.f64 = get(double{}); break;
    case DType::kI64: c.i64 = get(int64_t{}); break;
    case DType::kI32: c.i32 = get(int32_t{}); break;
    case DType::kI16: c.i32 = get(int16_t{}); break;
    case DType::kI8: c.i32 = get(int8_t{}); break;
    case DType::kU8: c.i32 = get(uint8_t{}); break;
    case DType::kBool: c.i32 = get(uint8_t{}) != 0; break;
    case DType::kF16: c.f32 = static_cast<float>(get(_Float16{})); break;
    case DType::kBF16: {
      const uint32_t u = static_cast<uint32_t>(get(uint16_t{})) << 16;
      std::memcpy(&c.f32, &u, 4);
      break;
    }
    default: break;
  }
  return c;
}

inline void store(void* p, Cell c, DType t) {
  c = rounded(c, t);
  const auto put = [&](auto v) { std::memcpy(p, &v, sizeof v); };
  switch (t) {
    case DType::kF32: put(c.f32); break;
    case DType::kF64: put(c.f64); break;
    case DType::kI64: put(c.i64); break;
    case DType::kI32: put(c.i32); break;
    case DType::kI16: put(static_cast<int16_t>(c.i32)); break;
    case DType::kI8: put(static_cast<int8_t>(c.i32)); break;
    case DType::kU8:
    case DType::kBool: put(static_cast<uint8_t>(c.i32)); break;
    case DType::kF16: put(static_cast<_Float16>(c.f32)); break;
    case DType::kBF16: {
      uint32_t u;
      std::memcpy(&u, &c.f32, 4);
      if (c.f32 != c.f32) u |= 0x400000;  // a NaN stays one
      put(static_cast<uint16_t>(u >> 16));
      break;
    }
    default: break;
  }
}

// Between lanes, then rounded. x86's answer where a float has no integer.
inline Cell convert(Cell c, Lane from, DType to) {
  const Lane lane = lane_of(to);
  if (to == DType::kBool) {
    const bool set = from == Lane::kF32 ? c.f32 != 0 : from == Lane::kF64 ? c.f64 != 0 : from == Lane::kI64 ? c.i64 != 0 : c.i32 != 0;
    Cell r;
    r.i32 = set;
    return r;
  }
  Cell r;
  if (lane == from) return rounded(c, to);
  cast_fn(HostIsa::kAvx2, from, to)(&r, &c, 1);
  return r;
}

template <class T>
T apply_float(ScalarOp op, T a, T b, T c, bool* known) {
  *known = true;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  switch (op) {
    case ScalarOp::kNegative: return -a;
    case ScalarOp::kAbs: return std::fabs(a);
    case ScalarOp::kSquare: return a * a;
    case ScalarOp::kSqrt: return std::sqrt(a);
    case ScalarOp::kReciprocal: return T(1) / a;
    case ScalarOp::kAdd: return a + b;
    case ScalarOp::kSubtract: return a - b;
    case ScalarOp::kMultiply: return a * b;
    case ScalarOp::kDivide: return a / b;
    case ScalarOp::kMaximum: return a != a || b != b ? nan : a > b ? a : b;
    case ScalarOp::kMinimum: return a != a || b != b ? nan : a < b ? a : b;
    case ScalarOp::kClamp: {
      const T m = a != a || b != b ? nan : a > b ? a : b;
      return m != m || c != c ? nan : m < c ? m : c;
    }
    default: *known = false; return T(0);
  }
}

template <class T>
int compare(ScalarOp op, T a, T b) {  // -1: not a comparison
  switch (op) {
    case ScalarOp::kEqual: return a == b;
    case ScalarOp::kNotEqual: return a != b;
    case ScalarOp::kLess: return a < b;
    case ScalarOp::kLessEqual: return a <= b;
    case ScalarOp::kGreater: return a > b;
    case ScalarOp::kGreaterEqual: return a >= b;
    default: return -1;
  }
}

inline Cell apply(ScalarOp op, Lane lane, Cell a, Cell b, Cell c, DType out, uint8_t* errors) {
  Cell r;
  int compared = -1;
  bool known = false;
  switch (lane) {
    case Lane::kF32:
      compared = compare(op, a.f32, b.f32);
      r.f32 = apply_float(op, a.f32, b.f32, c.f32, &known);
      break;
    case Lane::kF64:
      compared = compare(op, a.f64, b.f64);
      r.f64 = apply_float(op, a.f64, b.f64, c.f64, &known);
      break;
    case Lane::kI64: compared = compare(op, a.i64, b.i64); break;
    case Lane::kI32: compared = compare(op, a.i32, b.i32); break;
  }
  if (op == ScalarOp::kSelect) return rounded(a.i32 != 0 ? b : c, out);
  if (compared >= 0) {
    r = Cell();
    r.i32 = compared;
    return rounded(r, out);
  }
  if (known) return rounded(r, out);
  const bool logical = scalar_op_info(op).result == ScalarResult::kBool;
  const bool direct = !logical || out == DType::kBool;
  strip_fn(HostIsa::kAvx2, op, lane, kStripAll, direct ? out : DType::kBool)(&r, &a, &b, &c, 1, errors);
  return direct ? r : convert(r, Lane::kI32, out);
}

inline Cell identity(ReduceFn fn, Lane lane) {
  Cell c;
  const auto set = [&](auto zero, auto one, auto low, auto high) {
    switch (fn) {
      case ReduceFn::kSum:
      case ReduceFn::kAny: return zero;
      case ReduceFn::kProd:
      case ReduceFn::kAll: return one;
      case ReduceFn::kMax: return low;
      case ReduceFn::kMin: return high;
    }
    return zero;
  };
  const float inf = std::numeric_limits<float>::infinity();
  switch (lane) {
    case Lane::kF32: c.f32 = set(0.0f, 1.0f, -inf, inf); break;
    case Lane::kF64: c.f64 = set(0.0, 1.0, -double{inf}, double{inf}); break;
    case Lane::kI64: c.i64 = set(int64_t{0}, int64_t{1}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()); break;
    case Lane::kI32: c.i32 = set(0, 1, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()); break;
  }
  return c;
}

template <class T>
T fold(ReduceFn fn, T a, T b) {
  using U = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>;
  using V = typename U::type;
  switch (fn) {
    case ReduceFn::kSum: return static_cast<T>(static_cast<V>(a) + static_cast<V>(b));
    case ReduceFn::kProd: return static_cast<T>(static_cast<V>(a) * static_cast<V>(b));
    case ReduceFn::kMax: return a != a ? a : b != b ? b : a > b ? a : b;
    case ReduceFn::kMin: return a != a ? a : b != b ? b : a < b ? a : b;
    case ReduceFn::kAny: return static_cast<T>((a != 0) | (b != 0));
    case ReduceFn::kAll: return static_cast<T>((a != 0) & (b != 0));
  }
  return a;
}
inline Cell fold(ReduceFn fn, Lane lane, Cell a, Cell b) {
  Cell r;
  switch (lane) {
    case Lane::kF32: r.f32 = fold(fn, a.f32, b.f32); break;
    case Lane::kF64: r.f64 = fold(fn, a.f64, b.f64); break;
    case Lane::kI64: r.i64 = fold(fn, a.i64, b.i64); break;
    case Lane::kI32: r.i32 = fold(fn, a.i32, b.i32); break;
  }
  return r;
}

inline Cell tree(ReduceFn fn, Lane lane, std::vector<Cell> v) {
  if (v.empty()) return identity(fn, lane);
  while (v.size() > 1) {
    std::vector<Cell> up;
    for (size_t i = 0; i + 1 < v.size(); i += 2) up.push_back(fold(fn, lane, v[i], v[i + 1]));
    if (v.size() % 2) up.push_back(v.back());
    v = std::move(up);
  }
  return v[0];
}

inline Cell row_rule(ReduceFn fn, Lane lane, const std::vector<Cell>& v, Cell total) {
  for (size_t chunk = 0; chunk < v.size(); chunk += kRowChunk) {
    std::vector<Cell> lanes(kRowLanes, identity(fn, lane));
    for (size_t i = chunk; i < std::min<size_t>(v.size(), chunk + kRowChunk); ++i)
      lanes[i % kRowLanes] = fold(fn, lane, lanes[i % kRowLanes], v[i]);
    for (int s = kRowLanes / 2; s >= 1; s /= 2)
      for (int i = 0; i < s; ++i) lanes[i] = fold(fn, lane, lanes[i], lanes[i + s]);
    total = fold(fn, lane, total, lanes[0]);
  }
  return total;
}

inline Cell column_rule(ReduceFn fn, Lane lane, const std::vector<Cell>& v) {
  Cell total = identity(fn, lane);
  for (size_t chunk = 0; chunk < v.size(); chunk += kColumnChunk) {
    Cell acc = identity(fn, lane);
    for (size_t i = chunk; i < std::min<size_t>(v.size(), chunk + kColumnChunk); ++i) acc = fold(fn, lane, acc, v[i]);
    total = fold(fn, lane, total, acc);
  }
  return total;
}

// Philox4x32-10, written out from the paper's definition.
inline uint32_t philox(uint64_t seed, uint64_t counter, int lane) {
  uint32_t x[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53ull * x[0], p1 = 0xCD9E8D57ull * x[2];
    const uint32_t y[4] = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(p1),
                           static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(p0)};
    std::memcpy(x, y, sizeof x);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return x[lane];
}

class Evaluator {
 public:
  Evaluator(const Program& program, const ArgValue* args, uint8_t* op_errors)
      : p_(program), args_(args, args + program.args.size()), errors_(op_errors), slots_(program.slots.size()) {
    evaluate_slots(program, args, slots_.data());
    for (size_t i = 0; i < p_.args.size(); ++i) {
      if (p_.args[i].kind != ArgKind::kScratch) continue;
      scratch_.emplace_back(static_cast<size_t>(slots_[p_.args[i].scratch_elements]) * dtype_size(p_.args[i].dtype));
      args_[i].data = scratch_.back().data();
      args_[i].offset_bytes = 0;
    }
  }

  void run() {
    for (const Nest& nest : p_.nests) {
      nest_ = &nest;
      coords_.assign(nest.axes.size(), 0);
      loops(0);
    }
  }

 private:
  using Coords = std::vector<int64_t>;
  // Values of a tile: [row][free]; [p, 1] tiles have one free element, [1, f] tiles one row.
  using Values = std::vector<std::vector<Cell>>;

  int64_t slot(SlotId id, int64_t none = 0) const { return id == kNoSlot ? none : slots_[id]; }
  int64_t points(size_t axis) const {
    const Axis& a = nest_->axes[axis];
    const int64_t extent = slot(a.extent);
    if (a.split_outer == kNone) return extent;
    return std::clamp<int64_t>(slot(a.split_limit) - coords_[a.split_outer] * extent, 0, extent);
  }

  void loops(size_t axis) {
    if (axis < nest_->axes.size() && nest_->axes[axis].role == AxisRole::kLoop) {
      const int64_t n = points(axis);
      for (coords_[axis] = 0; coords_[axis] < n; ++coords_[axis]) loops(axis + 1);
      coords_[axis] = 0;
      return;
    }
    if (axis < nest_->axes.size() && nest_->axes[axis].role == AxisRole::kPartition) {
      const int64_t n = points(axis);
      if (nest_->axes[axis].kind == LoopKind::kSequential) {
        for (int64_t r = 0; r < n; ++r) domain(axis, r, r + 1);
      } else {
        domain(axis, 0, n);
      }
      return;
    }
    domain(axis, 0, 1);
  }

  // All points of partition rows [r0, r1) and the free axes, at the current loop coordinates.
  void domain(size_t axis, int64_t r0, int64_t r1) {
    const bool partition = axis < nest_->axes.size() && nest_->axes[axis].role == AxisRole::kPartition;
    rows_.clear();
    for (int64_t r = r0; r < r1; ++r) {
      if (partition) coords_[axis] = r;
      std::vector<Coords> row;
      free_points(axis + (partition ? 1 : 0), &row);
      rows_.push_back(std::move(row));
    }
    if (partition) coords_[axis] = 0;
    column_ = {};
    free_points(axis + (partition ? 1 : 0), &column_);
    base_ = coords_;
    partition_ = partition ? static_cast<int>(axis) : -1;
    first_row_ = r0;
    tiles_.assign(nest_->tiles.size(), {});
    if (nest_->has_matmul) matmul();
    // Without rows there is no partition tile, and the body (with its `finish`, if no reduction carries) does not run.
    const bool carried = partition_ >= 0 && nest_->axes[static_cast<size_t>(partition_)].kind == LoopKind::kCarried;
    for (const Instr& i : nest_->body) {
      const bool one = i.opcode == Opcode::kDmaStore ? nest_->tiles[static_cast<size_t>(i.src[0].id)].shape == TileShape::kOne
                                                     : nest_->tiles[static_cast<size_t>(i.dst)].shape == TileShape::kOne;
      if (rows_.empty() && one && i.opcode != Opcode::kPartitionReduce) continue;
      step(i);
    }
    if (rows_.empty() && !carried) return;
    for (const Instr& i : nest_->finish) step(i);
  }

  void free_points(size_t axis, std::vector<Coords>* out) {
    if (axis >= nest_->axes.size() || nest_->axes[axis].role != AxisRole::kFree) {
      out->push_back(coords_);
      return;
    }
    const int64_t n = points(axis);
    for (coords_[axis] = 0; coords_[axis] < n; ++coords_[axis]) free_points(axis + 1, out);
    coords_[axis] = 0;
  }

  // Coordinates of each element of a shape.
  std::vector<std::vector<Coords>> elements(TileShape shape) const {
    std::vector<std::vector<Coords>> out;
    switch (shape) {
      case TileShape::kFull: return rows_;
      case TileShape::kRow:
        for (size_t r = 0; r < rows_.size(); ++r) {
          Coords c = base_;
          if (partition_ >= 0) c[static_cast<size_t>(partition_)] = first_row_ + static_cast<int64_t>(r);
          out.push_back({c});
        }
        return out;
      case TileShape::kColumn: return {column_};
      case TileShape::kOne: return {{base_}};
    }
    return out;
  }

  // The value of a tile at element (r, f) of a larger shape.
  const Cell& at(TileId t, size_t r, size_t f) const {
    const Values& v = tiles_[static_cast<size_t>(t)];
    const TileShape s = nest_->tiles[static_cast<size_t>(t)].shape;
    return v[s == TileShape::kFull || s == TileShape::kRow ? r : 0][s == TileShape::kFull || s == TileShape::kColumn ? f : 0];
  }

  int64_t offset(const HbmAccess& h, const Coords& c) const {
    int64_t o = slot(h.offset);
    for (size_t a = 0; a < nest_->axes.size(); ++a) o += c[a] * slot(h.strides[a]);
    return o;
  }
  char* address(const HbmAccess& h, int64_t elements) const {
    const ArgValue& arg = args_[static_cast<size_t>(h.arg)];
    return static_cast<char*>(arg.data) + arg.offset_bytes + elements * static_cast<int64_t>(dtype_size(p_.args[static_cast<size_t>(h.arg)].dtype));
  }
  // False: no element to touch.
  bool indirect(const Instr& i, size_t r, size_t f, int64_t* o) {
    if (i.hbm.index == kNone) return true;
    const Cell& c = at(i.hbm.index, r, f);
    int64_t v = lane_of(nest_->tiles[static_cast<size_t>(i.hbm.index)].dtype) == Lane::kI64 ? c.i64 : c.i32;
    const int64_t size = slot(i.hbm.index_size);
    if (v < -size || v >= size) {
      errors_[i.op] |= kOpIndexOutOfRange;
      if (i.opcode == Opcode::kDmaStore || size <= 0) return false;
      v = 0;
    }
    if (v < 0) v += size;
    *o += v * slot(i.hbm.index_stride);
    return true;
  }

  Cell operand(const Operand& o, Lane lane, size_t r, size_t f) const {
    if (o.kind == OperandKind::kTile) {
      const Lane from = lane_of(nest_->tiles[static_cast<size_t>(o.id)].dtype);
      const Cell c = at(o.id, r, f);
      static constexpr DType kNatural[] = {DType::kF32, DType::kF64, DType::kI64, DType::kI32};
      return from == lane ? c : convert(c, from, kNatural[static_cast<int>(lane)]);
    }
    const ScalarValue& v = o.kind == OperandKind::kConstant ? p_.constants[static_cast<size_t>(o.id)] : args_[static_cast<size_t>(o.id)].scalar;
    Cell c;
    switch (lane) {
      case Lane::kF32: c.f32 = v.kind == ScalarValue::Kind::kF64 ? static_cast<float>(v.f64) : static_cast<float>(v.i64); break;
      case Lane::kF64: c.f64 = v.to_f64(); break;
      case Lane::kI64: c.i64 = v.to_i64(); break;
      case Lane::kI32: c.i32 = static_cast<int32_t>(v.to_i64()); break;
    }
    return c;
  }

  Lane operand_lane(const Instr& i, int first) const {
    for (size_t k = static_cast<size_t>(first); k < 3; ++k)
      if (i.src[k].kind == OperandKind::kTile) return lane_of(nest_->tiles[static_cast<size_t>(i.src[k].id)].dtype);
    return lane_of(nest_->tiles[static_cast<size_t>(i.dst)].dtype);
  }

  void step(const Instr& i) {
    if (i.opcode == Opcode::kDmaStore) {
      const TileId t = i.src[0].id;
      const DType to = p_.args[static_cast<size_t>(i.hbm.arg)].dtype;
      const Lane from = lane_of(nest_->tiles[static_cast<size_t>(t)].dtype);
      const auto es = elements(nest_->tiles[static_cast<size_t>(t)].shape);
      for (size_t r = 0; r < es.size(); ++r)
        for (size_t f = 0; f < es[r].size(); ++f) {
          int64_t o = offset(i.hbm, es[r][f]);
          if (!indirect(i, r, f, &o)) continue;
          Cell c = convert(at(t, r, f), from, to);
          if (i.hbm.accumulate) {
            const ReduceFn fn = to == DType::kBool ? ReduceFn::kAny : ReduceFn::kSum;
            // The value is added as the tile holds it, then rounded once.
            if (from == lane_of(to)) c = at(t, r, f);
            c = fold(fn, lane_of(to), load(address(i.hbm, o), to), c);
          }
          store(address(i.hbm, o), c, to);
        }
      return;
    }
    const Tile& tile = nest_->tiles[static_cast<size_t>(i.dst)];
    const auto es = elements(tile.shape);
    Values out(es.size());
    for (size_t r = 0; r < es.size(); ++r) out[r].resize(es[r].size());
    if (i.opcode == Opcode::kTensorReduce || i.opcode == Opcode::kPartitionReduce || i.opcode == Opcode::kScan) {
      reduce(i, tile, &out);
    } else {
      for (size_t r = 0; r < es.size(); ++r)
        for (size_t f = 0; f < es[r].size(); ++f) out[r][f] = element(i, tile, r, f, es[r][f]);
    }
    tiles_[static_cast<size_t>(i.dst)] = std::move(out);
  }

  Cell element(const Instr& i, const Tile& tile, size_t r, size_t f, const Coords& c) {
    switch (i.opcode) {
      case Opcode::kDmaLoad: {
        const DType from = p_.args[static_cast<size_t>(i.hbm.arg)].dtype;
        int64_t o = offset(i.hbm, c);
        if (!indirect(i, r, f, &o)) return Cell();
        return convert(load(address(i.hbm, o), from), lane_of(from), tile.dtype);
      }
      case Opcode::kTensorCopy: {
        const Lane from = lane_of(nest_->tiles[static_cast<size_t>(i.src[0].id)].dtype);
        return convert(at(i.src[0].id, r, f), from, tile.dtype);
      }
      case Opcode::kMemset: return rounded(operand(i.src[0], lane_of(tile.dtype), r, f), tile.dtype);
      case Opcode::kIota: {
        const int64_t x = c[static_cast<size_t>(i.axis)];
        Cell v;
        if (is_floating(tile.dtype)) {
          v.f64 = operand(i.src[0], Lane::kF64, r, f).f64 + static_cast<double>(x) * operand(i.src[1], Lane::kF64, r, f).f64;
          return convert(v, Lane::kF64, tile.dtype);
        }
        v.i64 = operand(i.src[0], Lane::kI64, r, f).i64 + x * operand(i.src[1], Lane::kI64, r, f).i64;
        return convert(v, Lane::kI64, tile.dtype);
      }
      case Opcode::kPhilox: {
        const int64_t n = offset(i.hbm, c);
        const ArgValue& a = args_[static_cast<size_t>(i.src[0].id)];
        const uint32_t bits = philox(a.seed, a.seed_offset + static_cast<uint64_t>(n / 4), static_cast<int>(n % 4));
        Cell v;
        if (tile.dtype == DType::kI64) v.i64 = bits;
        else v.i32 = static_cast<int32_t>(bits);
        return v;
      }
      default: {
        const bool select = i.fn == ScalarOp::kSelect;
        const Lane lane = operand_lane(i, select ? 1 : 0);
        Cell s[3];
        for (int k = 0; k < scalar_op_info(i.fn).arity; ++k)
          s[k] = operand(i.src[static_cast<size_t>(k)], select && k == 0 ? Lane::kI32 : lane, r, f);
        return apply(i.fn, lane, s[0], s[1], s[2], tile.dtype, &errors_[i.op]);
      }
    }
  }

  void reduce(const Instr& i, const Tile& tile, Values* out) {
    const Lane lane = lane_of(tile.dtype);
    const TileId t = i.src[0].id;
    Values v = tiles_[static_cast<size_t>(t)];
    if (i.reduce == ReduceFn::kAny || i.reduce == ReduceFn::kAll)
      for (auto& row : v)
        for (Cell& c : row) c.i32 = c.i32 != 0;
    if (i.opcode == Opcode::kScan) {
      for (size_t r = 0; r < v.size(); ++r) {
        Cell acc = identity(i.reduce, lane);
        for (size_t f = 0; f < v[r].size(); ++f) {
          acc = fold(i.reduce, lane, acc, v[r][f]);
          (*out)[r][f] = rounded(acc, tile.dtype);
        }
      }
      return;
    }
    if (i.opcode == Opcode::kTensorReduce) {
      for (size_t r = 0; r < v.size(); ++r) {
        const Cell start = i.start ? identity(i.reduce, lane) : at(i.dst, r, 0);
        const Cell x = i.order == ReduceOrder::kTree ? tree(i.reduce, lane, v[r]) : row_rule(i.reduce, lane, v[r], start);
        (*out)[r][0] = rounded(x, tile.dtype);
      }
      return;
    }
    for (size_t f = 0; f < (*out)[0].size(); ++f) {
      std::vector<Cell> column;
      for (const auto& row : v) column.push_back(row[f]);
      const Cell x = i.order == ReduceOrder::kTree ? tree(i.reduce, lane, column) : column_rule(i.reduce, lane, column);
      (*out)[0][f] = rounded(x, tile.dtype);
    }
  }

  void matmul() {
    const Matmul& m = nest_->matmul;
    const size_t k_axis = nest_->axes.size() - 1;
    const int64_t depth = slot(nest_->axes[k_axis].extent);
    const DType type = p_.args[static_cast<size_t>(m.a.arg)].dtype;
    Values out(rows_.size());
    for (size_t r = 0; r < rows_.size(); ++r)
      for (Coords c : rows_[r]) {
        Cell acc;
        for (int64_t k = 0; k < depth; ++k) {
          c[k_axis] = k;
          const Cell a = load(address(m.a, offset(m.a, c)), type), b = load(address(m.b, offset(m.b, c)), type);
          switch (lane_of(type)) {
            case Lane::kF32: acc.f32 = std::fma(a.f32, b.f32, acc.f32); break;
            case Lane::kF64: acc.f64 = std::fma(a.f64, b.f64, acc.f64); break;
            case Lane::kI64: acc.i64 = static_cast<int64_t>(static_cast<uint64_t>(acc.i64) + static_cast<uint64_t>(a.i64) * static_cast<uint64_t>(b.i64)); break;
            case Lane::kI32: acc.i32 = static_cast<int32_t>(static_cast<uint32_t>(acc.i32) + static_cast<uint32_t>(a.i32) * static_cast<uint32_t>(b.i32)); break;
          }
        }
        out[r].push_back(acc);
      }
    tiles_[static_cast<size_t>(m.psum)] = std::move(out);
  }

  const Program& p_;
  std::vector<ArgValue> args_;
  uint8_t* errors_;
  std::vector<int64_t> slots_;
  std::vector<std::vector<char>> scratch_;
  const Nest* nest_ = nullptr;
  Coords coords_, base_;
  std::vector<std::vector<Coords>> rows_;
  std::vector<Coords> column_;
  int partition_ = -1;
  int64_t first_row_ = 0;
  std::vector<Values> tiles_;
};

}  // namespace nax::reference
