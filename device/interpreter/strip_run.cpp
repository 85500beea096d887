#include "device/interpreter/strip_run.h"

#include <algorithm>
#include <cstdint>
#include <new>

namespace nax {

void StripRun::execute(int64_t p0, int64_t p1, int64_t f0, int64_t f1) {
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

void StripRun::resolve_accesses() {
  accesses_ = arena_.allocate_array<BlockAccess>(p_.accesses.size());
  for (size_t i = 0; i < p_.accesses.size(); ++i)
    new (&accesses_[i]) BlockAccess(make_block_access(args_.accesses[i], args_.n_free, args_.free_extent.data()));
}

void StripRun::choose_block(int64_t rows, int64_t width) {
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

void StripRun::allocate(int64_t width) {
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

bool StripRun::uniform_operand(const LaneOperand& s) const {
  return s.kind == LaneOperand::Kind::kScalar ||
         (s.kind == LaneOperand::Kind::kValue && places_[s.id].kind == Place::Kind::kUniform);
}

void StripRun::find_uniform() {
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

const void* StripRun::uniform_pointer(const LaneOperand& s) const {
  return s.kind == LaneOperand::Kind::kScalar ? static_cast<const void*>(&args_.scalars[s.id]) : places_[s.id].ptr;
}

void StripRun::plan_ops(int64_t width) {
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

bool StripRun::contiguous(int16_t access, int64_t width) const {
  return is_contiguous(accesses_[access], rows_, width_) && (rows_ == 1 || width_ == width);
}

void StripRun::hoist(int64_t p0, int64_t p1, int64_t f0, int64_t width) {
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

bool StripRun::operand_cell(size_t s, const LaneOperand& operand, const char* const** out_cell, bool* out_scalar) {
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

char** StripRun::row_buffer_cell(size_t s, int16_t v) {
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

void StripRun::address_step(size_t s, char** cell, int16_t access, int size) {
  const BlockAccess& a = accesses_[access];
  Step& step = *new (&steps_[s][step_counts_[s]++]) Step();
  step.kind = Step::Kind::kAddress;
  step.cell = cell;
  step.op = INT16_MAX;
  step.base = a.base + f0_ * a.inner * size;
  step.row_step = a.row_stride * size;
  step.free_step = a.inner * size;
}

void StripRun::compile_stage(size_t s) {
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

bool StripRun::fast_apply(size_t s, int16_t i, const LaneOp& op, const StripOp& code) {
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

void StripRun::run_steps(size_t s) {
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

void run_strips(const StripCode& code, const RowRunArgs& args, int64_t p0, int64_t p1, int64_t f0, int64_t f1) {
  Arena& arena = thread_arena();
  const Arena::Scope scope(arena);
  StripRun(code, args, arena).execute(p0, p1, f0, f1);
}

}  // namespace nax
