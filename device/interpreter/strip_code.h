// A LaneProgram with everything looked up once: function pointers, strip slots, and which loads and stores can be done in
// place. Immutable; the lane program must outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "device/base/status.h"
#include "device/interpreter/lane_program.h"
#include "device/scalar/strip.h"

namespace nax {

struct StripOp {
  LaneOpKind kind = LaneOpKind::kApply;
  bool row = false;              // on kRow and kOne values
  uint8_t arity = 0;
  uint8_t memory_size = 0;       // bytes of an element in memory: kLoad, kStore
  uint8_t src_size = 0;          // bytes of a lane of src[0]
  uint8_t dst_size = 0;          // bytes of a lane of dst
  bool in_place_load = false;    // kLoad: memory is a strip where it is contiguous
  int16_t direct_store = -1;     // op that stores this op's result and may be merged into it
  int16_t merged_into = -1;      // kStore: the op that may write in its place
  StripFn apply[8] = {};         // by StripForm
  CastFn cast = nullptr;
  LoadFn load = nullptr;
  StoreFn store = nullptr;
  RoundFn round = nullptr;       // after reductions
  RowReduceFn row_reduce = nullptr;
  ColumnReduceFn column_reduce = nullptr;
  CombineFn combine = nullptr;   // tree reductions; accumulating stores
  ScanFn scan = nullptr;
};

struct StripCode {
  const LaneProgram* lanes = nullptr;
  HostIsa isa = HostIsa::kAvx2;
  std::vector<StripOp> ops;
  std::vector<int16_t> slots;    // strip slot of each kFull value (reused within a stage), row slot of the others
  int strip_slots = 0;
  int row_slots = 0;
  int64_t strip = 1024;          // elements of a strip: live values x strip is at most half of L1
  size_t lane_bytes = 4;         // of the widest kFull value
  double element_ns = 1;         // rough time of one kFull element, for choosing what is worth a thread
};

// Tree-order partition reductions: level l holds, for each column, the sum of a finished group of 2^l rows.
// RowRunArgs::column_accumulators[i] points to one of these for them.
struct ColumnTree {
  char* levels = nullptr;    // level-major, `width` lanes each
  int64_t width = 0;
  int64_t first_row = 0;     // ordinal of row p = 0 of the run
};
inline constexpr int kColumnTreeLevels = 40;

StatusOr<StripCode> make_strip_code(const LaneProgram& lanes, HostIsa isa);

// The executor: the meaning of a RowRunFn. Any thread; uses buffers of the calling thread.
void run_strips(const StripCode& code, const RowRunArgs& args, int64_t p0, int64_t p1, int64_t f0, int64_t f1);

}  // namespace nax
