#include "device/timing/expand.h"

#include <algorithm>

#include "device/isa/geometry.h"
#include "device/isa/slots.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"
#include "device/timing/cost.h"
#include "device/timing/expand_impl.h"

namespace nax {
namespace {

constexpr int64_t kMaxBuffers = 4;
constexpr int64_t kMaxMatmulBuffers =
    16;  // two blocks of psum tiles: their stores overlap with the next block's loads

bool spans_partition(TileShape s) { return s == TileShape::kFull || s == TileShape::kRow; }
bool spans_free(TileShape s) { return s == TileShape::kFull || s == TileShape::kColumn; }

}  // namespace

int64_t step_bytes(int64_t a, int64_t b) {
  return std::min(slot_arithmetic(SlotOp::kMul, a, b), int64_t{1} << 42);
}

Expansion expand_nest(const Program& program, const Nest& nest, const int64_t* slots,
                      const TargetInfo& target, bool with_text) {
  return NestExpander(program, nest, slots, target, with_text).run();
}

void derive_semaphores(Expansion* e) {
  // Engines that write and read each value; a value has one writing engine but for matmul operands,
  // which DMA loads and PE or DMA transposes fill.
  std::vector<uint8_t> writers(e->buffers.size(), 0), readers(e->buffers.size(), 0);
  auto bit = [](Engine x) { return static_cast<uint8_t>(1u << static_cast<int>(x)); };
  for (const Step& s : e->steps) {
    if (s.dst >= 0 && s.kind != StepKind::kBegin) writers[s.dst] |= bit(s.engine);
    for (const int16_t v : s.src)
      if (v >= 0) readers[v] |= bit(s.engine);
  }
  for (Step& s : e->steps) {
    for (size_t k = 0; k < s.src.size(); ++k)
      s.wait[k] = s.src[k] >= 0 && (writers[s.src[k]] & ~bit(s.engine)) != 0;
    s.release_wait = s.dst >= 0 && (readers[s.dst] & ~bit(s.engine)) != 0;
  }
  for (size_t v = 0; v < e->buffers.size(); ++v)
    for (int from = 0; from < kEngineCount; ++from)
      for (int to = 0; to < kEngineCount; ++to)
        if (from != to && (writers[v] >> from & 1) && (readers[v] >> to & 1))
          e->semaphores.push_back(
              {static_cast<int16_t>(v), static_cast<Engine>(from), static_cast<Engine>(to)});
}

NestExpander::NestExpander(const Program& program, const Nest& nest, const int64_t* slots,
                           const TargetInfo& target, bool with_text)
    : program_(program), nest_(nest), slots_(slots), target_(target), with_text_(with_text) {
  tiled_ = has_free_tiles(nest);
  carried_ = carries_partition(nest);
}

Expansion NestExpander::run() {
  out_.loops.emplace_back();
  build_ops();
  set_buffers();
  emit_ops(0, 0, false, {});
  for (const Extents& e : loop_classes()) {
    if (e.count <= 0) continue;
    const int loop = add_loop(0, e.count, "loop");
    emit_ops(loop, 1, false, {std::min(e.partition, kPartitions), free_tile(nest_, slots_)});
    if (nest_.has_matmul) {
      matmul(loop, e);
    } else {
      tiles(loop, e);
    }
    emit_ops(loop, 1, true, {std::min(e.partition, kPartitions), free_tile(nest_, slots_)});
  }
  emit_ops(0, 0, true, {});
  count_excess();
  derive_semaphores(&out_);
  return std::move(out_);
}

int NestExpander::level_of(uint8_t deps) const {
  const bool partition = deps & kPartitionDep;
  const bool free =
      (deps & kFreeDep) && (tiled_ || nest_.has_matmul);  // untiled, the free axis is no loop
  if (carried_ ? partition : free) return 3;
  if (carried_ ? free : partition) return 2;
  return deps & kLoopDep ? 1 : 0;
}

int16_t NestExpander::new_value(uint8_t deps) {
  value_deps_.push_back(deps);
  out_.buffers.push_back(1);
  return static_cast<int16_t>(value_deps_.size() - 1);
}

void NestExpander::build_ops() {
  std::vector<int16_t> current(nest_.tiles.size(), -1);
  constexpr uint8_t kAllDeps = kLoopDep | kPartitionDep | kFreeDep;
  if (nest_.has_matmul) {
    psum_ssa_ = new_value(kAllDeps);
    current[nest_.matmul.psum] = psum_ssa_;
  }
  auto dep_of = [](AxisRole role) {
    return static_cast<uint8_t>(role == AxisRole::kLoop        ? kLoopDep
                                : role == AxisRole::kPartition ? kPartitionDep
                                                               : kFreeDep);
  };
  auto axis_deps = [&](const HbmAccess& h) {
    uint8_t deps = 0;
    for (size_t i = 0; i < nest_.axes.size(); ++i) {
      if (h.strides[i] == kNoSlot) continue;
      deps |= dep_of(nest_.axes[i].role);
    }
    return deps;
  };
  for (const bool finish : {false, true}) {
    for (const Instr& i : finish ? nest_.finish : nest_.body) {
      Op op;
      op.instr = &i;
      op.finish = finish;
      uint8_t deps = 0;
      auto use = [&](TileId t) {
        op.src.push_back(current[t]);
        deps |= value_deps_[current[t]];
      };
      for (const Operand& o : i.src)
        if (o.kind == OperandKind::kTile) use(o.id);
      if (i.hbm.index != kNone) use(i.hbm.index);
      if (i.opcode == Opcode::kDmaLoad || i.opcode == Opcode::kDmaStore ||
          i.opcode == Opcode::kPhilox)
        deps |= axis_deps(i.hbm);
      if (i.opcode == Opcode::kIota) {
        deps |= dep_of(nest_.axes[i.axis].role);
      }
      // A sum over tiles runs in the loop over them; its result is of the loop around it.
      uint8_t result = deps;
      const bool over_free = i.opcode == Opcode::kTensorReduce && !finish;
      const bool over_partitions = i.opcode == Opcode::kPartitionReduce;
      if (over_free) result &= static_cast<uint8_t>(~kFreeDep);
      if (over_partitions) result &= static_cast<uint8_t>(~kPartitionDep);
      if (over_free && tiled_) deps |= kFreeDep;
      if (over_partitions) deps |= kPartitionDep;
      // What follows a matmul runs once a psum tile.
      if (nest_.has_matmul && !finish && (deps & (kPartitionDep | kFreeDep))) deps |= kAllDeps;
      op.level = level_of(deps);
      if (finish && op.level == 3) op.level = 2;
      op.merge = (over_free && (tiled_ || nest_.has_matmul)) || over_partitions || !i.start;
      if (i.hbm.index != kNone) op.descriptors = new_value(deps);
      if (i.opcode != Opcode::kDmaStore) {
        if (!i.start) {
          op.dst = current[i.dst];
        } else {
          op.dst = new_value(result);
          current[i.dst] = op.dst;
        }
      }
      ops_.push_back(op);
    }
  }
}

void NestExpander::set_buffers() {
  int64_t bytes = 1;
  for (const Tile& t : nest_.tiles)
    if (t.space == Space::kSbuf)
      bytes = slot_arithmetic(SlotOp::kAdd, bytes, tile_partition_bytes(nest_, t, slots_));
  const int64_t budget = nest_.has_matmul ? target_.sbuf_usable_partition_bytes / 4
                                          : target_.sbuf_usable_partition_bytes;
  const auto depth = static_cast<uint8_t>(
      std::clamp<int64_t>(budget / bytes, 1, nest_.has_matmul ? kMaxMatmulBuffers : kMaxBuffers));
  for (size_t v = 0; v < out_.buffers.size(); ++v)
    out_.buffers[v] = level_of(value_deps_[v]) >= 2 ? depth : 1;
}

// The loop axes as one count, with the lengths of axes that they split: the last outer part may be
// shorter.
std::vector<NestExpander::Extents> NestExpander::loop_classes() const {
  Extents e;
  int64_t loops = 1;
  for (size_t i = 0; i < nest_.axes.size(); ++i) {
    if (nest_.axes[i].role != AxisRole::kLoop) continue;
    loops =
        slot_arithmetic(SlotOp::kMul, loops, axis_extent(nest_, static_cast<AxisId>(i), slots_));
  }
  const AxisId partition = partition_axis(nest_);
  e.count = loops;
  e.partition = partition == kNone ? 1 : axis_extent(nest_, partition, slots_);
  e.free = free_extent(nest_, slots_);
  if (e.partition == 0 || e.free == 0 || loops == 0) return {};
  for (size_t i = 0; i < nest_.axes.size(); ++i) {
    const Axis& a = nest_.axes[i];
    if (a.split_outer == kNone || nest_.axes[a.split_outer].role != AxisRole::kLoop ||
        a.role == AxisRole::kLoop)
      continue;
    const int64_t part = std::max<int64_t>(slots_[a.extent], 1),
                  limit = std::max<int64_t>(slots_[a.split_limit], 0);
    const int64_t outer = std::max<int64_t>(slots_[nest_.axes[a.split_outer].extent], 1);
    Extents full = e, rest = e;
    full.count = loops / outer * std::min(outer, limit / part);
    rest.count = limit % part != 0 && limit / part < outer ? loops / outer : 0;
    (a.role == AxisRole::kFree ? full.free : full.partition) = part;
    (a.role == AxisRole::kFree ? rest.free : rest.partition) = limit % part;
    return {full, rest};  // two splits by loops at once are timed as if the second were full
  }
  return {e};
}

// A flat vector cut into rows: the partition tiles above are counted full, the elements that the
// last row lacks are not.
void NestExpander::count_excess() {
  for (const Axis& a : nest_.axes) {
    if (a.role != AxisRole::kFree || a.split_outer == kNone ||
        nest_.axes[a.split_outer].role != AxisRole::kPartition)
      continue;
    const int64_t part = std::min(slots_[a.extent], slots_[a.split_limit]),
                  outer = slots_[nest_.axes[a.split_outer].extent];
    int64_t loops = 1;
    for (size_t i = 0; i < nest_.axes.size(); ++i)
      if (nest_.axes[i].role == AxisRole::kLoop)
        loops = slot_arithmetic(SlotOp::kMul, loops,
                                axis_extent(nest_, static_cast<AxisId>(i), slots_));
    const int64_t all = slot_arithmetic(SlotOp::kMul, part, outer);
    const int64_t missing =
        step_bytes(std::max<int64_t>(0, all - std::max<int64_t>(slots_[a.split_limit], 0)), loops);
    for (const Op& op : ops_) {
      const bool load = op.instr->opcode == Opcode::kDmaLoad,
                 store = op.instr->opcode == Opcode::kDmaStore;
      if (!load && !store) continue;
      const TileId t = load ? op.instr->dst : op.instr->src[0].id;
      if (nest_.tiles[t].shape != TileShape::kFull) continue;
      const auto size = static_cast<int64_t>(dtype_size(program_.args[op.instr->hbm.arg].dtype));
      if (load || op.instr->hbm.accumulate) out_.hbm_read_excess += missing * size;
      if (store) out_.hbm_written_excess += missing * size;
    }
  }
}

void NestExpander::tiles(int loop, const Extents& e) {
  const int64_t free_step = std::max<int64_t>(1, std::min(free_tile(nest_, slots_), e.free));
  const int64_t outer_extent = carried_ ? e.free : e.partition,
                outer_tile = carried_ ? free_step : kPartitions;
  const int64_t inner_extent = carried_ ? e.partition : e.free,
                inner_tile = carried_ ? kPartitions : free_step;
  for (const bool tail : {false, true}) {
    const int64_t length = tail ? outer_extent % outer_tile : outer_tile;
    const int64_t count = tail ? (length > 0 ? 1 : 0) : outer_extent / outer_tile;
    if (count == 0) continue;
    const int node = add_loop(loop, count, carried_ ? "free tile" : "partition tile");
    TileSize size;
    (carried_ ? size.free : size.partitions) = length;
    inner_tiles(node, size, inner_extent, inner_tile);
  }
}

void NestExpander::inner_tiles(int loop, TileSize size, int64_t inner_extent, int64_t inner_tile) {
  int64_t& inner = carried_ ? size.partitions : size.free;
  inner = std::min(inner_extent, inner_tile);
  for (const Op& op : ops_) {
    if (!op.merge || op.level != 3 || !op.instr->start) continue;
    Step begin;
    begin.kind = StepKind::kBegin;
    begin.dst = op.dst;
    if (with_text_) begin.text = "begin t" + std::to_string(op.instr->dst);
    add_step(loop, begin);
  }
  emit_ops(loop, 2, false, size);
  for (const bool tail : {false, true}) {
    const int64_t length = tail ? inner_extent % inner_tile : inner_tile;
    const int64_t count = tail ? (length > 0 ? 1 : 0) : inner_extent / inner_tile;
    const bool any =
        std::any_of(ops_.begin(), ops_.end(), [](const Op& op) { return op.level == 3; });
    if (count == 0 || !any) continue;
    const int node = add_loop(loop, count, carried_ ? "partition tile" : "free tile");
    inner = length;
    emit_ops(node, 3, false, size);
  }
  inner = std::min(inner_extent, inner_tile);
  emit_ops(loop, 2, true, size);
}

void NestExpander::emit_ops(int loop, int level, bool finish, TileSize size) {
  if (level < 2) size.free = free_tile(nest_, slots_);
  if (level == 0) {
    const AxisId p = partition_axis(nest_);
    size.partitions = p == kNone ? 1 : std::min(kPartitions, axis_extent(nest_, p, slots_));
  }
  for (const Op& op : ops_)
    if (op.level == level && op.finish == finish) emit(loop, op, size);
}

int64_t NestExpander::stride(const HbmAccess& h, size_t axis) const {
  return h.strides[axis] == kNoSlot ? 0 : slots_[h.strides[axis]];
}

// Elements of a row that lie one after the other in HBM.
int64_t NestExpander::contiguous_run(const HbmAccess& h, int64_t elements) const {
  int64_t run = 1;
  for (size_t i = nest_.axes.size(); i-- > 0;) {
    if (nest_.axes[i].role != AxisRole::kFree) continue;
    const int64_t extent = axis_extent(nest_, static_cast<AxisId>(i), slots_);
    if (extent == 1) continue;
    if (stride(h, i) != run) break;
    run = slot_arithmetic(SlotOp::kMul, run, extent);
  }
  return std::clamp<int64_t>(run, 1, std::max<int64_t>(elements, 1));
}

Step NestExpander::dma_step(const Op& op, TileSize size) const {
  const Instr& i = *op.instr;
  const bool load = i.opcode == Opcode::kDmaLoad;
  const Tile& tile = nest_.tiles[load ? i.dst : i.src[0].id];
  const auto hbm_size = static_cast<int64_t>(dtype_size(program_.args[i.hbm.arg].dtype));
  const auto wide = std::max(hbm_size, static_cast<int64_t>(dtype_size(tile.dtype)));
  DmaShape shape;
  shape.rows = spans_partition(tile.shape) ? size.partitions : 1;
  int64_t elements = spans_free(tile.shape) ? size.free : 1;
  bool strided = false;  // whether any free axis moves the address
  for (size_t a = 0; a < nest_.axes.size(); ++a)
    strided |= nest_.axes[a].role == AxisRole::kFree && stride(i.hbm, a) != 0;
  const bool gather = i.hbm.index != kNone && spans_free(nest_.tiles[i.hbm.index].shape);
  if (load && !strided && !gather) elements = 1;  // one element of HBM for the whole row
  const int64_t run = gather ? 1 : contiguous_run(i.hbm, elements);
  shape.runs = slot_arithmetic(SlotOp::kCeilDiv, elements, run);
  shape.run_bytes = slot_arithmetic(SlotOp::kMul, run, wide);
  const DmaCost cost = dma_cost(shape, target_);
  Step s;
  s.kind = StepKind::kDma;
  s.engine = Engine::kDMA;
  s.store = !load;
  s.ordered = i.hbm.accumulate;
  s.descriptors = cost.descriptors;
  s.descriptor_ps = cost.descriptor_ps;
  const int64_t bytes = step_bytes(shape.rows * hbm_size, elements);
  if (load || i.hbm.accumulate) s.hbm_read = bytes;
  if (!load) s.hbm_written = bytes;
  return s;
}

void NestExpander::emit(int loop, const Op& op, TileSize size) {
  const Instr& i = *op.instr;
  Step s;
  if (i.opcode == Opcode::kDmaLoad || i.opcode == Opcode::kDmaStore) {
    s = dma_step(op, size);
    if (i.hbm.index != kNone) {
      // Software descriptors: POOL writes one for each.
      Step d;
      d.engine = Engine::kPOOL;
      d.busy_ps =
          cycles_to_ps(target_.pool_start + static_cast<double>(s.descriptors), target_.pool_ghz);
      d.latency_ps = cycles_to_ps(target_.static_cycles, target_.pool_ghz);
      d.src[0] = op.src.back();
      d.dst = op.descriptors;
      if (with_text_) d.text = "descriptors of " + instr_text(program_, nest_, i);
      add_step(loop, d);
    }
  } else {
    const Tile& dst = nest_.tiles[i.dst];
    const bool reduces = i.opcode == Opcode::kTensorReduce || i.opcode == Opcode::kPartitionReduce;
    const Tile& works_on = reduces ? nest_.tiles[i.src[0].id] : dst;
    const int64_t elements = spans_free(works_on.shape) ? size.free : 1;
    s.engine = i.engine;
    const double ghz = engine_ghz(i.engine, target_);
    s.busy_ps = cycles_to_ps(instr_cycles(program_, nest_, i, elements, target_), ghz);
    s.latency_ps = cycles_to_ps(target_.static_cycles, ghz);
  }
  s.dst = op.dst;
  s.merge = op.merge;
  for (size_t k = 0; k < op.src.size() && k < s.src.size(); ++k) {
    s.src[k] = op.src[k] == psum_ssa_ && psum_now_ >= 0 ? psum_now_ : op.src[k];
  }
  if (op.descriptors >= 0) s.src[3] = op.descriptors;
  if (with_text_) s.text = instr_text(program_, nest_, i);
  add_step(loop, std::move(s));
}

int NestExpander::add_loop(int parent, int64_t count, const char* text) {
  ExpandedLoop loop;
  loop.count = count;
  if (with_text_) loop.text = text;
  out_.loops.push_back(std::move(loop));
  const auto index = static_cast<int32_t>(out_.loops.size() - 1);
  out_.loops[parent].items.push_back({true, index});
  return index;
}

void NestExpander::add_step(int loop, Step step) {
  out_.steps.push_back(std::move(step));
  out_.loops[loop].items.push_back({false, static_cast<int32_t>(out_.steps.size() - 1)});
}

}  // namespace nax
