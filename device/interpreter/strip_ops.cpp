// What each kind of op does to a block.
#include <algorithm>
#include <bit>
#include <cstring>

#include "device/interpreter/philox.h"
#include "device/interpreter/strip_run.h"

namespace nax {

char* StripRun::result(int16_t v, int size) const {
  const Place& place = places_[v];
  return place.kind == Place::Kind::kRowBuffer ? place.ptr + block_.rows * (block_.f - f0_) * size : place.ptr;
}

const char* StripRun::operand(const LaneOperand& s, Lane lane, bool row, int k, bool* out_scalar) {
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

const char* StripRun::strip_operand(const LaneOperand& s, Lane lane, bool row, int k, int64_t n) {
  bool scalar = false;
  const char* p = operand(s, lane, row, k, &scalar);
  if (!scalar) return p;
  fill_lanes(lane, temps_[k], p, n);
  return temps_[k];
}

void StripRun::run_stage(size_t s, int64_t f0, int64_t f1) {
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

void StripRun::run_op(int16_t i, bool row) {
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

void StripRun::run_apply(int16_t i, const LaneOp& op, const StripOp& code, bool row, int64_t n) {
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

size_t StripRun::operand_size(const LaneOp& op, int k) {
  return op.fn == ScalarOp::kSelect && k == 0 ? 4 : lane_size(op.lane);
}

void StripRun::step_rows(const LaneOp& op, const StripOp& code, unsigned per_row, const char** src) {
  for (int k = 0; k < code.arity; ++k)
    if (per_row >> k & 1) src[k] += operand_size(op, k);
}

char* StripRun::target(int16_t i, const LaneOp& op, const StripOp& code) {
  if (!direct_[i]) return result(op.dst, code.dst_size);
  const BlockAccess& a = accesses_[p_.ops[code.direct_store].access];
  char* dst = a.base + (block_.p * a.row_stride + block_.f * a.inner) * code.dst_size;
  places_[op.dst].ptr = dst;
  return dst;
}

void StripRun::run_load(const LaneOp& op, const StripOp& code, LoadMode mode) {
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

IndexSource StripRun::index_source(const LaneOp& op) const {
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

void StripRun::run_store(const LaneOp& op, const StripOp& code, bool row, int64_t n) {
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

void StripRun::open_reductions(const LaneStage& stage) {
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

void StripRun::close_reductions(const LaneStage& stage) {
  for (int16_t i : stage.strip_ops) {
    const LaneOp& op = p_.ops[i];
    if (op.kind != LaneOpKind::kReduce) continue;
    char* acc = places_[op.dst].ptr;
    if (op.order == ReduceOrder::kTree)
      for (int64_t r = 0; r < block_.rows; ++r) trees_[i][r].finish(acc + static_cast<size_t>(r) * lane_size(op.lane));
    if (code_.ops[i].round != nullptr) code_.ops[i].round(acc, block_.rows);
  }
}

void StripRun::run_reduce(int16_t i, const LaneOp& op, const StripOp& code) {
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

void StripRun::run_partition_reduce(const LaneOp& op, const StripOp& code, bool row, int64_t n) {
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

void StripRun::run_scan(int16_t i, const LaneOp& op, const StripOp& code) {
  const char* x = strip_operand(op.src[0], op.lane, false, 0, block_.count());
  const size_t size = lane_size(op.lane);
  char* dst = result(op.dst, code.dst_size);
  for (int64_t r = 0; r < block_.rows; ++r) {
    const size_t at = static_cast<size_t>(r * block_.width) * size;
    code.scan(dst + at, x + at, block_.width, scan_state(i) + static_cast<size_t>(r) * size);
  }
}

void StripRun::run_iota(const LaneOp& op, const StripOp& code, int64_t n) {
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

void StripRun::run_philox(const LaneOp& op, const StripOp& code) {
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

}  // namespace nax
