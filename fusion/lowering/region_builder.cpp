#include "fusion/lowering/region_builder.h"

#include <algorithm>
#include <cstring>

#include "fusion/lowering/op_builder.h"

namespace nax {

DType storage_dtype(DType t) {
  if (is_computable(t)) return t;
  switch (dtype_size(t)) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kI16;
    case 4:
      return DType::kI32;
    case 8:
      return DType::kI64;
    default:
      return DType::kInvalid;
  }
}

bool widens_exactly(DType from, DType to) {
  if (from == to) return true;
  if (lane_of(from) != lane_of(to)) return false;
  if (from == DType::kBool) return true;
  return to == DType::kF32 || to == DType::kI32 ||
         (to == DType::kI16 && (from == DType::kI8 || from == DType::kU8));
}

RegionBuilder::RegionBuilder(const Graph& graph, const std::vector<uint32_t>& ops,
                             const Frame& frame)
    : graph_(graph) {
  ir_.frame = frame;
  ir_.ops = ops;
}

NodeId RegionBuilder::add(const Node& node) {
  for (const Ref& r : node.src)
    if (r.kind == Ref::Kind::kNode) ++ir_.nodes[r.id].uses;
  if (ir_.nodes.size() >= 30000) fail(invalid_argument("the region has too many values"));
  ir_.nodes.push_back(node);
  return static_cast<NodeId>(ir_.nodes.size() - 1);
}

int16_t RegionBuilder::constant(const ScalarValue& value) {
  for (size_t i = 0; i < ir_.constants.size(); ++i)
    if (ir_.constants[i].kind == value.kind && ir_.constants[i].i64 == value.i64)
      return static_cast<int16_t>(i);
  ir_.constants.push_back(value);
  return static_cast<int16_t>(ir_.constants.size() - 1);
}

ArgId RegionBuilder::scalar_arg(uint32_t op, int operand, ScalarSource source, DType dtype) {
  for (size_t i = 0; i < ir_.args.size(); ++i) {
    const ArgBinding& b = ir_.args[i];
    if (b.kind == ArgKind::kScalar && b.op == op && b.operand == operand && b.source == source &&
        ir_.decls[i].dtype == dtype)
      return static_cast<ArgId>(i);
  }
  ir_.args.push_back({ArgKind::kScalar, op, static_cast<uint8_t>(operand), source});
  ArgDecl d;
  d.kind = ArgKind::kScalar;
  d.dtype = dtype;
  ir_.decls.push_back(d);
  ir_.arg_views.push_back(nullptr);
  return static_cast<ArgId>(ir_.args.size() - 1);
}

ArgId RegionBuilder::view_arg(uint32_t op, int operand) {
  const GraphView& v = graph_.operand(graph_.ops()[op], operand).view;
  for (size_t i = 0; i < ir_.args.size(); ++i) {
    const GraphView* have = ir_.arg_views[i];
    if (have && have->view == v.view && have->shape == v.shape && have->rank == v.rank &&
        have->canon == v.canon)
      return static_cast<ArgId>(i);
  }
  ir_.args.push_back({ArgKind::kView, op, static_cast<uint8_t>(operand), ScalarSource::kOperand});
  ArgDecl d;
  d.dtype = storage_dtype(v.dtype);
  d.rank = v.rank;
  ir_.decls.push_back(d);
  ir_.arg_views.push_back(&v);
  return static_cast<ArgId>(ir_.args.size() - 1);
}

int16_t RegionBuilder::add_access(const Access& access) {
  for (const Access& old : ir_.accesses) {
    if (!old.store && !access.store) continue;
    const AliasClass alias = graph_.alias(old.view->view, access.view->view);
    if (alias == AliasClass::kDisjoint) continue;
    // An op by itself has passed check_op, which knows the addresses; the class may be the coarse
    // one of a buffer with very many views.
    if (alias == AliasClass::kOverlapping && ir_.ops.size() == 1) continue;
    const bool aligned = alias == AliasClass::kSame && old.canon == access.canon &&
                         old.space == access.space && old.index == kNoNode &&
                         access.index == kNoNode;
    // A program-order scatter reads and writes where it likes, alone.
    if (!aligned && !(old.accumulate || access.accumulate)) {
      fail(invalid_argument(alias == AliasClass::kSame
                                ? "a view is written and read at different places of the loop"
                                : "a write overlaps another view of its buffer"));
      return -1;
    }
  }
  for (size_t i = 0; i < ir_.accesses.size(); ++i) {
    Access& old = ir_.accesses[i];
    if (old.view->view != access.view->view || old.canon != access.canon ||
        old.space != access.space || old.index != access.index ||
        old.index_dim != access.index_dim || old.contract_dim != access.contract_dim ||
        old.accumulate != access.accumulate)
      continue;
    old.load |= access.load;
    old.store |= access.store;
    return static_cast<int16_t>(i);
  }
  ir_.accesses.push_back(access);
  return static_cast<int16_t>(ir_.accesses.size() - 1);
}

NodeId RegionBuilder::forwarded(int32_t view, const Placement& place) const {
  for (size_t i = forwards_.size(); i-- > 0;)
    if (forwards_[i].view == view && forwards_[i].canon == place.canon) return forwards_[i].value;
  return kNoNode;
}

NodeId RegionBuilder::load(uint32_t op, int operand, const Placement& place, DType dtype,
                           uint16_t region_op) {
  const GraphView& v = graph_.operand(graph_.ops()[op], operand).view;
  Access a;
  a.op = op;
  a.operand = static_cast<uint8_t>(operand);
  a.view = &v;
  a.dtype = storage_dtype(v.dtype);
  a.space = place.space;
  a.dims = place.dims;
  a.canon = place.canon;
  a.load = true;
  // A broadcast operand spans no row dims and is the same access from either space.
  if (a.space == Span::kFull) {
    bool spans_row = false;
    for (int j = 0; j < ir_.frame.rank; ++j)
      spans_row |= (ir_.frame.row >> j & 1) && place.canon[j] >= 0;
    if (!spans_row && ir_.frame.kind == RegionKind::kRow) a.space = Span::kRow;
  }
  a.arg = view_arg(op, operand);
  const int16_t access = add_access(a);
  if (access < 0) return kNoNode;
  for (size_t i = 0; i < ir_.nodes.size(); ++i)
    if (ir_.nodes[i].kind == NodeKind::kLoad && ir_.nodes[i].access == access &&
        ir_.nodes[i].dtype == dtype)
      return static_cast<NodeId>(i);
  Node n;
  n.kind = NodeKind::kLoad;
  n.dtype = dtype;
  n.access = access;
  n.op = region_op;
  return add(n);
}

void RegionBuilder::store(uint32_t op, int operand, const Placement& place, NodeId value,
                          uint16_t region_op) {
  const GraphView& v = graph_.operand(graph_.ops()[op], operand).view;
  Access a;
  a.op = op;
  a.operand = static_cast<uint8_t>(operand);
  a.view = &v;
  a.dtype = storage_dtype(v.dtype);
  a.space = place.space;
  a.dims = place.dims;
  a.canon = place.canon;
  a.store = true;
  if (ir_.frame.kind == RegionKind::kRow && ir_.frame.row == 0) a.space = Span::kRow;
  a.arg = view_arg(op, operand);
  const int16_t access = add_access(a);
  if (access < 0) return;
  // A whole overwrite: the earlier store of this view is dead, later loads see this value.
  for (Forward& f : forwards_) {
    if (f.view != v.view) continue;
    if (f.store != kNoNode) {
      ir_.nodes[f.store].dead = true;
      f.store = kNoNode;
    }
  }
  Node n;
  n.kind = NodeKind::kStore;
  n.dtype = a.dtype;
  n.access = access;
  n.op = region_op;
  n.src[0] = {Ref::Kind::kNode, value};
  forwards_.push_back({v.view, place.canon, value, add(n)});
}

// A temporary that is born, used and dropped inside the region stays on chip.
void RegionBuilder::drop_dead_stores() {
  std::vector<std::pair<BufferIndex, uint32_t>> touches;
  const auto touch = [&](BufferIndex b) -> uint32_t& {
    for (auto& t : touches)
      if (t.first == b) return t.second;
    touches.push_back({b, 0});
    return touches.back().second;
  };
  for (const uint32_t index : ir_.ops) {
    const GraphOp& op = graph_.ops()[index];
    for (int i = 0; i < op.input_count + op.output_count; ++i)
      if (graph_.operand(op, i).cls == OperandClass::kTensor)
        ++touch(graph_.operand(op, i).view.buffer);
  }
  for (const auto& [buffer, count] : touches) {
    const GraphBuffer& b = graph_.buffers()[buffer];
    if (!b.born_here || b.live_out || count != b.touches || !b.written) continue;
    bool loaded = false;
    for (const Access& a : ir_.accesses)
      loaded |= a.view->buffer == buffer && (a.load || a.accumulate);
    if (loaded) continue;
    for (Node& n : ir_.nodes)
      if (n.kind == NodeKind::kStore && ir_.accesses[n.access].view->buffer == buffer)
        n.dead = true;
    ir_.dropped.push_back(buffer);
  }
}

// Values that nothing uses. What can set an error bit stays: the program would have raised it.
void RegionBuilder::drop_dead_nodes() {
  std::vector<bool> used(ir_.nodes.size(), false);
  const auto mark = [&](const Node& n) {
    for (const Ref& r : n.src)
      if (r.kind == Ref::Kind::kNode) used[r.id] = true;
    if (n.access >= 0 && ir_.accesses[n.access].index != kNoNode)
      used[ir_.accesses[n.access].index] = true;
  };
  for (size_t i = ir_.nodes.size(); i-- > 0;) {
    Node& n = ir_.nodes[i];
    bool keep = used[i] || (n.kind == NodeKind::kStore && !n.dead);
    if (n.kind == NodeKind::kApply && scalar_op_info(n.fn).may_fail && !is_floating(n.dtype))
      keep = true;
    if (n.kind == NodeKind::kLoad && ir_.accesses[n.access].index != kNoNode) keep = true;
    n.dead = !keep;
    if (keep) mark(n);
  }
  std::vector<NodeId> renamed(ir_.nodes.size(), kNoNode);
  std::vector<Node> kept;
  for (size_t i = 0; i < ir_.nodes.size(); ++i) {
    if (ir_.nodes[i].dead) continue;
    renamed[i] = static_cast<NodeId>(kept.size());
    kept.push_back(ir_.nodes[i]);
    kept.back().uses = 0;
    for (Ref& r : kept.back().src)
      if (r.kind == Ref::Kind::kNode) r.id = renamed[r.id], ++kept[r.id].uses;
  }
  for (Access& a : ir_.accesses)
    if (a.index != kNoNode) a.index = renamed[a.index];
  if (ir_.has_matmul) {
    ir_.matmul.psum = renamed[ir_.matmul.psum];
    ir_.has_matmul = ir_.matmul.psum != kNoNode;
  }
  ir_.nodes = std::move(kept);
}

void RegionBuilder::prune_args() {
  std::vector<bool> used(ir_.args.size(), false);
  const auto view = [&](int16_t access, bool store) {
    Access& a = ir_.accesses[access];
    used[a.arg] = true;
    (store ? ir_.decls[a.arg].written : ir_.decls[a.arg].read) = true;
    if (a.accumulate) ir_.decls[a.arg].read = true;
  };
  for (const Node& n : ir_.nodes) {
    if (n.access >= 0) view(n.access, n.kind == NodeKind::kStore);
    for (const Ref& r : n.src)
      if (r.kind == Ref::Kind::kScalar) used[r.id] = true;
  }
  if (ir_.has_matmul) view(ir_.matmul.a, false), view(ir_.matmul.b, false);
  std::vector<ArgId> renamed(ir_.args.size(), kNone);
  size_t n = 0;
  for (size_t i = 0; i < ir_.args.size(); ++i) {
    if (!used[i]) continue;
    renamed[i] = static_cast<ArgId>(n);
    ir_.args[n] = ir_.args[i];
    ir_.decls[n] = ir_.decls[i];
    ir_.arg_views[n] = ir_.arg_views[i];
    ++n;
  }
  ir_.args.resize(n);
  ir_.decls.resize(n);
  ir_.arg_views.resize(n);
  for (Access& a : ir_.accesses) a.arg = renamed[a.arg];
  for (Node& node : ir_.nodes)
    for (Ref& r : node.src)
      if (r.kind == Ref::Kind::kScalar) r.id = renamed[r.id];
}

Status RegionBuilder::run() {
  for (size_t i = 0; i < ir_.ops.size(); ++i) {
    const GraphOp& op = graph_.ops()[ir_.ops[i]];
    const OpInfo* info = op_info(op.id);
    if (!info || !info->expand)
      return unimplemented(std::string(info ? info->name : "unknown op") +
                           ": has no engine lowering; lowered are " +
                           std::string(covered_op_names()));
    OpBuilder builder(*this, ir_.ops[i], static_cast<uint16_t>(i));
    info->expand(builder);
    NAX_RETURN_IF_ERROR(Status(status_));
  }
  drop_dead_stores();
  drop_dead_nodes();
  prune_args();
  return {};
}

StatusOr<RegionIr> build_region(const Graph& graph, const std::vector<uint32_t>& ops,
                                const Frame& frame) {
  RegionBuilder builder(graph, ops, frame);
  NAX_RETURN_IF_ERROR(builder.run());
  return builder.take();
}

}  // namespace nax
