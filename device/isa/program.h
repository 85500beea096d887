// The engine program: the one truth of nax. Lowering writes it, the interpreter runs it, the JIT compiles it, the
// timing model times it, the disk cache stores it, the tools print it. Plain data: no threads, no pointers to tensors.
//
// Shape of a program
//   A program is a sequence of *nests*, run in order. A nest is loops over an iteration space of named axes around a
//   straight list of engine instructions:
//
//     for each point of the loop axes                      (parallel | sequential | carried)
//       for each tile of 128 points of the partition axis
//         [psum tile = matmul over the k axis]             (only in a nest with a `matmul`)
//         for each tile of the free axis                   (one tile where the axis is not tiled)
//           body instructions on tiles [partitions, free]
//       finish instructions                                (after the carried loop that a reduction needs)
//
//   Meaning is sequential program order, element by element: values never depend on tile sizes ("tiles are semantic for
//   capacity and time, strips are host scheduling"). Executors therefore work on axis coordinates: element (c0, c1, ...) of
//   an HBM access lives at  base + offset + sum over axes of coordinate * stride  (elements of the access's dtype). The
//   expansion into tile loops, DMA descriptors and 128x128x512 nc_matmul instructions is a pure function of the nest and
//   the target; it serves timing, verifier and dump only.
//
//   All sizes, strides, offsets and trip counts are *slots*: an int64 table evaluated once per launch from the
//   argument rows. Instructions hold slot numbers only, so one program serves all sizes.
//
// Reductions have the fixed orders of DESIGN I2 / §11:
//   tensor_reduce            along the free axes, row rule: chunks of 512 logical elements, 16 lanes (i mod 16), halving
//                            tree (8, 4, 2, 1), chunks left to right. The axis must be the whole row or tiled in multiples
//                            of 512. Rows longer than 65536 elements are lowered as blocks of 65536 (loop axis + split free
//                            axis), partials to scratch, then `tensor_reduce` with order kTree.
//   tensor_partition_reduce  along the partition axis, column rule: sequential inside a chunk of 128 rows, chunks left
//                            to right. Longer than 65536 rows: blocks and a tree likewise.
//   kTree                    neighbours pair: (0,1) (2,3) ...; an odd last one is carried up unchanged; until one is left.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device/base/dtype.h"
#include "device/base/scalar_value.h"
#include "device/isa/scalar_op.h"

namespace nax {

inline constexpr int kMaxRank = 6;         // dimensions of a view argument
inline constexpr int kMaxAxes = 8;         // axes of a nest, k included
inline constexpr int64_t kPartitions = 128;
inline constexpr int64_t kRowChunk = 512;        // elements
inline constexpr int kRowLanes = 16;
inline constexpr int64_t kColumnChunk = 128;     // rows
inline constexpr int64_t kReduceBlock = 65536;   // elements along the reduced axis

using SlotId = int16_t;   // index into Program::slots; kNoSlot where absent
using ArgId = int16_t;    // index into Program::args
using TileId = int16_t;   // index into Nest::tiles
using AxisId = int8_t;    // index into Nest::axes
inline constexpr SlotId kNoSlot = -1;
inline constexpr int16_t kNone = -1;

// ---- Arguments -----------------------------------------------------------------------------------------------------

enum class ArgKind : uint8_t { kView = 0, kScalar = 1, kSeed = 2, kScratch = 3 };

// One column of the argument table. A launch has one row of ArgValues per instance.
struct ArgDecl {
  ArgKind kind = ArgKind::kView;
  DType dtype = DType::kF32;  // of the elements, or of the scalar after promotion
  uint8_t rank = 0;           // views: number of sizes and strides that slots may name
  bool read = false;          // views: read by some dma_copy or matmul
  bool written = false;       // views: written by some dma_copy
  SlotId scratch_elements = kNoSlot;  // scratch: how many elements the executor provides (undefined contents)
};

// ---- Slots ---------------------------------------------------------------------------------------------------------

enum class SlotOp : uint8_t {
  kConst = 0,      // imm
  kArgSize = 1,    // args[a].sizes[b]
  kArgStride = 2,  // args[a].strides[b], elements
  kAdd = 3, kSub = 4, kMul = 5, kCeilDiv = 6, kFloorDiv = 7, kMin = 8, kMax = 9,  // of slots a, b (both earlier)
};
struct Slot {
  SlotOp op = SlotOp::kConst;
  int16_t a = 0, b = 0;
  int64_t imm = 0;
};

// ---- Nests ---------------------------------------------------------------------------------------------------------

enum class AxisRole : uint8_t {
  kLoop = 0,
  kPartition = 1,   // at most one a nest; tiled by 128
  kFree = 2,        // innermost; several free axes are one linearised free axis, outer first
  kContract = 3,    // k of a matmul nest
};
enum class LoopKind : uint8_t {
  kParallel = 0,    // iterations are independent, any order
  kSequential = 1,  // ascending order matters (scatter with duplicates, scans over loops)
  kCarried = 2,     // ascending, and a reduction tile carries over the iterations (partition axis of a column reduction)
};
struct Axis {
  AxisRole role = AxisRole::kLoop;
  LoopKind kind = LoopKind::kParallel;
  SlotId extent = kNoSlot;  // number of points
  // Split axes: this axis is the inner part of a longer one. The number of points at outer coordinate o is
  // clamp(limit - o * extent, 0, extent). Used for rows of a flat vector and for the 65536 blocks of long reductions.
  AxisId split_outer = kNone;
  SlotId split_limit = kNoSlot;
  // Free axes: elements a tile (kNoSlot: the whole axis is one tile and must fit in SBUF).
  SlotId tile = kNoSlot;
};

enum class Space : uint8_t { kSbuf = 0, kPsum = 1 };
// Shape of a tile in terms of the nest: which of (partition, free) it spans.
enum class TileShape : uint8_t {
  kFull = 0,    // [partitions, free]
  kRow = 1,     // [partitions, 1]: one value a row; broadcast along free where it is read
  kColumn = 2,  // [1, free]: result of a partition reduction
  kOne = 3,     // [1, 1]
};
struct Tile {
  Space space = Space::kSbuf;
  TileShape shape = TileShape::kFull;
  DType dtype = DType::kF32;  // every write rounds to it
};

// An affine HBM access: element at coordinates c is base(arg) + offset + sum(c[axis] * stride[axis]).
struct HbmAccess {
  ArgId arg = kNone;
  SlotId offset = kNoSlot;  // elements, on top of the argument's own byte offset; kNoSlot = 0
  std::array<SlotId, kMaxAxes> strides = {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};  // kNoSlot = 0: broadcast
  // Indirect: adds value(index tile) * index_stride. An index outside [-index_size, index_size) sets the op's error bit
  // (index out of range) and a safe element (0) is used; a negative index counts from the end.
  TileId index = kNone;
  SlotId index_stride = kNoSlot;
  SlotId index_size = kNoSlot;
  bool accumulate = false;  // stores only: read, add, round, write; program order (DMA compute add)
};

enum class Engine : uint8_t { kPE = 0, kACT = 1, kDVE = 2, kPOOL = 3, kSP = 4, kDMA = 5 };
inline constexpr int kEngineCount = 6;

// Names follow nki.isa; opcodes with "x." in their text form are extensions (see opcode_info for the reason).
enum class Opcode : uint8_t {
  kDmaLoad = 0,          // dma_copy tile <- hbm: converts to the tile's dtype
  kDmaStore = 1,         // dma_copy hbm <- tile: converts to the argument's dtype
  kTensorTensor = 2,     // dst = fn(tile, tile)
  kTensorScalar = 3,     // dst = fn(tile, scalar or row tile), either order
  kActivation = 4,       // dst = fn(tile), on ACT
  kTensorCopy = 5,       // dst = src, converting
  kMemset = 6,           // dst = scalar
  kSelect = 7,           // x.select: dst = a != 0 ? b : c
  kPointwise = 8,        // x.pointwise: fn that no engine has as one instruction (divide, f64, full-range sin ...): POOL
  kTensorReduce = 9,     // dst[P,1] = reduce over free
  kPartitionReduce = 10, // tensor_partition_reduce: dst[1,F] = reduce over partitions
  kIota = 11,            // dst = offset + coordinate along one axis (attr `axis`), times scale
  kScan = 12,            // tensor_tensor_scan: running reduction along free, sequential from element 0
  kPhilox = 13,          // x.philox: 32 random bits an element from a seed argument, by logical index
};
inline constexpr int kOpcodeCount = 14;

enum class ReduceOrder : uint8_t { kRow = 0, kColumn = 1, kTree = 2 };
enum class ReduceFn : uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAny = 4, kAll = 5 };  // max/min propagate NaN

enum class OperandKind : uint8_t { kNone = 0, kTile = 1, kScalarArg = 2, kConstant = 3 };
struct Operand {
  OperandKind kind = OperandKind::kNone;
  int16_t id = kNone;  // tile, scalar argument, or index into Program::constants
};

struct Instr {
  Opcode opcode = Opcode::kTensorCopy;
  Engine engine = Engine::kDVE;
  ScalarOp fn = ScalarOp::kCopy;    // pointwise opcodes
  ReduceFn reduce = ReduceFn::kSum; // kTensorReduce, kPartitionReduce, kScan
  ReduceOrder order = ReduceOrder::kRow;
  AxisId axis = kNone;              // kIota
  TileId dst = kNone;               // all but kDmaStore
  std::array<Operand, 3> src = {};
  HbmAccess hbm = {};               // kDmaLoad, kDmaStore
  // Reductions start from the identity at the first tile of the loop they run over, or go on from dst where false
  // (hand-written programs that split a row themselves).
  bool start = true;
  uint16_t op = 0;                  // index of the region's op that this instruction works for (errors, explain)
};

// PSUM source of a nest: psum[m, n] = sum over k ascending of a[.., m, k] * b[.., k, n], one fma chain an element, in the
// accumulator's type. m is the nest's partition axis, n its free axis, k its contract axis.
struct Matmul {
  HbmAccess a, b;
  TileId psum = kNone;  // f32 (f32, bf16, f16 operands), f64, or i64/i32 (integers, wrapping)
  uint16_t op = 0;
};

struct Nest {
  std::vector<Axis> axes;  // loops outer to inner, then partition, then free axes, then contract
  std::vector<Tile> tiles;
  bool has_matmul = false;
  Matmul matmul;
  std::vector<Instr> body;
  std::vector<Instr> finish;  // after the free-tile loop (row reductions) or the carried partition loop (column reductions)
};

// ---- Program -------------------------------------------------------------------------------------------------------

// A launch guard: the program may run only where slot value <= limit. A failed guard is a counted miss; the launcher takes
// the next variant.
struct Guard {
  SlotId slot = kNoSlot;
  int64_t limit = 0;
};

struct Program {
  std::string name;                    // [a-z0-9_.]+, for people
  std::string target = "trn2";
  std::vector<ArgDecl> args;
  std::vector<Slot> slots;
  std::vector<ScalarValue> constants;
  std::vector<Guard> guards;
  std::vector<Nest> nests;
  uint16_t op_count = 1;               // ops of the region; every Instr::op is below it
};

// ---- Launch --------------------------------------------------------------------------------------------------------

// One cell of the argument table. `data` is the host address of the view's *buffer* (HBM backing), `offset_bytes` the
// view's; sizes and strides are in elements.
struct ArgValue {
  void* data = nullptr;
  int64_t offset_bytes = 0;
  std::array<int64_t, kMaxRank> sizes = {};
  std::array<int64_t, kMaxRank> strides = {};
  ScalarValue scalar;
  uint64_t seed = 0, seed_offset = 0;
};

// What went wrong for one op of the region while the data was processed. Bits, so that threads can or them.
enum OpErrorBits : uint8_t {
  kOpOk = 0,
  kOpIndexOutOfRange = 1,
  kOpIntegerDivideByZero = 2,
  kOpAssertFailed = 4,
};

}  // namespace nax
