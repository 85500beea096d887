#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "device/interpreter/arena.h"
#include "device/interpreter/block_moves.h"
#include "device/interpreter/philox.h"
#include "device/interpreter/strip_code.h"

namespace nax {
namespace {

constexpr int64_t kMaxBlockRows = 512;
constexpr int64_t kWideRow = 48;  // row values are passed as scalars from this width on, and expanded below
constexpr int kTemps = 4;  // three expanded operands and one for moves

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

class Run {
 public:
  Run(const StripCode& code, const RowRunArgs& args, Arena& arena) : code_(code), p_(*code.lanes), args_(args), arena_(arena) {}

  void execute(int64_t p0, int64_t p1, int64_t f0, int64_t f1) {
    f0_ = f0;
    const int64_t width = f1 - f0;
    if (p1 <= p0) return;
    resolve_accesses();
    choose_block(p1 - p0, width);
    allocate(width);
    find_uniform();
    plan_ops(width);
    hoist(p0, p1, f0, width);
    const size_t stages = p_.stages.size();
    steps_ = arena_.allocate_array<Step*>(stages);
    step_counts_ = arena_.allocate_array<int>(stages);
    for (size_t s = 0; s < stages; ++s) compile_stage(s);
    for (int64_t p = p0; p < p1; p += rows_) {
      block_.p = p;
      block_.rows = std::min(rows_, p1 - p);
      for (size_t s = 0; s < stages; ++s) run_stage(s, f0, f1);
    }
  }

 private:
  // ---- Set-up ----

  void resolve_accesses() {
    accesses_ = arena_.allocate_array<BlockAccess>(p_.accesses.size());
    for (size_t i = 0; i < p_.accesses.size(); ++i)
      new (&accesses_[i]) BlockAccess(make_block_access(args_.accesses[i], args_.n_free, args_.free_extent.data()));
  }

  void choose_block(int64_t rows, int64_t width) {
    if (width <= 0) {  // rows without elements: their row ops, and reductions of nothing
      width_ = 1;
      rows_ = std::min(rows, kMaxBlockRows);
      return;
    }
    bool transposed = false;
    if (rows >= 8 && width >= 8)
      for (size_t i = 0; i < p_.accesses.size(); ++i)
        transposed |= p_.accesses[i].shape == TileShape::kFull && p_.accesses[i].index_value < 0 && is_transposed(accesses_[i]);
    const bool one_stage = p_.stages.size() == 1 && !p_.has_row_reduction;
    if (transposed && one_stage) {
      width_ = std::min<int64_t>(width, 32);
      rows_ = std::min<int64_t>(rows, std::max<int64_t>(8, code_.strip / width_));
      rows_ = std::min(rows_, kMaxBlockRows);
    } else if (transposed) {
      width_ = std::min<int64_t>(width, kRowChunk);
      rows_ = std::min<int64_t>(rows, 8);
    } else if (width >= kRowChunk) {
      width_ = std::min(width, code_.strip);
      rows_ = 1;
    } else {
      width_ = width;
      rows_ = std::clamp<int64_t>(code_.strip / width, 1, std::min(rows, kMaxBlockRows));
    }
  }

  void allocate(int64_t width) {
    const int64_t block = rows_ * width_;
    const size_t slot = static_cast<size_t>(block) * code_.lane_bytes + 64;
    slot_bytes_ = (slot + 63) / 64 * 64;
    strips_ = arena_.allocate(slot_bytes_ * static_cast<size_t>(code_.strip_slots + 1));
    const int64_t most = std::max(block, rows_);
    for (char*& t : temps_) t = arena_.allocate(static_cast<size_t>(most) * 8 + 64);
    row_slot_bytes_ = static_cast<size_t>(rows_) * 8;
    rows_base_ = arena_.allocate(row_slot_bytes_ * static_cast<size_t>(code_.row_slots + 1));
    places_ = arena_.allocate_array<Place>(p_.values.size());
    cells_ = arena_.allocate_array<uint64_t>(p_.values.size());
    for (size_t v = 0; v < p_.values.size(); ++v) {
      Place place;
      if (p_.values[v].shape != TileShape::kFull) {
        place = {Place::Kind::kRow, rows_base_ + row_slot_bytes_ * static_cast<size_t>(code_.slots[v])};
      } else if (p_.values[v].row_buffer >= 0) {
        place = {Place::Kind::kRowBuffer,
                 arena_.allocate(static_cast<size_t>(rows_ * width) * lane_size(p_.values[v].lane) + 64)};
      } else if (code_.slots[v] >= 0) {
        place = {Place::Kind::kStrip, strips_ + slot_bytes_ * static_cast<size_t>(code_.slots[v])};
      }
      places_[v] = place;
    }
    for (const LaneOp& op : p_.ops)
      if (op.kind == LaneOpKind::kReduce && op.order == ReduceOrder::kTree) {
        trees_.resize(p_.ops.size());
        break;
      }
    if (p_.has_row_reduction) scan_state_ = reinterpret_cast<char*>(arena_.allocate(row_slot_bytes_ * p_.ops.size()));
  }

  bool uniform_operand(const LaneOperand& s) const {
    return s.kind == LaneOperand::Kind::kScalar ||
           (s.kind == LaneOperand::Kind::kValue && places_[s.id].kind == Place::Kind::kUniform);
  }

  // Values that are the same everywhere in the run are computed once.
  void find_uniform() {
    for (size_t i = 0; i < p_.ops.size(); ++i) {
      const LaneOp& op = p_.ops[i];
      const StripOp& code = code_.ops[i];
      char* cell = op.dst >= 0 ? reinterpret_cast<char*>(&cells_[op.dst]) : nullptr;
      switch (op.kind) {
        case LaneOpKind::kLoad: {
          const LaneAccess& access = p_.accesses[op.access];
          if (!access.rereadable || access.index_value >= 0 || !is_uniform(accesses_[op.access])) continue;
          code.load(cell, accesses_[op.access].base, 1, 1);
          break;
        }
        case LaneOpKind::kApply: {
          bool all = true;
          for (int k = 0; k < code.arity; ++k) all &= uniform_operand(op.src[k]);
          if (!all) continue;
          const void* src[3] = {};
          for (int k = 0; k < code.arity; ++k) src[k] = uniform_pointer(op.src[k]);
          code.apply[kStripAll](cell, src[0], src[1], src[2], 1, errors(op));
          break;
        }
        case LaneOpKind::kConvert:
          if (!uniform_operand(op.src[0])) continue;
          code.cast(cell, uniform_pointer(op.src[0]), 1);
          break;
        default: continue;
      }
      places_[op.dst] = {Place::Kind::kUniform, cell};
    }
  }

  const void* uniform_pointer(const LaneOperand& s) const {
    return s.kind == LaneOperand::Kind::kScalar ? static_cast<const void*>(&args_.scalars[s.id]) : places_[s.id].ptr;
  }

  void plan_ops(int64_t width) {
    modes_ = arena_.allocate_array<LoadMode>(p_.ops.size());
    direct_ = arena_.allocate_array<bool>(p_.ops.size());
    for (size_t i = 0; i < p_.ops.size(); ++i) {
      const LaneOp& op = p_.ops[i];
      const StripOp& code = code_.ops[i];
      modes_[i] = LoadMode::kCopy;
      direct_[i] = false;
      if (op.dst >= 0 && places_[op.dst].kind == Place::Kind::kUniform) {
        modes_[i] = LoadMode::kDone;
      } else if (op.kind == LaneOpKind::kLoad) {
        if (p_.accesses[op.access].index_value >= 0) modes_[i] = LoadMode::kIndirect;
        else if (code.in_place_load && !code.row && places_[op.dst].kind == Place::Kind::kStrip && contiguous(op.access, width)) modes_[i] = LoadMode::kInPlace;
      } else if (code.direct_store >= 0) {
        direct_[i] = contiguous(p_.ops[code.direct_store].access, width);
      }
    }
  }

  // Every block of the run is one contiguous piece (the blocks of a row if there is one row a block).
  bool contiguous(int16_t access, int64_t width) const {
    return is_contiguous(accesses_[access], rows_, width_) && (rows_ == 1 || width_ == width);
  }

  // Loads that repeat for each row of a block are made once a run.
  void hoist(int64_t p0, int64_t p1, int64_t f0, int64_t width) {
    if (rows_ == 1 || width_ != width || p1 - p0 <= rows_) return;
    for (size_t i = 0; i < p_.ops.size(); ++i) {
      const LaneOp& op = p_.ops[i];
      if (op.kind != LaneOpKind::kLoad || modes_[i] != LoadMode::kCopy || code_.ops[i].row) continue;
      if (!p_.accesses[op.access].rereadable || accesses_[op.access].row_stride != 0) continue;
      if (places_[op.dst].kind != Place::Kind::kStrip) continue;
      char* strip = arena_.allocate(static_cast<size_t>(rows_ * width_) * code_.ops[i].dst_size + 64);
      load_block(accesses_[op.access], {p0, rows_, f0, width_}, code_.ops[i].load, code_.ops[i].memory_size,
                 code_.ops[i].dst_size, strip, temps_[3]);
      places_[op.dst].ptr = strip;
      modes_[i] = LoadMode::kDone;
    }
  }

  // ---- Operands ----

  uint8_t* errors(const LaneOp& op) const { return args_.op_errors + op.op; }

  char* result(int16_t v, int size) const {
    const Place& place = places_[v];
    return place.kind == Place::Kind::kRowBuffer ? place.ptr + block_.rows * (block_.f - f0_) * size : place.ptr;
  }

  // The operand as a strip or, with *out_scalar, as one lane. Row values are expanded into temps_[k].
  const char* operand(const LaneOperand& s, Lane lane, bool row, int k, bool* out_scalar) {
    *out_scalar = false;
    if (s.kind == LaneOperand::Kind::kNone) return nullptr;
    if (s.kind == LaneOperand::Kind::kScalar) {
      *out_scalar = true;
      return reinterpret_cast<const char*>(&args_.scalars[s.id]);
    }
    const Place& place = places_[s.id];
    switch (place.kind) {
      case Place::Kind::kStrip: return place.ptr;
      case Place::Kind::kRowBuffer: return result(s.id, static_cast<int>(lane_size(p_.values[s.id].lane)));
      case Place::Kind::kUniform: *out_scalar = true; return place.ptr;
      case Place::Kind::kRow: break;
    }
    if (row || block_.width == 1) return place.ptr;
    if (rows_ == 1) {
      *out_scalar = true;
      return place.ptr;
    }
    const size_t size = lane_size(lane);
    for (int64_t r = 0; r < block_.rows; ++r)
      fill_lanes(lane, temps_[k] + static_cast<size_t>(r * block_.width) * size, place.ptr + static_cast<size_t>(r) * size, block_.width);
    return temps_[k];
  }

  // The same, always as a strip of n lanes.
  const char* strip_operand(const LaneOperand& s, Lane lane, bool row, int k, int64_t n) {
    bool scalar = false;
    const char* p = operand(s, lane, row, k, &scalar);
    if (!scalar) return p;
    fill_lanes(lane, temps_[k], p, n);
    return temps_[k];
  }

  // ---- Execution ----

  // Where a fast step finds an operand: a pointer that address steps keep up to date, or one that never changes.
  // False: the operand needs work (row values of several rows).
  bool operand_cell(size_t s, const LaneOperand& operand, const char* const** out_cell, bool* out_scalar) {
    *out_scalar = false;
    static const char* const kNothing = nullptr;
    if (operand.kind == LaneOperand::Kind::kNone) {
      *out_cell = &kNothing;
      return true;
    }
    const char** constant = nullptr;
    if (operand.kind == LaneOperand::Kind::kScalar) {
      constant = arena_.allocate_array<const char*>(1);
      *constant = reinterpret_cast<const char*>(&args_.scalars[operand.id]);
      *out_scalar = true;
    } else {
      const Place& place = places_[operand.id];
      if (place.kind == Place::Kind::kStrip) {
        *out_cell = &place.ptr;
        return true;
      }
      if (place.kind == Place::Kind::kRow && rows_ > 1) return false;
      if (place.kind == Place::Kind::kRowBuffer) {
        if (rows_ > 1) return false;
        *out_cell = row_buffer_cell(s, operand.id);
        return true;
      }
      constant = arena_.allocate_array<const char*>(1);
      *constant = place.ptr;
      *out_scalar = true;
    }
    *out_cell = constant;
    return true;
  }

  // The cell that follows a row buffer through the strips of a stage; the address step is made on first use.
  char** row_buffer_cell(size_t s, int16_t v) {
    for (int k = 0; k < step_counts_[s]; ++k)
      if (steps_[s][k].kind == Step::Kind::kAddress && steps_[s][k].op == -1 - v) return steps_[s][k].cell;
    Step& step = *new (&steps_[s][step_counts_[s]++]) Step();
    step.kind = Step::Kind::kAddress;
    step.op = static_cast<int16_t>(-1 - v);
    step.cell = arena_.allocate_array<char*>(1);
    step.base = places_[v].ptr;
    step.free_step = static_cast<int64_t>(lane_size(p_.values[v].lane));
    return step.cell;
  }

  void address_step(size_t s, char** cell, int16_t access, int size) {
    const BlockAccess& a = accesses_[access];
    Step& step = *new (&steps_[s][step_counts_[s]++]) Step();
    step.kind = Step::Kind::kAddress;
    step.cell = cell;
    step.op = INT16_MAX;
    step.base = a.base + f0_ * a.inner * size;
    step.row_step = a.row_stride * size;
    step.free_step = a.inner * size;
  }

  void compile_stage(size_t s) {
    const std::vector<int16_t>& ops = p_.stages[s].strip_ops;
    steps_[s] = arena_.allocate_array<Step>(6 * ops.size() + 1);
    step_counts_[s] = 0;
    for (int16_t i : ops) {
      const LaneOp& op = p_.ops[i];
      const StripOp& code = code_.ops[i];
      if (op.dst >= 0 && modes_[i] == LoadMode::kDone) continue;
      if (op.kind == LaneOpKind::kStore && code.merged_into >= 0 && direct_[code.merged_into]) continue;
      if (op.kind == LaneOpKind::kLoad && modes_[i] == LoadMode::kInPlace) {
        address_step(s, &places_[op.dst].ptr, op.access, code.memory_size);
        continue;
      }
      if (op.kind == LaneOpKind::kApply && fast_apply(s, i, op, code)) continue;
      Step& step = *new (&steps_[s][step_counts_[s]++]) Step();
      step.op = i;
    }
  }

  bool fast_apply(size_t s, int16_t i, const LaneOp& op, const StripOp& code) {
    Step call;
    unsigned form = 0;
    for (int k = 0; k < 3; ++k) {
      bool scalar = false;
      if (!operand_cell(s, k < code.arity ? op.src[k] : LaneOperand{}, &call.src[k], &scalar)) return false;
      form |= static_cast<unsigned>(scalar) << k;
    }
    if (form + 1 == 1u << code.arity) return false;
    const Place& place = places_[op.dst];
    if (direct_[i]) address_step(s, &places_[op.dst].ptr, p_.ops[code.direct_store].access, code.dst_size);
    if (place.kind == Place::Kind::kRowBuffer) {
      if (rows_ > 1) return false;
      call.dst = row_buffer_cell(s, op.dst);
    } else {
      call.dst = &places_[op.dst].ptr;
    }
    call.kind = Step::Kind::kCall;
    call.op = i;
    call.call = code.apply[form];
    call.errors = errors(op);
    new (&steps_[s][step_counts_[s]++]) Step(call);
    return true;
  }

  void run_steps(size_t s) {
    const int64_t n = block_.count();
    for (const Step *step = steps_[s], *end = step + step_counts_[s]; step != end; ++step) {
      switch (step->kind) {
        case Step::Kind::kCall: step->call(*step->dst, *step->src[0], *step->src[1], *step->src[2], n, step->errors); break;
        case Step::Kind::kAddress:
          *step->cell = step->base + block_.p * step->row_step + (block_.f - f0_) * step->free_step;
          break;
        case Step::Kind::kOp: run_op(step->op, false); break;
      }
    }
  }

  void run_stage(size_t s, int64_t f0, int64_t f1) {
    const LaneStage& stage = p_.stages[s];
    // Row ops see a block of one column: element r is row r.
    block_.f = f0_;
    block_.width = 1;
    for (int16_t i : stage.row_ops) run_op(i, true);
    if (stage.strip_ops.empty()) return;
    if (p_.has_row_reduction) open_reductions(stage);
    for (int64_t f = f0; f < f1; f += width_) {
      block_.f = f;
      block_.width = std::min(width_, f1 - f);
      run_steps(s);
    }
    if (p_.has_row_reduction) close_reductions(stage);
  }

  void run_op(int16_t i, bool row) {
    const LaneOp& op = p_.ops[i];
    const StripOp& code = code_.ops[i];
    const int64_t n = block_.count();
    switch (op.kind) {
      case LaneOpKind::kLoad: run_load(op, code, modes_[i]); break;
      case LaneOpKind::kStore: run_store(op, code, row, n); break;
      case LaneOpKind::kApply: run_apply(i, op, code, row, n); break;
      case LaneOpKind::kConvert: {
        if (modes_[i] == LoadMode::kDone) return;
        const char* src = strip_operand(op.src[0], op.lane, row, 0, n);
        code.cast(target(i, op, code), src, n);
        break;
      }
      case LaneOpKind::kReduce: run_reduce(i, op, code); break;
      case LaneOpKind::kPartitionReduce: run_partition_reduce(op, code, row, n); break;
      case LaneOpKind::kIota: run_iota(op, code, n); break;
      case LaneOpKind::kScan: run_scan(i, op, code); break;
      case LaneOpKind::kPhilox: run_philox(op, code); break;
    }
  }

  void run_apply(int16_t i, const LaneOp& op, const StripOp& code, bool row, int64_t n) {
    if (modes_[i] == LoadMode::kDone) return;
    const char* src[3] = {};
    unsigned form = 0, per_row = 0;
    for (int k = 0; k < code.arity; ++k) {
      const LaneOperand& s = op.src[k];
      if (!row && block_.width >= kWideRow && rows_ > 1 && s.kind == LaneOperand::Kind::kValue &&
          places_[s.id].kind == Place::Kind::kRow) {
        src[k] = places_[s.id].ptr;
        per_row |= 1u << k;
        continue;
      }
      bool scalar = false;
      const Lane lane = op.fn == ScalarOp::kSelect && k == 0 ? Lane::kI32 : op.lane;
      src[k] = operand(s, lane, row, k, &scalar);
      form |= static_cast<unsigned>(scalar) << k;
    }
    char* dst = target(i, op, code);
    if ((form | per_row) + 1 == 1u << code.arity) {  // a strip of one for each row, repeated
      alignas(64) char cell[8];
      const int64_t rows = per_row != 0 ? block_.rows : 1, width = n / rows;
      for (int64_t r = 0; r < rows; ++r) {
        code.apply[kStripAll](cell, src[0], src[1], src[2], 1, errors(op));
        fill_lanes(p_.values[op.dst].lane, dst + r * width * code.dst_size, cell, width);
        step_rows(op, code, per_row, src);
      }
    } else if (per_row != 0) {
      // Row values as scalars: one call a row; whole strips advance, broadcast lanes stay.
      for (int64_t r = 0; r < block_.rows; ++r) {
        code.apply[form | per_row](dst + r * block_.width * code.dst_size, src[0], src[1], src[2], block_.width, errors(op));
        step_rows(op, code, per_row, src);
        for (int k = 0; k < code.arity; ++k)
          if (((form | per_row) >> k & 1) == 0) src[k] += static_cast<size_t>(block_.width) * operand_size(op, k);
      }
    } else {
      code.apply[form](dst, src[0], src[1], src[2], n, errors(op));
    }
  }

  static size_t operand_size(const LaneOp& op, int k) {
    return op.fn == ScalarOp::kSelect && k == 0 ? 4 : lane_size(op.lane);
  }
  static void step_rows(const LaneOp& op, const StripOp& code, unsigned per_row, const char** src) {
    for (int k = 0; k < code.arity; ++k)
      if (per_row >> k & 1) src[k] += operand_size(op, k);
  }

  // Where the result goes: its strip, or straight to memory.
  char* target(int16_t i, const LaneOp& op, const StripOp& code) {
    if (!direct_[i]) return result(op.dst, code.dst_size);
    const BlockAccess& a = accesses_[p_.ops[code.direct_store].access];
    char* dst = a.base + (block_.p * a.row_stride + block_.f * a.inner) * code.dst_size;
    places_[op.dst].ptr = dst;
    return dst;
  }

  void run_load(const LaneOp& op, const StripOp& code, LoadMode mode) {
    const BlockAccess& a = accesses_[op.access];
    switch (mode) {
      case LoadMode::kDone: return;
      case LoadMode::kInPlace:
        places_[op.dst].ptr = a.base + (block_.p * a.row_stride + block_.f * a.inner) * code.memory_size;
        return;
      case LoadMode::kCopy:
        load_block(a, block_, code.load, code.memory_size, code.dst_size, result(op.dst, code.dst_size), temps_[3]);
        return;
      case LoadMode::kIndirect: {
        const IndexSource index = index_source(op);
        load_indirect(a, block_, index, code.load, code.memory_size, code.dst_size, result(op.dst, code.dst_size),
                      temps_[3], errors(op));
        return;
      }
    }
  }

  IndexSource index_source(const LaneOp& op) const {
    const int16_t v = p_.accesses[op.access].index_value;
    const Place& place = places_[v];
    IndexSource index;
    switch (place.kind) {
      case Place::Kind::kUniform:
        index.per = IndexSource::Per::kBlock;
        index.values = reinterpret_cast<const int64_t*>(place.ptr);
        break;
      case Place::Kind::kRow:
        index.per = IndexSource::Per::kRow;
        index.values = reinterpret_cast<const int64_t*>(place.ptr);
        break;
      default: index.values = reinterpret_cast<const int64_t*>(result(v, 8));
    }
    return index;
  }

  void run_store(const LaneOp& op, const StripOp& code, bool row, int64_t n) {
    if (code.merged_into >= 0 && direct_[code.merged_into]) return;
    const BlockAccess& a = accesses_[op.access];
    const char* src = strip_operand(op.src[0], op.lane, row, 0, n);
    const LaneAccess& access = p_.accesses[op.access];
    const int size = static_cast<int>(lane_size(op.lane));
    if (access.index_value < 0 && !access.hbm.accumulate) {
      store_block(a, block_, code.store, code.memory_size, size, src, temps_[3]);
      return;
    }
    StoreSpec spec;
    spec.load = code.load;
    spec.store = code.store;
    spec.combine = code.combine;
    spec.round = code.round;
    spec.memory_size = code.memory_size;
    spec.lane_size = size;
    IndexSource index;
    if (access.index_value >= 0) index = index_source(op);
    store_indirect(a, block_, access.index_value >= 0 ? &index : nullptr, spec, src, temps_[3], errors(op));
  }

  // ---- Reductions ----

  void open_reductions(const LaneStage& stage) {
    for (int16_t i : stage.strip_ops) {
      const LaneOp& op = p_.ops[i];
      uint64_t identity = 0;
      if (op.kind == LaneOpKind::kScan) {
        reduce_identity(op.reduce, op.lane, &identity);
        fill_lanes(op.lane, scan_state(i), &identity, block_.rows);
      } else if (op.kind == LaneOpKind::kReduce && op.order == ReduceOrder::kTree) {
        trees_[i].clear();
        for (int64_t r = 0; r < block_.rows; ++r) trees_[i].emplace_back(code_.isa, op.reduce, op.lane);
      } else if (op.kind == LaneOpKind::kReduce) {
        char* acc = places_[op.dst].ptr;
        if (op.src[1].kind == LaneOperand::Kind::kNone) {
          reduce_identity(op.reduce, op.lane, &identity);
          fill_lanes(op.lane, acc, &identity, block_.rows);
        } else {
          const Place& from = places_[op.src[1].id];
          if (from.kind == Place::Kind::kUniform) fill_lanes(op.lane, acc, from.ptr, block_.rows);
          else std::memcpy(acc, from.ptr, static_cast<size_t>(block_.rows) * lane_size(op.lane));
        }
      }
    }
  }

  void close_reductions(const LaneStage& stage) {
    for (int16_t i : stage.strip_ops) {
      const LaneOp& op = p_.ops[i];
      if (op.kind != LaneOpKind::kReduce) continue;
      char* acc = places_[op.dst].ptr;
      if (op.order == ReduceOrder::kTree)
        for (int64_t r = 0; r < block_.rows; ++r) trees_[i][r].finish(acc + static_cast<size_t>(r) * lane_size(op.lane));
      if (code_.ops[i].round != nullptr) code_.ops[i].round(acc, block_.rows);
    }
  }

  void run_reduce(int16_t i, const LaneOp& op, const StripOp& code) {
    const int64_t n = block_.count();
    const char* x = strip_operand(op.src[0], op.lane, false, 0, n);
    const size_t size = lane_size(op.lane);
    char* acc = places_[op.dst].ptr;
    for (int64_t r = 0; r < block_.rows; ++r) {
      const char* row = x + static_cast<size_t>(r * block_.width) * size;
      if (op.order == ReduceOrder::kTree) trees_[i][r].push_strip(row, block_.width);
      else code.row_reduce(row, block_.width, acc + static_cast<size_t>(r) * size);
    }
  }

  void run_partition_reduce(const LaneOp& op, const StripOp& code, bool row, int64_t n) {
    const char* x = strip_operand(op.src[0], op.lane, row, 0, n);
    const size_t size = lane_size(op.lane);
    const int64_t column = row ? 0 : block_.f - f0_;
    if (op.order != ReduceOrder::kTree) {
      code.column_reduce(x, block_.width, block_.rows, block_.width,
                         args_.column_accumulators[op.accumulator] + static_cast<size_t>(column) * size);
      return;
    }
    const ColumnTree& tree = *reinterpret_cast<const ColumnTree*>(args_.column_accumulators[op.accumulator]);
    for (int64_t r = 0; r < block_.rows; ++r) {
      const char* values = x + static_cast<size_t>(r * block_.width) * size;
      const uint64_t ordinal = static_cast<uint64_t>(tree.first_row + block_.p + r);
      const int merges = std::countr_one(ordinal);
      char* level = tree.levels + static_cast<size_t>(column) * size;
      const size_t step = static_cast<size_t>(tree.width) * size;
      const size_t bytes = static_cast<size_t>(block_.width) * size;
      // level 0 op x goes to where the chain of full levels ends, each as the left operand.
      const char* right = values;
      char* hold = temps_[3];
      for (int l = 0; l < merges; ++l) {
        code.combine(level + static_cast<size_t>(l) * step, right, block_.width);
        std::memcpy(hold, level + static_cast<size_t>(l) * step, bytes);
        right = hold;
      }
      std::memcpy(level + static_cast<size_t>(merges) * step, right, bytes);
    }
  }

  char* scan_state(int16_t i) const { return scan_state_ + row_slot_bytes_ * static_cast<size_t>(i); }

  void run_scan(int16_t i, const LaneOp& op, const StripOp& code) {
    const char* x = strip_operand(op.src[0], op.lane, false, 0, block_.count());
    const size_t size = lane_size(op.lane);
    char* dst = result(op.dst, code.dst_size);
    for (int64_t r = 0; r < block_.rows; ++r) {
      const size_t at = static_cast<size_t>(r * block_.width) * size;
      code.scan(dst + at, x + at, block_.width, scan_state(i) + static_cast<size_t>(r) * size);
    }
  }

  // ---- Generators ----

  void run_iota(const LaneOp& op, const StripOp& code, int64_t n) {
    const BlockAccess& a = accesses_[op.access];
    char* raw = temps_[3];
    if (op.lane == Lane::kF64) {
      const double start = args_.scalars[op.src[0].id].f64, step = args_.scalars[op.src[1].id].f64;
      double* out = reinterpret_cast<double*>(raw);
      for_pieces(a, block_, [&](int64_t to, int64_t from, int64_t stride, int64_t count) {
        for (int64_t k = 0; k < count; ++k) out[to + k] = start + static_cast<double>(a.index + from + k * stride) * step;
      });
    } else {
      const uint64_t start = static_cast<uint64_t>(args_.scalars[op.src[0].id].i64);
      const uint64_t step = static_cast<uint64_t>(args_.scalars[op.src[1].id].i64);
      uint64_t* out = reinterpret_cast<uint64_t*>(raw);
      for_pieces(a, block_, [&](int64_t to, int64_t from, int64_t stride, int64_t count) {
        for (int64_t k = 0; k < count; ++k) out[to + k] = start + static_cast<uint64_t>(a.index + from + k * stride) * step;
      });
    }
    code.cast(result(op.dst, code.dst_size), raw, n);
  }

  void run_philox(const LaneOp& op, const StripOp& code) {
    const BlockAccess& a = accesses_[op.access];
    const SeedRun& seed = args_.seeds[op.src[0].id];
    char* out = result(op.dst, code.dst_size);
    std::array<uint32_t, 4> four = {};
    int64_t group = -1;
    for_pieces(a, block_, [&](int64_t to, int64_t from, int64_t stride, int64_t count) {
      for (int64_t k = 0; k < count; ++k) {
        const int64_t i = a.index + from + k * stride;
        if (i / 4 != group) {
          group = i / 4;
          four = philox_4x32_10(seed.offset + static_cast<uint64_t>(group), seed.seed);
        }
        const uint32_t bits = four[static_cast<size_t>(i % 4)];
        if (code.dst_size == 4) std::memcpy(out + (to + k) * 4, &bits, 4);
        else reinterpret_cast<int64_t*>(out)[to + k] = static_cast<int64_t>(bits);
      }
    });
  }

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

}  // namespace

void run_strips(const StripCode& code, const RowRunArgs& args, int64_t p0, int64_t p1, int64_t f0, int64_t f1) {
  Arena& arena = thread_arena();
  const Arena::Scope scope(arena);
  Run(code, args, arena).execute(p0, p1, f0, f1);
}

}  // namespace nax
