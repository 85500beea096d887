// One call of run_strips: blocks of rows x free elements that fit in L1, stage by stage. Internal to the interpreter.
#pragma once

#include <vector>

#include "device/interpreter/arena.h"
#include "device/interpreter/block_moves.h"
#include "device/interpreter/strip_code.h"

namespace nax {

inline constexpr int64_t kMaxBlockRows = 512;
inline constexpr int64_t kWideRow = 48;  // row values are passed as scalars from this width on, and expanded below
inline constexpr int kTemps = 4;  // three expanded operands and one for moves

// Where a value is found while a block runs.
struct Place {
  enum class Kind : uint8_t { kStrip = 0, kRowBuffer = 1, kUniform = 2, kRow = 3 };
  Kind kind = Kind::kStrip;
  char* ptr = nullptr;  // kUniform: one lane; kRow: one lane a row; kRowBuffer: start of the buffer
};

// One op of a stage with everything known that a run does not change, so that a strip costs a call and little else.
struct Step {
  enum class Kind : uint8_t { kOp = 0, kAddress = 1, kCall = 2 } kind = Kind::kOp;
  int16_t op = 0;
  StripFn call = nullptr;                  // kCall: (*dst, *src0, *src1, *src2, n, errors)
  char* const* dst = nullptr;
  const char* const* src[3] = {};
  uint8_t* errors = nullptr;
  char** cell = nullptr;                   // kAddress: *cell = base + row * row_step + (free - f0) * free_step
  char* base = nullptr;
  int64_t row_step = 0, free_step = 0;
};

enum class LoadMode : uint8_t { kCopy = 0, kInPlace = 1, kDone = 2, kIndirect = 3 };

class StripRun {
 public:
  StripRun(const StripCode& code, const RowRunArgs& args, Arena& arena) : code_(code), p_(*code.lanes), args_(args), arena_(arena) {}

  void execute(int64_t p0, int64_t p1, int64_t f0, int64_t f1);

 private:
  // ---- Set-up ----
  void resolve_accesses();
  void choose_block(int64_t rows, int64_t width);
  void allocate(int64_t width);
  bool uniform_operand(const LaneOperand& s) const;

  // Values that are the same everywhere in the run are computed once.
  void find_uniform();
  const void* uniform_pointer(const LaneOperand& s) const;
  void plan_ops(int64_t width);

  // Every block of the run is one contiguous piece (the blocks of a row if there is one row a block).
  bool contiguous(int16_t access, int64_t width) const;

  // Loads that repeat for each row of a block are made once a run.
  void hoist(int64_t p0, int64_t p1, int64_t f0, int64_t width);

  // ---- Operands ----
  uint8_t* errors(const LaneOp& op) const { return args_.op_errors + op.op; }

  char* result(int16_t v, int size) const;

  // The operand as a strip or, with *out_scalar, as one lane. Row values are expanded into temps_[k].
  const char* operand(const LaneOperand& s, Lane lane, bool row, int k, bool* out_scalar);

  // The same, always as a strip of n lanes.
  const char* strip_operand(const LaneOperand& s, Lane lane, bool row, int k, int64_t n);

  // ---- Execution ----
  // Where a fast step finds an operand: a pointer that address steps keep up to date, or one that never changes.
  // False: the operand needs work (row values of several rows).
  bool operand_cell(size_t s, const LaneOperand& operand, const char* const** out_cell, bool* out_scalar);

  // The cell that follows a row buffer through the strips of a stage; the address step is made on first use.
  char** row_buffer_cell(size_t s, int16_t v);
  void address_step(size_t s, char** cell, int16_t access, int size);
  void compile_stage(size_t s);
  bool fast_apply(size_t s, int16_t i, const LaneOp& op, const StripOp& code);
  void run_steps(size_t s);
  void run_stage(size_t s, int64_t f0, int64_t f1);
  void run_op(int16_t i, bool row);
  void run_apply(int16_t i, const LaneOp& op, const StripOp& code, bool row, int64_t n);
  static size_t operand_size(const LaneOp& op, int k);
  static void step_rows(const LaneOp& op, const StripOp& code, unsigned per_row, const char** src);

  // Where the result goes: its strip, or straight to memory.
  char* target(int16_t i, const LaneOp& op, const StripOp& code);
  void run_load(const LaneOp& op, const StripOp& code, LoadMode mode);
  IndexSource index_source(const LaneOp& op) const;
  void run_store(const LaneOp& op, const StripOp& code, bool row, int64_t n);

  // ---- Reductions ----
  void open_reductions(const LaneStage& stage);
  void close_reductions(const LaneStage& stage);
  void run_reduce(int16_t i, const LaneOp& op, const StripOp& code);
  void run_partition_reduce(const LaneOp& op, const StripOp& code, bool row, int64_t n);
  char* scan_state(int16_t i) const { return scan_state_ + row_slot_bytes_ * static_cast<size_t>(i); }

  void run_scan(int16_t i, const LaneOp& op, const StripOp& code);

  // ---- Generators ----
  void run_iota(const LaneOp& op, const StripOp& code, int64_t n);
  void run_philox(const LaneOp& op, const StripOp& code);

  const StripCode& code_;
  const LaneProgram& p_;
  const RowRunArgs& args_;
  Arena& arena_;
  Block block_;
  int64_t rows_ = 1, width_ = 1, f0_ = 0;  // rows and width of a block; where the run starts
  BlockAccess* accesses_ = nullptr;
  Place* places_ = nullptr;
  uint64_t* cells_ = nullptr;
  LoadMode* modes_ = nullptr;
  Step** steps_ = nullptr;      // by stage
  int* step_counts_ = nullptr;
  bool* direct_ = nullptr;
  char* strips_ = nullptr;
  size_t slot_bytes_ = 0;
  char* temps_[kTemps] = {};
  char* rows_base_ = nullptr;
  size_t row_slot_bytes_ = 0;
  char* scan_state_ = nullptr;
  std::vector<std::vector<TreeReducer>> trees_;  // one a row of the block; by op
};

}  // namespace nax
