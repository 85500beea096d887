#include "fusion/lowering/op_builder.h"

#include "fusion/lowering/region_builder.h"

namespace nax {
namespace {

DType natural_dtype(Lane lane) {
  switch (lane) {
    case Lane::kF32:
      return DType::kF32;
    case Lane::kF64:
      return DType::kF64;
    case Lane::kI64:
      return DType::kI64;
    case Lane::kI32:
      return DType::kI32;
  }
  return DType::kInvalid;
}

// Each element of a view on its own: canonical merging does not hold where the frame's sizes are
// not the view's.
void forbid_merging(Placement* p) {
  for (int j = 0; j < kMaxRank; ++j)
    if (p->canon[j] >= 0) p->canon[j] = static_cast<int8_t>(16 + j);
}

}  // namespace

OpBuilder::OpBuilder(RegionBuilder& region, uint32_t window_op, uint16_t region_op)
    : region_(region),
      op_(&region.graph().ops()[window_op]),
      info_(op_info(op_->id)),
      window_op_(window_op),
      index_(region_op),
      first_node_(static_cast<NodeId>(region.ir().nodes.size())) {}

const Graph& OpBuilder::graph() const { return region_.graph(); }
const Frame& OpBuilder::frame() const { return region_.ir().frame; }
void OpBuilder::fail(Status status) { region_.fail(std::move(status)); }

bool OpBuilder::absent(int input) const {
  return input >= op_->input_count || graph().input(*op_, input).cls == OperandClass::kAbsent;
}
bool OpBuilder::is_tensor(int operand) const {
  return graph().operand(*op_, operand).cls == OperandClass::kTensor;
}

DType OpBuilder::math() const {
  return is_floating(compute()) ? natural_dtype(lane_of(compute())) : compute();
}

DType OpBuilder::dtype_of(Ref value) const {
  return value.kind == Ref::Kind::kNode ? region_.ir().nodes[value.id].dtype : math();
}

Ref OpBuilder::constant(double v) {
  if (!is_floating(compute())) return constant_int(static_cast<int64_t>(v));
  return {Ref::Kind::kConstant, region_.constant(ScalarValue::from_f64(v))};
}
Ref OpBuilder::constant_int(int64_t v) {
  return {Ref::Kind::kConstant, region_.constant(ScalarValue::from_i64(v))};
}

Ref OpBuilder::in(int i) { return in_as(i, compute()); }

Ref OpBuilder::in_as(int i, DType dtype) {
  const GraphOperand& operand = graph().operand(*op_, i);
  if (operand.cls != OperandClass::kTensor) {
    const DType t = dtype == compute() || dtype == DType::kInvalid ? math() : dtype;
    return {Ref::Kind::kScalar, region_.scalar_arg(window_op_, i, ScalarSource::kOperand, t)};
  }
  Placement place;
  if (!place_operand(graph(), *op_, i, frame(), &place)) {
    fail(invalid_argument("iteration spaces differ"));
    return {Ref::Kind::kNode, 0};
  }
  const DType stored = storage_dtype(operand.view.dtype);
  if (dtype == DType::kInvalid) dtype = stored;
  NodeId value = region_.forwarded(operand.view.view, place);
  if (value != kNoNode) return converted({Ref::Kind::kNode, value}, dtype);
  value = region_.load(window_op_, i, place, dtype, index_);
  return {Ref::Kind::kNode, value < 0 ? NodeId{0} : value};
}

// A value of another dtype; no node where it is the same value in the same lane.
Ref OpBuilder::converted(Ref value, DType to) {
  if (widens_exactly(dtype_of(value), to)) return value;
  Node n;
  n.kind = NodeKind::kCopy;
  n.dtype = to;
  n.src[0] = value;
  n.op = index_;
  return {Ref::Kind::kNode, region_.add(n)};
}

Ref OpBuilder::as_node(Ref value, DType dtype) {
  if (value.kind == Ref::Kind::kNode) return value;
  Node n;
  n.kind = NodeKind::kCopy;
  n.dtype = dtype;
  n.src[0] = value;
  n.op = index_;
  return {Ref::Kind::kNode, region_.add(n)};
}

// Rounds to `to`. A result of this op that nothing has used yet is rounded where it is made.
Ref OpBuilder::rounded(Ref value, DType to) {
  value = as_node(value, to);
  Node& n = region_.ir().nodes[value.id];
  if (n.dtype == to) return value;
  const bool fresh = value.id >= first_node_ && n.uses == 0 &&
                     n.dtype == natural_dtype(lane_of(n.dtype)) &&
                     lane_of(n.dtype) == lane_of(to) && n.kind != NodeKind::kPsum &&
                     n.kind != NodeKind::kLoad && n.kind != NodeKind::kScan;
  if (fresh) {
    n.dtype = to;
    return value;
  }
  return converted(value, to);
}

Ref OpBuilder::apply(ScalarOp fn, Ref a, Ref b, Ref c) {
  const ScalarOpInfo& info = scalar_op_info(fn);
  if (!info.allows(lane_of(math())))
    fail(unimplemented(std::string(info_->name) + ": " + std::string(info.name) +
                       " does not compute in " + std::string(dtype_name(math()))));
  Node n;
  n.kind = NodeKind::kApply;
  n.fn = fn;
  n.src = {a, b, c};
  n.op = index_;
  bool any = false;
  for (int i = fn == ScalarOp::kSelect ? 1 : 0; i < info.arity; ++i)
    any |= n.src[i].kind == Ref::Kind::kNode;
  // Functions of scalars alone are evaluated on a tile of one value.
  if (!any)
    n.src[fn == ScalarOp::kSelect ? 1 : 0] =
        as_node(n.src[fn == ScalarOp::kSelect ? 1 : 0], math());
  n.dtype = info.result == ScalarResult::kBool ? DType::kBool : math();
  return {Ref::Kind::kNode, region_.add(n)};
}

Ref OpBuilder::reduce(ReduceFn fn, Ref a) {
  Node n;
  n.kind = NodeKind::kReduce;
  n.reduce = fn;
  n.dtype = fn == ReduceFn::kAny || fn == ReduceFn::kAll ? DType::kBool : math();
  n.src[0] = as_node(a, n.dtype);
  n.op = index_;
  return {Ref::Kind::kNode, region_.add(n)};
}

Ref OpBuilder::scan(ReduceFn fn, Ref a) {
  Node n;
  n.kind = NodeKind::kScan;
  n.reduce = fn;
  n.dtype = compute() == DType::kF32 ? DType::kF64 : math();
  n.src[0] = converted(a, n.dtype);
  n.op = index_;
  return {Ref::Kind::kNode, region_.add(n)};
}

Ref OpBuilder::count() {
  return {Ref::Kind::kScalar,
          region_.scalar_arg(window_op_, 0, ScalarSource::kReducedCount, math())};
}

Ref OpBuilder::iota(int shape_dim, Ref start, Ref step, DType dtype) {
  Node n;
  n.kind = NodeKind::kIota;
  n.dtype = dtype;
  n.src = {start, step, {}};
  n.op = index_;
  DimMap placed;
  if (!place_shape(graph().shape(full_shape(graph(), *op_)), frame(), Span::kFull, &placed))
    fail(invalid_argument("iteration spaces differ"));
  int found = 0;
  for (int j = 0; j < frame().rank; ++j)
    if (placed[j] == shape_dim) n.axis = static_cast<int8_t>(j), ++found;
  if (found > 1) fail(invalid_argument("a coordinate runs over a dimension that other ops split"));
  if (n.axis >= 0) {
    region_.ir().pinned |= static_cast<uint8_t>(1 << n.axis);
    if (n.axis > 0) region_.ir().pinned |= static_cast<uint8_t>(1 << (n.axis - 1));
  }
  return {Ref::Kind::kNode, region_.add(n)};
}

void OpBuilder::out(int i, Ref value) {
  const DType result = info_->dtype == DTypeRule::kBool  ? DType::kBool
                       : info_->dtype == DTypeRule::kI64 ? DType::kI64
                                                         : compute();
  out_raw(i, rounded(value, result));
}

void OpBuilder::out_raw(int i, Ref value) {
  const int operand = op_->input_count + i;
  if (operand >= op_->input_count + op_->output_count || !is_tensor(operand)) return;
  Placement place;
  if (!place_operand(graph(), *op_, operand, frame(), &place))
    return fail(invalid_argument("iteration spaces differ"));
  const DType stored = storage_dtype(graph().operand(*op_, operand).view.dtype);
  const DType have = dtype_of(value);
  // f32 results of an f32 op that go to a narrower output round once, where they are made.
  value = have == natural_dtype(lane_of(have)) ? rounded(value, stored)
                                               : converted(as_node(value, stored), stored);
  region_.store(window_op_, operand, place, value.id, index_);
}

Ref OpBuilder::matmul(int a, int b) {
  RegionIr& ir = region_.ir();
  const GraphShape& out_shape = graph().shape_of(graph().output(*op_, 0).view);
  DimMap placed;
  if (!place_shape(out_shape, frame(), Span::kFull, &placed))
    fail(invalid_argument("iteration spaces differ"));
  const auto access = [&](int operand, int keep_out_dim, int keep_view_dim, int contract_dim) {
    const GraphView& v = graph().operand(*op_, operand).view;
    Access x;
    x.contract_dim = static_cast<int8_t>(contract_dim);
    x.op = window_op_;
    x.operand = static_cast<uint8_t>(operand);
    x.view = &v;
    x.dtype = storage_dtype(v.dtype);
    x.arg = region_.view_arg(window_op_, operand);
    x.load = true;
    for (int j = 0; j < frame().rank; ++j) {
      int d = -1;
      if (placed[j] == keep_out_dim) d = keep_view_dim;
      if (out_shape.rank == 3 && placed[j] == 0) d = 0;
      if (d < 0 || v.canon[d] < 0) continue;
      x.dims[j] = static_cast<int8_t>(d);
      x.canon[j] =
          static_cast<int8_t>(16 + d);  // the contracted dim lies between: no merging across dims
    }
    return region_.add_access(x);
  };
  const int rank = out_shape.rank;
  RegionMatmul m;
  m.a = access(a, rank - 2, rank - 2, rank - 1);
  m.b = access(b, rank - 1, rank - 1, rank - 2);
  m.a_k = static_cast<int8_t>(rank - 1);
  m.b_k = static_cast<int8_t>(rank - 2);
  m.op = index_;
  m.dtype = is_floating(compute()) || compute() == DType::kI64 ? math() : DType::kI32;
  Node n;
  n.kind = NodeKind::kPsum;
  n.dtype = m.dtype;
  n.op = index_;
  m.psum = region_.add(n);
  ir.matmul = m;
  ir.has_matmul = true;
  // Batch, rows and columns are loops of their own.
  for (int j = 0; j + 1 < frame().rank; ++j)
    if (placed[j] != placed[j + 1]) ir.pinned |= static_cast<uint8_t>(1 << j);
  // PSUM is evicted once; the chain works on SBUF tiles.
  Node evict;
  evict.kind = NodeKind::kCopy;
  evict.dtype = m.dtype;
  evict.src[0] = {Ref::Kind::kNode, m.psum};
  evict.op = index_;
  return {Ref::Kind::kNode, region_.add(evict)};
}

// ---- Indexing: alone in its region ----

namespace {

// Placement of a view whose dims are those of the full shape, one for one, but for `skip`.
Placement aligned(const Graph& graph, const GraphOp& op, const GraphView& v, const Frame& frame,
                  int skip) {
  Placement p;
  DimMap placed;
  place_shape(graph.shape(full_shape(graph, op)), frame, Span::kFull, &placed);
  for (int j = 0; j < frame.rank; ++j) {
    const int d = placed[j];
    if (d < 0 || d == skip || d >= v.rank || v.stride[d] == StrideClass::kZero) continue;
    p.dims[j] = p.canon[j] = static_cast<int8_t>(d);
  }
  forbid_merging(&p);
  // Neighbours merge where the view's dims have the frame's sizes and are one canonical dim.
  for (int j = 0; j + 1 < frame.rank; ++j) {
    const int d = p.dims[j], e = p.dims[j + 1];
    if (d < 0 || e < 0 || v.canon[d] != v.canon[e] || v.canon[d] < 0) continue;
    if (graph.shape_of(v).dim[e] == frame.dim[j + 1]) p.canon[j + 1] = p.canon[j];
  }
  return p;
}

}  // namespace

Ref OpBuilder::load_aligned(int x, DType dtype) {
  const GraphView& v = graph().operand(*op_, x).view;
  const Placement p = aligned(graph(), *op_, v, frame(), -1);
  const NodeId n = region_.load(window_op_, x, p,
                                dtype == DType::kInvalid ? storage_dtype(v.dtype) : dtype, index_);
  return {Ref::Kind::kNode, n < 0 ? NodeId{0} : n};
}

Ref OpBuilder::load_along(int x, int shape_dim, DType dtype) {
  const GraphView& v = graph().operand(*op_, x).view;
  Placement p;
  DimMap placed;
  place_shape(graph().shape(full_shape(graph(), *op_)), frame(), Span::kFull, &placed);
  for (int j = 0; j < frame().rank; ++j)
    if (placed[j] == shape_dim && v.canon[0] >= 0) p.dims[j] = 0, p.canon[j] = v.canon[0];
  const NodeId n = region_.load(window_op_, x, p,
                                dtype == DType::kInvalid ? storage_dtype(v.dtype) : dtype, index_);
  return {Ref::Kind::kNode, n < 0 ? NodeId{0} : n};
}

Ref OpBuilder::load_indirect(int x, int dim, Ref index, DType dtype) {
  const GraphView& v = graph().operand(*op_, x).view;
  Access a;
  a.op = window_op_;
  a.operand = static_cast<uint8_t>(x);
  a.view = &v;
  a.dtype = storage_dtype(v.dtype);
  const Placement p = aligned(graph(), *op_, v, frame(), dim);
  a.dims = p.dims;
  a.canon = p.canon;
  a.load = true;
  a.arg = region_.view_arg(window_op_, x);
  a.index = index.id;
  a.index_dim = static_cast<int8_t>(dim);
  Node n;
  n.kind = NodeKind::kLoad;
  n.dtype = dtype == DType::kInvalid ? a.dtype : dtype;
  n.access = region_.add_access(a);
  n.op = index_;
  return {Ref::Kind::kNode, region_.add(n)};
}

void OpBuilder::store_indirect(int output, int dim, Ref index, Ref value) {
  const int operand = op_->input_count + output;
  const GraphView& v = graph().operand(*op_, operand).view;
  Access a;
  a.op = window_op_;
  a.operand = static_cast<uint8_t>(operand);
  a.view = &v;
  a.dtype = storage_dtype(v.dtype);
  const Placement p = aligned(graph(), *op_, v, frame(), dim);
  a.dims = p.dims;
  a.canon = p.canon;
  a.store = true;
  a.accumulate = true;
  a.arg = region_.view_arg(window_op_, operand);
  a.index = index.id;
  a.index_dim = static_cast<int8_t>(dim);
  value = rounded(value, compute());
  Node n;
  n.kind = NodeKind::kStore;
  n.dtype = a.dtype;
  n.access = region_.add_access(a);
  n.op = index_;
  n.src[0] = converted(as_node(value, a.dtype), a.dtype);
  region_.add(n);
}

}  // namespace nax
