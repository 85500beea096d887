// A nest, prepared for the host: what the interpreter executes strip by strip and what the JIT compiles into one loop.
//
// From a nest to lane ops
//   Tiles become SSA values: each write of a tile is a new value. An instruction becomes one lane op, plus conversions
//   (kConvert) where an operand's lane differs from the lane the function computes in. Loads and stores name an entry of
//   `accesses`, scalar operands an entry of `scalars`. Nothing here depends on sizes or strides.
//
// Values and rows
//   A *run* covers rows [p0, p1) of the partition axis and elements [f0, f1) of the linearised free axis, at fixed
//   coordinates of the loop axes. Value shapes: kFull has one element for each (row, free) pair, kRow one a row, kColumn
//   one a free element, kOne one for the whole run. A column reduction's `finish` is a lane program of its own over one row:
//   there kColumn results appear as kFull and kOne results as kRow, loaded from accumulators.
//
// Stages
//   A row reduction ends a stage: its result is known only when the row's last element has been seen. Stage s first
//   executes its `row_ops` (kRow and kOne values: once a row), then its `strip_ops` (kFull values: once an element, in
//   any grouping of elements, ascending), then closes the reductions among them. A kFull value used in a later stage has
//   a `row_buffer`; a `rereadable` load is listed again in each stage that uses it instead. A program without reductions has
//   one stage.
//
// What a JIT may assume of a RowRunFn call
//   * args->accesses has one entry for each of `accesses`, in order; pointers are valid for the whole run. Accesses of
//     different arguments do not overlap: where a launch breaks that, the interpreter runs it. Accesses of one argument may
//     meet in the same element only; their program order counts there.
//   * If the program has a kRow-order, kTree or scan reduction along free, f0 == 0 and f1 is the whole row.
//   * Rows never have different lengths within one call: the executor splits tails off.
//   * With n_free == 1 the element of an access at (p, f) is base + p * row_stride + f * free_stride[0], in elements. For
//     n_free > 1, f is linear over free_extent (outer first) and is to be decomposed.
//   * A kernel is called only with runs that satisfy its CompiledKernel description (see there); it writes nothing but
//     stores, column accumulators, error bits and `row_buffers`.
//   * op_errors belongs to the calling thread; bits are or-ed in.
//   * Calls for one nest may run at the same time on several threads, with disjoint rows or free ranges.
// What it must keep: every value rounds to its dtype at its definition; reductions follow DESIGN I2 (chunks of 512 from
// element 0 of the row, 16 lanes, halving tree, chunks left to right from the identity).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/isa/program.h"

namespace nax {

inline constexpr int kMaxFreeDims = 6;

enum class LaneOpKind : uint8_t {
  kLoad = 0,             // dst = access
  kStore = 1,            // access = src[0]
  kApply = 2,            // dst = fn(src...)
  kConvert = 3,          // dst = src[0], to dst's lane and dtype (also tensor_copy and memset)
  kReduce = 4,           // dst (kRow) = reduce src[0] (kFull) along free
  kPartitionReduce = 5,  // column_accumulators[accumulator] op= src[0], row by row
  kIota = 6,             // dst = src[0] + index(access) * src[1]; the access is virtual: its "address" is the index
  kScan = 7,             // dst = running reduction of src[0] along free
  kPhilox = 8,           // dst = 32 random bits at index(access), seed from seeds[src[0].id]
};

struct LaneOperand {
  enum class Kind : uint8_t { kNone = 0, kValue = 1, kScalar = 2 };
  Kind kind = Kind::kNone;
  int16_t id = -1;  // into values, or scalars
};

struct LaneValue {
  Lane lane = Lane::kF32;
  DType dtype = DType::kF32;  // rounded (or wrapped) to it at the definition
  TileShape shape = TileShape::kFull;
  int16_t def = -1;         // defining op
  int16_t stage = 0;        // in which it is defined; results of reductions are known from stage + 1 on
  int16_t row_buffer = -1;  // >= 0: computed in `stage` and used in a later one
};

// Static knowledge about the stride along the innermost free axis: constant slots. Others are known only at launch.
enum class InnerStride : uint8_t { kZero = 0, kUnit = 1, kAny = 2 };

enum class AccessSource : uint8_t {
  kHbm = 0,
  kIndex = 1,        // virtual: an index, not an address (kIota: coordinate of an axis; kPhilox: logical index)
  kPsum = 2,         // the matmul's accumulators, in their lane
  kAccumulator = 3,  // in `finish`: results of column reductions, in their lane
};

struct LaneAccess {
  AccessSource source = AccessSource::kHbm;
  HbmAccess hbm = {};              // kHbm
  int16_t id = -1;                 // kIndex: axis, or -1 for the logical index; kAccumulator: which
  bool store = false;
  bool rereadable = false;         // loads: memory keeps the value until the last use
  DType dtype = DType::kF32;       // in memory
  TileShape shape = TileShape::kFull;
  InnerStride inner = InnerStride::kAny;
  int16_t index_value = -1;        // indirect: value that holds the index (lane I64 or I32)
};

struct LaneScalar {
  Operand source;           // scalar argument or constant
  Lane lane = Lane::kF32;   // converted to this lane before the launch
};

struct LaneOp {
  LaneOpKind kind = LaneOpKind::kApply;
  ScalarOp fn = ScalarOp::kCopy;
  ReduceFn reduce = ReduceFn::kSum;
  ReduceOrder order = ReduceOrder::kRow;
  Lane lane = Lane::kF32;     // of the operands that fn computes on
  int16_t stage = 0;
  int16_t dst = -1;           // value
  int16_t access = -1;
  int16_t accumulator = -1;   // kPartitionReduce
  std::array<LaneOperand, 3> src = {};  // kReduce: src[1] is the value to go on from, or none for the identity
  uint16_t op = 0;            // region op, for error bits
};

struct LaneStage {
  std::vector<int16_t> row_ops;    // indices into ops, program order
  std::vector<int16_t> strip_ops;
};

struct ColumnAccumulator {
  ReduceFn reduce = ReduceFn::kSum;
  Lane lane = Lane::kF32;     // accumulates in this lane
  ReduceOrder order = ReduceOrder::kColumn;
  DType dtype = DType::kF32;  // the result rounds to it
  TileShape shape = TileShape::kColumn;  // or kOne: one element
};

struct LaneProgram {
  std::vector<LaneValue> values;
  std::vector<LaneAccess> accesses;
  std::vector<LaneScalar> scalars;
  std::vector<int16_t> seeds;            // argument ids of kSeed arguments
  std::vector<LaneOp> ops;               // program order
  std::vector<LaneStage> stages;
  std::vector<ColumnAccumulator> accumulators;
  std::shared_ptr<const LaneProgram> finish;  // after a column reduction; null without one
  int row_buffers = 0;
  bool has_row_reduction = false;        // kReduce or kScan: needs whole rows
  bool has_indirect = false;
  bool may_fail = false;                 // can set error bits
};

// One lane scalar, already converted.
union LaneCell {
  float f32;
  double f64;
  int64_t i64;
  int32_t i32;
};
static_assert(sizeof(LaneCell) == 8);

struct AccessRun {
  // Address of the element at row 0, free 0 at the run's loop coordinates; virtual accesses: null.
  char* base = nullptr;
  int64_t index = 0;        // virtual accesses: index at row 0, free 0
  int64_t row_stride = 0;   // elements (virtual: index steps)
  std::array<int64_t, kMaxFreeDims> free_stride = {};  // outer first; [n_free - 1] is the innermost
  // Indirect accesses.
  int64_t index_stride = 0;
  int64_t index_size = 0;
};

struct SeedRun {
  uint64_t seed = 0, offset = 0;
};

struct RowRunArgs {
  const AccessRun* accesses = nullptr;
  const LaneCell* scalars = nullptr;
  const SeedRun* seeds = nullptr;
  int n_free = 1;
  std::array<int64_t, kMaxFreeDims> free_extent = {};  // product: elements of a row
  int64_t row_length = 0;                              // elements of a whole row
  uint8_t* op_errors = nullptr;
  // Row buffers: buffer i starts at row_buffers + i * row_buffer_bytes, holds one row in its value's lane, 64-byte aligned.
  char* row_buffers = nullptr;
  int64_t row_buffer_bytes = 0;
  // Column accumulator i, element f at [(f - f0) * lane size]; the caller starts, combines and closes chunks of 128 rows.
  char* const* column_accumulators = nullptr;
};

// Executes rows [p0, p1) x free [f0, f1) of every op in `stages`, in program order for each element.
using RowRunFn = void (*)(const RowRunArgs* args, int64_t p0, int64_t p1, int64_t f0, int64_t f1);

// A compiled run. The interpreter calls it where the launch satisfies all of: each access's innermost stride is of the
// class in `inner` (kAny: no demand; kUnit: 1; kZero: 0), n_free <= max_free, and row_length >= min_row.
struct CompiledKernel {
  RowRunFn run = nullptr;
  std::vector<InnerStride> inner;  // one an access
  int max_free = 1;
  int level = 0;                   // of the code, as the compiler counts
  int64_t min_row = 0;             // rows shorter than this are faster in strips, which pack several
  std::shared_ptr<void> code;      // keeps the machine code alive
};

}  // namespace nax
