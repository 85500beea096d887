#include <algorithm>

#include "device/isa/opcode_info.h"
#include "fusion/lowering/program_writer.h"

namespace nax {

NestWriter::NestWriter(ProgramWriter& writer)
    : w_(writer), ir_(writer.ir()), tiles_(ir_.nodes.size()), remaining_(ir_.nodes.size(), 0) {
  root_of_axis_.fill(-1);
  factor_of_axis_.fill(kNoSlot);
}

AxisId NestWriter::add_axis(AxisRole role, SlotId extent, int root, SlotId factor, LoopKind kind) {
  if (nest_.axes.size() >= kMaxAxes) {
    w_.fail(unimplemented("the loop has more axes than a nest holds"));
    return 0;
  }
  Axis a;
  a.role = role;
  a.kind = kind;
  a.extent = extent;
  const auto id = static_cast<AxisId>(nest_.axes.size());
  nest_.axes.push_back(a);
  root_of_axis_[id] = static_cast<int8_t>(root);
  factor_of_axis_[id] = factor;
  return id;
}

AxisId NestWriter::add_axis(AxisRole role, const Group& g, LoopKind kind) {
  return add_axis(role, w_.size(g), g.last, kNoSlot, kind);
}

HbmAccess NestWriter::access(const Access& a) {
  HbmAccess h;
  h.arg = a.arg;
  for (size_t i = 0; i < nest_.axes.size(); ++i) {
    if (root_of_axis_[i] < 0) continue;
    SlotId s = w_.stride(a, root_of_axis_[i]);
    if (s != kNoSlot && factor_of_axis_[i] != kNoSlot) s = w_.slots().mul(s, factor_of_axis_[i]);
    h.strides[i] = s;
  }
  if (a.index != kNoNode) {
    h.index = tiles_[a.index].tile;
    const StrideClass c = a.view->stride[a.index_dim];
    h.index_stride = c == StrideClass::kOne    ? w_.slots().constant(1)
                     : c == StrideClass::kZero ? w_.slots().constant(0)
                                               : w_.slots().stride(a.arg, a.index_dim);
    h.index_size = w_.slots().size(a.arg, a.index_dim);
  }
  h.accumulate = a.accumulate;
  return h;
}

TileId NestWriter::new_tile(DType dtype, TileShape shape) {
  if (shape == TileShape::kFull)
    for (size_t i = 0; i < free_tiles_.size(); ++i)
      if (nest_.tiles[free_tiles_[i]].dtype == dtype) {
        const TileId t = free_tiles_[i];
        free_tiles_.erase(free_tiles_.begin() + static_cast<std::ptrdiff_t>(i));
        return t;
      }
  nest_.tiles.push_back({Space::kSbuf, shape, dtype});
  return static_cast<TileId>(nest_.tiles.size() - 1);
}

TileShape NestWriter::access_shape(const Access& a) const {
  bool full = false;
  for (size_t i = 0; i < nest_.axes.size(); ++i)
    full |= nest_.axes[i].role == AxisRole::kFree && root_of_axis_[i] >= 0 &&
            a.canon[root_of_axis_[i]] >= 0;
  if (a.index != kNoNode && tiles_[a.index].tile != kNone)
    full |= shape_of(a.index) == TileShape::kFull;
  // What a matmul's block writes is a block.
  if (a.store && nest_.has_matmul) full = true;
  return full ? TileShape::kFull : TileShape::kRow;
}

TileShape NestWriter::shape_of(NodeId node) const { return nest_.tiles[tiles_[node].tile].shape; }

// In `finish` of a column reduction values are [1, f].
static TileShape column_shape(TileShape s) {
  return s == TileShape::kFull ? TileShape::kColumn : s == TileShape::kRow ? TileShape::kOne : s;
}
static bool spans_free(TileShape s) { return s == TileShape::kFull || s == TileShape::kColumn; }

Instr NestWriter::instr(Opcode opcode, const Node& n) const {
  Instr i;
  i.opcode = opcode;
  i.op = n.op;
  return i;
}

Operand NestWriter::operand(const Ref& r) {
  switch (r.kind) {
    case Ref::Kind::kNone:
      return {};
    case Ref::Kind::kNode:
      return {OperandKind::kTile, tiles_[r.id].tile};
    case Ref::Kind::kScalar:
      return {OperandKind::kScalarArg, r.id};
    case Ref::Kind::kConstant:
      return {OperandKind::kConstant, r.id};
  }
  return {};
}

// The node's value in a tile of the wanted shape; [p, 1] values are copied out along free.
TileId NestWriter::as_shape(NodeId node, TileShape shape) {
  TileUse& use = tiles_[node];
  if (nest_.tiles[use.tile].shape == shape || !spans_free(shape)) return use.tile;
  if (use.full != kNone && nest_.tiles[use.full].shape == shape) return use.full;
  const DType dtype = nest_.tiles[use.tile].dtype;
  Instr i = instr(Opcode::kTensorCopy, ir_.nodes[node]);
  i.engine = engine_for(i.opcode, i.fn, lane_of(dtype));
  i.src[0] = {OperandKind::kTile, use.tile};
  nest_.tiles.push_back({Space::kSbuf, shape, dtype});  // kept to the end
  i.dst = use.full = static_cast<TileId>(nest_.tiles.size() - 1);
  push(i);
  return use.full;
}

void NestWriter::use_scratch(NodeId node, const ScratchValue& value) {
  scratch_.push_back({node, value});
}

void NestWriter::count_uses(const std::vector<NodeId>& nodes) {
  for (const NodeId id : nodes) {
    const Node& n = ir_.nodes[id];
    for (const Ref& r : n.src)
      if (r.kind == Ref::Kind::kNode) ++remaining_[r.id];
    if (n.access >= 0 && ir_.accesses[n.access].index != kNoNode)
      ++remaining_[ir_.accesses[n.access].index];
  }
}

void NestWriter::release(NodeId node) {
  if (--remaining_[node] > 0 || keep_) return;
  const TileId t = tiles_[node].tile;
  if (t != kNone && nest_.tiles[t].shape == TileShape::kFull &&
      nest_.tiles[t].space == Space::kSbuf)
    free_tiles_.push_back(t);
}

void NestWriter::emit(const std::vector<NodeId>& nodes) {
  in_finish_ = false;
  count_uses(nodes);
  // Loads of one value a row come first: no store of the region writes what a load reads, but for
  // the same place, and then the load is the earlier one.
  std::vector<bool> done(ir_.nodes.size(), false);
  for (const NodeId id : nodes) {
    const Node& n = ir_.nodes[id];
    if (n.kind != NodeKind::kLoad || ir_.accesses[n.access].index != kNoNode ||
        access_shape(ir_.accesses[n.access]) != TileShape::kRow)
      continue;
    done[id] = true;
    emit_node(id);
  }
  for (const NodeId id : nodes)
    if (!done[id]) emit_node(id);
}

void NestWriter::emit_finish(const std::vector<NodeId>& nodes) {
  in_finish_ = true;
  count_uses(nodes);
  for (const NodeId id : nodes) emit_node(id);
}

void NestWriter::emit_node(NodeId id) {
  const Node& n = ir_.nodes[id];
  for (const auto& [node, value] : scratch_) {
    if (node != id) continue;
    bool full = false;
    for (size_t a = 0; a < nest_.axes.size(); ++a)
      full |= nest_.axes[a].role == AxisRole::kFree && value.access.strides[a] != kNoSlot;
    Instr i = instr(Opcode::kDmaLoad, n);
    i.engine = Engine::kDMA;
    i.hbm = value.access;
    i.dst = tiles_[id].tile = new_tile(n.dtype, full ? TileShape::kFull : TileShape::kRow);
    return push(i);
  }
  const bool columns =
      in_finish_ && std::any_of(nest_.axes.begin(), nest_.axes.end(),
                                [](const Axis& a) { return a.kind == LoopKind::kCarried; });
  const auto shaped = [&](TileShape s) { return columns ? column_shape(s) : s; };
  switch (n.kind) {
    case NodeKind::kLoad: {
      const Access& a = ir_.accesses[n.access];
      Instr i = instr(Opcode::kDmaLoad, n);
      i.engine = Engine::kDMA;
      i.hbm = access(a);
      i.dst = tiles_[id].tile = new_tile(n.dtype, shaped(access_shape(a)));
      push(i);
      break;
    }
    case NodeKind::kStore: {
      const Access& a = ir_.accesses[n.access];
      TileShape shape = shaped(access_shape(a));
      if (a.accumulate && spans_free(shape_of(n.src[0].id))) shape = shape_of(n.src[0].id);
      const TileId t = as_shape(n.src[0].id, shape);
      Instr i = instr(Opcode::kDmaStore, n);
      i.engine = Engine::kDMA;
      i.hbm = access(a);
      i.src[0] = {OperandKind::kTile, t};
      push(i);
      break;
    }
    case NodeKind::kCopy: {
      if (n.src[0].kind != Ref::Kind::kNode) {
        Instr i = instr(Opcode::kMemset, n);
        i.engine = engine_for(i.opcode, i.fn, lane_of(n.dtype));
        i.src[0] = operand(n.src[0]);
        i.dst = tiles_[id].tile = new_tile(n.dtype, shaped(TileShape::kRow));
        push(i);
        break;
      }
      Instr i = instr(Opcode::kTensorCopy, n);
      i.engine = engine_for(i.opcode, i.fn, lane_of(n.dtype));
      i.src[0] = operand(n.src[0]);
      i.dst = tiles_[id].tile = new_tile(n.dtype, shape_of(n.src[0].id));
      push(i);
      break;
    }
    case NodeKind::kApply: {
      const ScalarOpInfo& info = scalar_op_info(n.fn);
      TileShape shape = shaped(TileShape::kRow);
      bool have = false, same = true;
      Lane lane = Lane::kF32;
      int tiles = 0;
      for (int k = 0; k < info.arity; ++k) {
        if (n.src[k].kind != Ref::Kind::kNode) continue;
        const TileShape s = shape_of(n.src[k].id);
        same &= !have || s == shape;
        if (!have || spans_free(s)) shape = s;
        have = true;
        ++tiles;
        if (n.fn != ScalarOp::kSelect || k > 0)
          lane = lane_of(nest_.tiles[tiles_[n.src[k].id].tile].dtype);
      }
      const bool wide = lane == Lane::kF64 || lane == Lane::kI64;
      Opcode opcode;
      if (n.fn == ScalarOp::kSelect)
        opcode = Opcode::kSelect;
      else if (wide || info.extension() || info.cost == ScalarCost::kSoftware)
        opcode = Opcode::kPointwise;
      else if (info.arity == 1)
        opcode = info.engine == ScalarEngine::kACT ? Opcode::kActivation : Opcode::kTensorScalar;
      else
        opcode = tiles == info.arity && same ? Opcode::kTensorTensor : Opcode::kTensorScalar;
      Instr i = instr(opcode, n);
      i.fn = n.fn;
      for (int k = 0; k < info.arity; ++k) i.src[k] = operand(n.src[k]);
      i.engine = engine_for(opcode, n.fn, lane);
      i.dst = tiles_[id].tile = new_tile(n.dtype, shape);
      push(i);
      break;
    }
    case NodeKind::kReduce: {
      const bool column = ir_.frame.kind == RegionKind::kColumn;
      emit_reduce(id, column ? ReduceOrder::kColumn : ReduceOrder::kRow, n.dtype);
      break;
    }
    case NodeKind::kScan: {
      const TileId from = as_shape(n.src[0].id, TileShape::kFull);
      Instr i = instr(Opcode::kScan, n);
      i.reduce = n.reduce;
      i.engine = engine_for(i.opcode, i.fn, lane_of(n.dtype));
      i.src[0] = {OperandKind::kTile, from};
      i.dst = tiles_[id].tile = new_tile(n.dtype, TileShape::kFull);
      push(i);
      break;
    }
    case NodeKind::kIota: {
      AxisId axis = kNone;
      for (size_t a = 0; a < nest_.axes.size(); ++a)
        if (n.axis >= 0 && root_of_axis_[a] == n.axis) axis = static_cast<AxisId>(a);
      Instr i = instr(axis == kNone ? Opcode::kMemset : Opcode::kIota, n);
      i.engine = engine_for(i.opcode, i.fn, lane_of(n.dtype));
      i.src[0] = operand(n.src[0]);
      if (axis != kNone) i.src[1] = operand(n.src[1]), i.axis = axis;
      const bool free = axis != kNone && nest_.axes[axis].role == AxisRole::kFree;
      i.dst = tiles_[id].tile = new_tile(n.dtype, free ? TileShape::kFull : TileShape::kRow);
      push(i);
      break;
    }
    case NodeKind::kPsum: {
      nest_.tiles.push_back({Space::kPsum, TileShape::kFull, n.dtype});
      tiles_[id].tile = static_cast<TileId>(nest_.tiles.size() - 1);
      nest_.matmul.psum = tiles_[id].tile;
      break;
    }
  }
  for (const Ref& r : n.src)
    if (r.kind == Ref::Kind::kNode) release(r.id);
  if (n.access >= 0 && ir_.accesses[n.access].index != kNoNode)
    release(ir_.accesses[n.access].index);
}

void NestWriter::emit_reduce(NodeId id, ReduceOrder order, DType dtype) {
  const Node& n = ir_.nodes[id];
  const TileId from = as_shape(n.src[0].id, TileShape::kFull);
  Instr i =
      instr(order == ReduceOrder::kColumn ? Opcode::kPartitionReduce : Opcode::kTensorReduce, n);
  i.reduce = n.reduce;
  i.order = order;
  i.engine = engine_for(i.opcode, i.fn, lane_of(dtype));
  i.src[0] = {OperandKind::kTile, from};
  i.dst = tiles_[id].tile =
      new_tile(dtype, order == ReduceOrder::kColumn ? TileShape::kColumn : TileShape::kRow);
  push(i);
}

void NestWriter::emit_tree(NodeId id, const HbmAccess& from, DType partial) {
  const Node& n = ir_.nodes[id];
  Instr load = instr(Opcode::kDmaLoad, n);
  load.engine = Engine::kDMA;
  load.hbm = from;
  load.dst = new_tile(partial, TileShape::kFull);
  push(load);
  Instr i = instr(Opcode::kTensorReduce, n);
  i.reduce = n.reduce;
  i.order = ReduceOrder::kTree;
  i.engine = engine_for(i.opcode, i.fn, lane_of(partial));
  i.src[0] = {OperandKind::kTile, load.dst};
  i.dst = tiles_[id].tile = new_tile(n.dtype, TileShape::kRow);
  push(i);
}

void NestWriter::store_scratch(NodeId node, const HbmAccess& to, bool in_finish) {
  in_finish_ = in_finish;
  Instr i = instr(Opcode::kDmaStore, ir_.nodes[node]);
  i.engine = Engine::kDMA;
  i.hbm = to;
  i.src[0] = {OperandKind::kTile, tiles_[node].tile};
  push(i);
}

void NestWriter::store_scratch_full(NodeId node, const HbmAccess& to) {
  in_finish_ = false;
  const TileId t = as_shape(node, TileShape::kFull);
  Instr i = instr(Opcode::kDmaStore, ir_.nodes[node]);
  i.engine = Engine::kDMA;
  i.hbm = to;
  i.src[0] = {OperandKind::kTile, t};
  push(i);
}

int64_t NestWriter::bytes_per_free_element() const {
  int64_t bytes = 0;
  for (const Tile& t : nest_.tiles)
    if (t.space == Space::kSbuf && spans_free(t.shape))
      bytes += static_cast<int64_t>(dtype_size(t.dtype));
  return bytes;
}

void NestWriter::set_free_tile(AxisId id, int64_t unit) {
  const int64_t bytes = std::max<int64_t>(bytes_per_free_element(), 1);
  int64_t tile = 2048;
  while (tile > unit && 2 * tile * bytes > w_.target().sbuf_usable_partition_bytes) tile /= 2;
  nest_.axes[id].tile = w_.slots().constant(tile);
}

void NestWriter::close() { w_.program().nests.push_back(std::move(nest_)); }

}  // namespace nax
