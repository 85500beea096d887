// Precompiled vector loops over strips: what the interpreter runs, and what the JIT calls where it has not inlined a
// function. A strip is a contiguous array of lane values (device/isa/scalar_op.h: Lane), 1-2K of them as a rule.
//
// Contract of every loop here
//   - n >= 0, any n; no alignment is required (64 bytes is fastest); nothing past n is read or written.
//   - Strip operands and dst are either the same pointer (in place, lanes of one size) or disjoint.
//   - A function of its inputs alone: no state, any thread. Bits do not depend on n, on the position in a strip or on
//     the host ISA (NaN payloads aside), provided that MXCSR is at its default.
// Tables return nullptr for what does not exist; scalar_op_info() says what does.
#pragma once

#include <cstdint>

#include "device/base/dtype.h"
#include "device/base/host_isa.h"
#include "device/base/scalar_value.h"
#include "device/isa/program.h"
#include "device/isa/scalar_op.h"

namespace nax {

// Errors are or-ed in as OpErrorBits; the element gets a safe value (0).
using StripFn = void (*)(void* dst, const void* a, const void* b, const void* c, int64_t n, uint8_t* errors);

// Which operands are one broadcast value (a pointer to a single lane value) instead of a strip.
enum StripForm : unsigned { kStripAll = 0, kScalarA = 1, kScalarB = 2, kScalarC = 4 };

// dst[i] = round_to(out, op(a[i], b[i], c[i])). `lane` is the operands' lane (of b and c for kSelect, whose a is I32); `out`
// is the dtype of the tile written: lane_of(out) is `lane`, or `out` is kBool where the op's result is kBool. (To write a
// comparison into another dtype, or across lanes, add a cast_fn.) Unary ops have only kStripAll; others every form with at
// least one strip.
StripFn strip_fn(HostIsa isa, ScalarOp op, Lane lane, unsigned form, DType out);

// Memory -> lanes of lane_of(dtype), exact. `stride` in elements: 1 fast, 0 broadcast, else (negative too) a gather.
// Unit-stride f32, f64, i64 and i32 memory *is* a strip: no load is needed.
using LoadFn = void (*)(void* lanes, const void* src, int64_t stride, int64_t n);
LoadFn load_fn(HostIsa isa, DType dtype);

// Lanes of lane_of(dtype) -> memory, rounding (f16, bf16: to nearest even), wrapping (integers) or != 0 (bool).
using StoreFn = void (*)(void* dst, const void* lanes, int64_t stride, int64_t n);
StoreFn store_fn(HostIsa isa, DType dtype);

// In place: the value that a store to `dtype` and a load would give. nullptr where that is the identity (f32 f64 i64 i32).
using RoundFn = void (*)(void* lanes, int64_t n);
RoundFn round_fn(HostIsa isa, DType dtype);

// Lanes of `from` -> lanes of lane_of(to), rounded to `to`, as PyTorch's CPU casts (float to integer truncates; NaN and out
// of range give the x86 indefinite value; to bool is != 0). dst and src must be disjoint unless their lanes have one size.
using CastFn = void (*)(void* dst, const void* src, int64_t n);
CastFn cast_fn(HostIsa isa, Lane from, DType to);

// One lane value of `dtype` from a scalar, rounded; out has room for lane_size(lane_of(dtype)) bytes.
void scalar_to_lane(const ScalarValue& value, DType dtype, void* out);
// dst[i] = *value.
void fill_lanes(Lane lane, void* dst, const void* value, int64_t n);

// ---- Reductions, in the orders of DESIGN I2 ------------------------------------------------------------------------
// kMax and kMin propagate NaN; kAny and kAll exist on I32 lanes of bools only (cast to bool first).

// The value that changes nothing (0, 1, -inf, +inf, lowest, highest, false, true).
void reduce_identity(ReduceFn fn, Lane lane, void* out);

// Row rule. *accumulator (one lane value, the identity at the start of a row) takes the chunks of x from left to right. A
// row may be fed in pieces: all but its last piece are multiples of kRowChunk elements.
using RowReduceFn = void (*)(const void* x, int64_t n, void* accumulator);
RowReduceFn row_reduce_fn(HostIsa isa, ReduceFn fn, Lane lane);

// Column rule, inside a chunk: accumulator[j] = fn(accumulator[j], x[r * row_stride + j]) for r ascending. Row strides are
// in lanes. The caller starts a fresh accumulator every kColumnChunk rows and combines it into the total.
using ColumnReduceFn = void (*)(const void* x, int64_t row_stride, int64_t rows, int64_t columns, void* accumulator);
ColumnReduceFn column_reduce_fn(HostIsa isa, ReduceFn fn, Lane lane);

// accumulator[j] = fn(accumulator[j], x[j]).
using CombineFn = void (*)(void* accumulator, const void* x, int64_t n);
CombineFn combine_fn(HostIsa isa, ReduceFn fn, Lane lane);

// Running reduction from element 0: dst[i] = *accumulator = fn(*accumulator, x[i]).
using ScanFn = void (*)(void* dst, const void* x, int64_t n, void* accumulator);
ScanFn scan_fn(HostIsa isa, ReduceFn fn, Lane lane);

// ReduceOrder::kTree over values pushed in order: neighbours pair, level by level; an odd last one is carried up unchanged.
class TreeReducer {
 public:
  TreeReducer(HostIsa isa, ReduceFn fn, Lane lane);
  void push(const void* value);
  void push_strip(const void* values, int64_t n);
  // The identity where nothing was pushed. The reducer is empty afterwards.
  void finish(void* out);

 private:
  CombineFn combine_;
  ReduceFn fn_;
  Lane lane_;
  uint64_t count_ = 0;
  uint64_t levels_[64];  // one lane value each; level i is in use where bit i of count_ is set
};

}  // namespace nax
