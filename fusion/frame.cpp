#include "fusion/frame.h"

#include <bit>

namespace nax {
namespace {

void set_root(const Graph& graph, int32_t shape, uint8_t mask, Frame* f) {
  const GraphShape& s = graph.shape(shape);
  f->root = shape;
  f->rank = 0;
  f->row = 0;
  for (int d = 0; d < s.rank; ++d) {
    if (s.dim[d] == kValueOne) continue;
    if (mask >> d & 1) f->row |= static_cast<uint8_t>(1 << f->rank);
    f->dim[f->rank] = s.dim[d];
    f->prefix[f->rank] = s.prefix[d];
    ++f->rank;
  }
}

// Learns the products of the outer dims from a shape that is exactly them (and ones).
void learn_outer(const GraphShape& s, Frame* f) {
  int n = 0;
  std::array<ValueId, kMaxRank> prefix = {};
  for (int d = 0; d < s.rank; ++d)
    if (s.dim[d] != kValueOne) prefix[n++] = s.prefix[d];
  int outer = 0;
  for (int j = 0; j < f->rank; ++j) outer += !(f->row >> j & 1);
  if (n == outer) f->outer_prefix = prefix;
}

bool same_kind_of_space(const Graph& graph, const GraphOp& a, const GraphOp& b) {
  return op_info(a.id)->kind == op_info(b.id)->kind &&
         full_shape(graph, a) == full_shape(graph, b) &&
         op_info(a.id)->shape == op_info(b.id)->shape &&
         reduced_dims(graph, a) == reduced_dims(graph, b) &&
         graph.output(a, 0).view.shape == graph.output(b, 0).view.shape;
}

bool is_reducing(const GraphOp& op) {
  const OpKind k = op_info(op.id)->kind;
  return k == OpKind::kReduction || k == OpKind::kRow;
}

}  // namespace

bool place_shape(const GraphShape& shape, const Frame& frame, Span space, DimMap* out) {
  *out = kNoDims;
  std::array<int8_t, kMaxRank> roots;  // the root dims that the space spans
  int n = 0;
  for (int j = 0; j < frame.rank; ++j)
    if (space == Span::kFull || !(frame.row >> j & 1)) roots[n++] = static_cast<int8_t>(j);
  std::array<int8_t, kMaxRank> dims;
  int m = 0;
  for (int d = 0; d < shape.rank; ++d)
    if (shape.dim[d] != kValueOne) dims[m++] = static_cast<int8_t>(d);
  bool exact = m == n;
  for (int i = 0; exact && i < n; ++i) exact = shape.dim[dims[i]] == frame.dim[roots[i]];
  if (exact) {
    for (int i = 0; i < n; ++i) (*out)[roots[i]] = dims[i];
    return true;
  }
  if (shape.empty || m > n || m == 0) return false;
  int i = 0;
  for (int k = 0; k < m; ++k) {
    const ValueId want = shape.prefix[dims[k]];
    for (;; ++i) {
      if (i == n) return false;
      (*out)[roots[i]] = dims[k];
      const ValueId have = space == Span::kFull ? frame.prefix[roots[i]] : frame.outer_prefix[i];
      if (have == kUnknownValue) return false;
      if (have == want) break;
    }
    ++i;
  }
  return i == n;
}

uint8_t reduced_dims(const Graph& graph, const GraphOp& op) {
  const OpInfo& info = *op_info(op.id);
  const int rank = op.input_count > 0 && graph.input(op, 0).cls == OperandClass::kTensor
                       ? graph.input(op, 0).view.rank
                       : 0;
  switch (info.shape) {
    case ShapeRule::kReduce:
      return static_cast<uint8_t>(graph.attr(op, 0));
    case ShapeRule::kNorm:
    case ShapeRule::kNormBackward: {
      const auto n = static_cast<int>(graph.attr(op, 0));
      return static_cast<uint8_t>(((1 << n) - 1) << (rank - n));
    }
    case ShapeRule::kSame:
      if (info.kind == OpKind::kRow || info.kind == OpKind::kScan)
        return rank == 0 ? 0 : static_cast<uint8_t>(1 << graph.attr(op, 0));
      return 0;
    default:
      return 0;
  }
}

bool is_row_rule(const Graph& graph, const GraphOp& op) {
  if (op_info(op.id)->kind == OpKind::kRow) return true;
  const GraphShape& s = graph.shape_of(graph.input(op, 0).view);
  const uint8_t mask = reduced_dims(graph, op);
  bool any = false;
  for (int d = 0; d < s.rank; ++d) any |= (mask >> d & 1) && s.dim[d] != kValueOne;
  if (!any) return true;
  for (int d = s.rank - 1; d >= 0; --d)
    if (s.dim[d] != kValueOne) return mask >> d & 1;
  return true;
}

int32_t full_shape(const Graph& graph, const GraphOp& op) {
  const OpInfo& info = *op_info(op.id);
  if (info.kind == OpKind::kReduction || info.kind == OpKind::kRow || info.kind == OpKind::kScan)
    return graph.input(op, 0).view.shape;
  if (info.shape == ShapeRule::kScatterAdd) return graph.input(op, 1).view.shape;
  if (info.shape == ShapeRule::kIndexAdd) return graph.input(op, 2).view.shape;
  return graph.output(op, 0).view.shape;
}

Frame frame_of_op(const Graph& graph, const GraphOp& op) {
  Frame f;
  const OpInfo& info = *op_info(op.id);
  const int32_t shape = full_shape(graph, op);
  set_root(graph, shape, reduced_dims(graph, op), &f);
  switch (info.kind) {
    case OpKind::kPointwise:
      f.kind = RegionKind::kPointwise;
      break;
    case OpKind::kReduction:
    case OpKind::kRow:
      f.kind = is_row_rule(graph, op) ? RegionKind::kRow : RegionKind::kColumn;
      if (info.shape == ShapeRule::kReduce)
        learn_outer(graph.shape_of(graph.output(op, 0).view), &f);
      if (op.output_count > 1) learn_outer(graph.shape_of(graph.output(op, 1).view), &f);
      break;
    case OpKind::kMatmul:
      f.kind = RegionKind::kMatmul;
      break;
    case OpKind::kScan:
    case OpKind::kIndex:
      f.kind = RegionKind::kSolo;
      break;
  }
  if (graph.shape(shape).empty && f.kind != RegionKind::kRow && f.kind != RegionKind::kColumn)
    f.kind = RegionKind::kSolo;
  return f;
}

bool place_operand(const Graph& graph, const GraphOp& op, int operand, const Frame& frame,
                   Placement* out) {
  const OpInfo& info = *op_info(op.id);
  const GraphView& v = graph.operand(op, operand).view;
  const bool output = operand >= op.input_count;
  Span space = Span::kFull;
  int32_t shape = full_shape(graph, op);
  switch (info.shape) {
    case ShapeRule::kReduce:
      if (output) space = Span::kRow, shape = v.shape;
      break;
    case ShapeRule::kNorm:
      if (operand > op.input_count) space = Span::kRow, shape = v.shape;
      break;
    case ShapeRule::kNormBackward:
      if (operand == 2 || operand == 3) space = Span::kRow, shape = v.shape;
      break;
    case ShapeRule::kMm:
    case ShapeRule::kBmm:
      if (!output) return false;
      break;
    case ShapeRule::kAddmm:
    case ShapeRule::kBaddbmm:
      if (operand == 1 || operand == 2) return false;
      break;
    case ShapeRule::kIndexSelect:
    case ShapeRule::kGather:
      if (!output) return false;
      break;
    case ShapeRule::kScatterAdd:
    case ShapeRule::kIndexAdd:
      return false;
    default:
      break;
  }
  const GraphShape& s = graph.shape(shape);
  DimMap placed;
  if (space == Span::kFull) {
    // A pointwise op over the outer dims alone is a row op.
    if (!place_shape(s, frame, Span::kFull, &placed)) {
      if (info.kind != OpKind::kPointwise || frame.kind != RegionKind::kRow ||
          !place_shape(s, frame, Span::kRow, &placed))
        return false;
      space = Span::kRow;
    }
  } else if (!place_shape(s, frame, Span::kRow, &placed)) {
    return false;
  }
  out->space = space;
  for (int j = 0; j < kMaxRank; ++j) {
    out->dims[j] = out->canon[j] = -1;
    if (j >= frame.rank || placed[j] < 0) continue;
    const int d = placed[j] - (s.rank - v.rank);
    if (d < 0 || v.canon[d] < 0) continue;
    out->dims[j] = static_cast<int8_t>(d);
    out->canon[j] = v.canon[d];
  }
  return true;
}

// Whether every aligned operand of the op lies on the frame, with the frame's row where it reduces.
bool RegionFrame::fits(const Graph& graph, const Frame& frame, uint32_t index) const {
  const GraphOp& op = graph.ops()[index];
  DimMap placed;
  if (is_reducing(op)) {
    if (!place_shape(graph.shape(full_shape(graph, op)), frame, Span::kFull, &placed)) return false;
    const uint8_t mask = reduced_dims(graph, op);
    for (int j = 0; j < frame.rank; ++j)
      if ((mask >> placed[j] & 1) != (frame.row >> j & 1)) return false;
  }
  for (int i = 0; i < op.input_count + op.output_count; ++i) {
    if (graph.operand(op, i).cls != OperandClass::kTensor) continue;
    if (op_info(op.id)->kind == OpKind::kMatmul && i < op.input_count) continue;
    Placement p;
    if (!place_operand(graph, op, i, frame, &p)) return false;
  }
  return true;
}

bool RegionFrame::admit(const Graph& graph, uint32_t index, const char** reason) {
  const GraphOp& op = graph.ops()[index];
  const OpInfo& info = *op_info(op.id);
  if (count_ == 0) {
    frame_ = frame_of_op(graph, op);
    samples_.push_back(index);
    ++count_;
    return true;
  }
  const auto refuse = [&](const char* why) {
    *reason = why;
    return false;
  };
  if (frame_.kind == RegionKind::kSolo) return refuse("the earlier op runs alone");
  if (info.kind == OpKind::kIndex) return refuse("indexing runs alone");
  if (info.kind == OpKind::kScan) return refuse("a scan runs alone");
  if (info.kind == OpKind::kMatmul) return refuse("a matmul starts its own region");
  const int32_t shape = full_shape(graph, op);
  if (graph.shape(shape).empty || graph.shape(frame_.root).empty) return refuse("no elements");

  for (const uint32_t s : samples_)
    if (same_kind_of_space(graph, graph.ops()[s], op)) {
      ++count_;
      return true;
    }

  Frame next = frame_;
  if (is_reducing(op)) {
    const Frame own = frame_of_op(graph, op);
    if (frame_.kind == RegionKind::kMatmul)
      return refuse("a reduction does not fit a matmul's output loop");
    if (frame_.kind != RegionKind::kPointwise && frame_.kind != own.kind)
      return refuse("row and column reductions need different loops");
    if (frame_.kind == RegionKind::kPointwise) {
      // The reduction decides the loops; the finer of the two shapes is the root.
      next = own;
      DimMap placed;
      if (!place_shape(graph.shape(frame_.root), own, Span::kFull, &placed)) {
        if (!place_shape(graph.shape(shape), frame_, Span::kFull, &placed))
          return refuse("iteration spaces differ");
        uint8_t mask = 0;
        const GraphShape& root = graph.shape(frame_.root);
        for (int d = 0, j = 0; d < root.rank; ++d) {
          if (root.dim[d] == kValueOne) continue;
          if (reduced_dims(graph, op) >> placed[j] & 1) mask |= static_cast<uint8_t>(1 << d);
          ++j;
        }
        set_root(graph, frame_.root, mask, &next);
        if (next.rank - std::popcount(next.row) != own.rank - std::popcount(own.row))
          next.outer_prefix = Frame().outer_prefix;
      }
    }
  } else if (!fits(graph, next, index)) {
    // A finer shape may become the root.
    Frame own;
    set_root(graph, shape, 0, &own);
    DimMap placed;
    if (frame_.kind == RegionKind::kColumn ||
        !place_shape(graph.shape(frame_.root), own, Span::kFull, &placed))
      return refuse("iteration spaces differ");
    const GraphShape& old = graph.shape(frame_.root);
    own.kind = frame_.kind;
    std::array<int8_t, kMaxRank> root_of_dim = {};
    for (int d = 0, j = 0; d < old.rank; ++d)
      if (old.dim[d] != kValueOne) root_of_dim[d] = static_cast<int8_t>(j++);
    for (int j = 0; j < own.rank; ++j)
      if (frame_.row >> root_of_dim[placed[j]] & 1) own.row |= static_cast<uint8_t>(1 << j);
    if (own.rank - std::popcount(own.row) == frame_.rank - std::popcount(frame_.row))
      own.outer_prefix = frame_.outer_prefix;
    next = own;
  }
  if (frame_.kind == RegionKind::kColumn || next.kind == RegionKind::kColumn) {
    Placement p;
    if (!is_reducing(op) &&
        (!place_operand(graph, op, op.input_count, next, &p) || p.space != Span::kFull))
      return refuse("iteration spaces differ");
  }
  if (!fits(graph, next, index)) return refuse("iteration spaces differ");
  for (const uint32_t s : samples_)
    if (!fits(graph, next, s)) return refuse("iteration spaces differ");
  frame_ = next;
  samples_.push_back(index);
  ++count_;
  return true;
}

}  // namespace nax
