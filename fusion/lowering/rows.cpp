// Row reductions, softmax, norms and the pointwise work around them.
//   Variant 0: a row lies whole in SBUF; one nest, launch guard on the row's length.
//   Variant 1: rows of any length. For each reduction a nest over blocks of 65536 elements that
//   recomputes what the reduction needs, then a tree over the partials; at the end one pointwise
//   nest for full outputs and one for row outputs.
#include <algorithm>

#include "fusion/lowering/lower.h"

namespace nax {
namespace {

std::vector<Group> part(const std::vector<Group>& groups, bool row) {
  std::vector<Group> out;
  for (const Group& g : groups)
    if (g.row == row) out.push_back(g);
  return out;
}

// Loops and partitions over outer groups; partitions of one point where there are none.
void add_outer_axes(ProgramWriter& w, NestWriter& nest, const std::vector<Group>& outer) {
  for (size_t i = 0; i + 1 < outer.size(); ++i) nest.add_axis(AxisRole::kLoop, outer[i]);
  if (outer.empty())
    nest.add_axis(AxisRole::kPartition, w.slots().constant(1));
  else
    nest.add_axis(AxisRole::kPartition, outer.back());
}

StatusOr<Program> whole_rows(const Graph& graph, const RegionIr& ir, const TargetInfo& target,
                             const std::string& name) {
  ProgramWriter w(graph, ir, target, name);
  const std::vector<NodeId> nodes = all_nodes(ir);
  const std::vector<Group> groups = w.collapse(nodes);
  const std::vector<Group> row = part(groups, true);
  NestWriter nest(w);
  add_outer_axes(w, nest, part(groups, false));
  if (row.empty()) nest.add_axis(AxisRole::kFree, w.slots().constant(1));
  for (const Group& g : row) nest.add_axis(AxisRole::kFree, g);
  nest.emit(nodes);
  const int64_t bytes = std::max<int64_t>(nest.bytes_per_free_element(), 1);
  const int64_t small_tiles = 4 * 1024;  // [p, 1] tiles
  int64_t limit = (target.sbuf_usable_partition_bytes - small_tiles) / bytes;
  limit = std::min(kReduceBlock, limit / kRowChunk * kRowChunk);
  if (!row.empty()) w.program().guards.push_back({w.size(row), limit});
  nest.close();
  return w.finish();
}

class LongRows {
 public:
  LongRows(const Graph& graph, const RegionIr& ir, const TargetInfo& target,
           const std::string& name)
      : ir_(ir),
        w_(graph, ir, target, name),
        groups_(w_.collapse(all_nodes(ir))),
        outer_(part(groups_, false)),
        row_(part(groups_, true)),
        row_value_(ir.nodes.size(), false) {}

  StatusOr<Program> run() {
    rows_ = w_.size(outer_);
    length_ = w_.size(row_);
    blocks_ = w_.slots().ceil_div(length_, w_.slots().constant(kReduceBlock));
    find_row_values();
    for (size_t i = 0; i < ir_.nodes.size(); ++i)
      if (ir_.nodes[i].kind == NodeKind::kIota && !row_value_[i])
        return unimplemented("a coordinate along a row in blocks");
    if (row_.size() > 1) lay_out();
    std::vector<NodeId> full, row;
    for (size_t i = 0; i < ir_.nodes.size(); ++i) {
      const Node& n = ir_.nodes[i];
      if (n.kind == NodeKind::kReduce) reduce(static_cast<NodeId>(i));
      if (n.kind == NodeKind::kStore)
        (ir_.accesses[n.access].space == Span::kFull ? full : row)
            .push_back(static_cast<NodeId>(i));
    }
    if (!full.empty()) outputs(full, true);
    if (!row.empty()) outputs(row, false);
    return w_.finish();
  }

 private:
  // Values that are one a row: they span no row dim.
  void find_row_values() {
    for (size_t i = 0; i < ir_.nodes.size(); ++i) {
      const Node& n = ir_.nodes[i];
      bool spans = false;
      if (n.kind == NodeKind::kLoad || n.kind == NodeKind::kStore)
        for (int j = 0; j < ir_.frame.rank; ++j)
          spans |= (ir_.frame.row >> j & 1) && ir_.accesses[n.access].canon[j] >= 0;
      if (n.kind == NodeKind::kIota) spans = n.axis >= 0 && (ir_.frame.row >> n.axis & 1);
      if (n.kind != NodeKind::kReduce)
        for (const Ref& r : n.src)
          if (r.kind == Ref::Kind::kNode) spans |= !row_value_[r.id];
      row_value_[i] = !spans;
    }
  }

  // What `roots` need, with earlier reductions as inputs; in program order.
  std::vector<NodeId> needed(const std::vector<NodeId>& roots) const {
    std::vector<bool> need(ir_.nodes.size(), false);
    for (const NodeId r : roots) need[r] = true;
    for (size_t i = ir_.nodes.size(); i-- > 0;) {
      if (!need[i]) continue;
      const Node& n = ir_.nodes[i];
      const bool is_root =
          std::find(roots.begin(), roots.end(), static_cast<NodeId>(i)) != roots.end();
      if (n.kind == NodeKind::kReduce && !is_root) continue;  // comes from scratch
      for (const Ref& r : n.src)
        if (r.kind == Ref::Kind::kNode) need[r.id] = true;
    }
    std::vector<NodeId> out;
    for (size_t i = 0; i < need.size(); ++i)
      if (need[i]) out.push_back(static_cast<NodeId>(i));
    return out;
  }

  // Strides of a [rows] vector in scratch along the outer axes of a nest, which come first.
  HbmAccess row_scratch(ArgId arg, int64_t first_axis, SlotId unit) {
    HbmAccess h;
    h.arg = arg;
    SlotId step = unit;
    for (size_t i = outer_.size(); i-- > 0;) {
      h.strides[static_cast<size_t>(first_axis) + i] = step;
      step = w_.slots().mul(step, w_.size(outer_[i]));
    }
    return h;
  }

  // Reads finished reductions among `nodes` from scratch.
  void use_reductions(NestWriter& nest, const std::vector<NodeId>& nodes, NodeId except) {
    for (const NodeId n : nodes) {
      if (ir_.nodes[n].kind != NodeKind::kReduce || n == except) continue;
      for (const auto& [node, arg] : results_)
        if (node == n)
          nest.use_scratch(n, {row_scratch(arg, 0, w_.slots().constant(1)), ir_.nodes[n].dtype});
    }
  }

  // Rows of several strides: what is loaded of them is first laid out in scratch, [rows, length].
  void lay_out() {
    NestWriter nest(w_);
    std::vector<AxisId> axes;
    for (size_t i = 0; i < groups_.size(); ++i)
      axes.push_back(nest.add_axis(i + 1 == groups_.size()   ? AxisRole::kFree
                                   : i + 2 == groups_.size() ? AxisRole::kPartition
                                                             : AxisRole::kLoop,
                                   groups_[i]));
    nest.keep_to_end();
    for (size_t n = 0; n < ir_.nodes.size(); ++n) {
      if (ir_.nodes[n].kind != NodeKind::kLoad || row_value_[n]) continue;
      const auto id = static_cast<NodeId>(n);
      const ArgId arg = w_.scratch(ir_.nodes[n].dtype, w_.slots().mul(rows_, length_));
      HbmAccess h;
      h.arg = arg;
      SlotId step = w_.slots().constant(1), row_step = length_;
      for (size_t i = groups_.size(); i-- > 0;) {
        SlotId& use = groups_[i].row ? step : row_step;
        h.strides[axes[i]] = use;
        use = w_.slots().mul(use, w_.size(groups_[i]));
      }
      nest.emit({id});
      nest.store_scratch_full(id, h);
      laid_out_.push_back({id, arg});
    }
    nest.set_free_tile(axes.back(), 32);
    nest.close();
  }

  void reduce(NodeId id) {
    SlotBuilder& s = w_.slots();
    const Node& n = ir_.nodes[id];
    const DType wide =
        ir_.nodes[n.src[0].id].dtype == DType::kBool ? DType::kBool : natural(n.dtype);
    const ArgId partials = w_.scratch(wide, s.mul(rows_, blocks_));
    const ArgId result = w_.scratch(n.dtype, rows_);
    {
      NestWriter nest(w_);
      for (const Group& g : outer_) nest.add_axis(AxisRole::kLoop, g);
      const SlotId block = s.constant(kReduceBlock);
      const int root = row_.size() == 1 ? row_[0].last : -1;
      const AxisId p = nest.add_axis(AxisRole::kPartition, blocks_, root, block);
      const AxisId f = nest.add_axis(AxisRole::kFree, block, root);
      nest.axis(f).split_outer = p;
      nest.axis(f).split_limit = length_;
      std::vector<NodeId> nodes = needed({id});
      use_reductions(nest, nodes, id);
      for (const auto& [node, arg] : laid_out_) {
        HbmAccess h = row_scratch(arg, 0, length_);
        h.strides[p] = block;
        h.strides[f] = s.constant(1);
        nest.use_scratch(node, {h, ir_.nodes[node].dtype});
      }
      nodes.pop_back();  // the reduction itself, with the partial's dtype
      nest.keep_to_end();
      nest.emit(nodes);
      nest.emit_reduce(id, ReduceOrder::kRow, wide);
      nest.set_free_tile(f, kRowChunk);
      HbmAccess to = row_scratch(partials, 0, blocks_);
      to.strides[p] = s.constant(1);
      nest.store_scratch(id, to, true);
      nest.close();
    }
    NestWriter nest(w_);
    // outer loops, partition, blocks: one row of partials a point.
    for (size_t i = 0; i + 1 < outer_.size(); ++i) nest.add_axis(AxisRole::kLoop, outer_[i]);
    if (outer_.empty())
      nest.add_axis(AxisRole::kPartition, s.constant(1));
    else
      nest.add_axis(AxisRole::kPartition, outer_.back());
    const AxisId f = nest.add_axis(AxisRole::kFree, blocks_);
    HbmAccess from = row_scratch(partials, 0, blocks_);
    from.strides[f] = s.constant(1);
    nest.emit_tree(id, from, wide);
    nest.store_scratch(id, row_scratch(result, 0, s.constant(1)), false);
    nest.close();
    results_.push_back({id, result});
  }

  // The nests that write HBM come last, so that recomputation sees the inputs.
  void outputs(const std::vector<NodeId>& stores, bool full) {
    const std::vector<NodeId> nodes = needed(stores);
    NestWriter nest(w_);
    add_outer_axes(w_, nest, outer_);
    AxisId f = 0;
    if (full)
      for (const Group& g : row_) f = nest.add_axis(AxisRole::kFree, g);
    else
      f = nest.add_axis(AxisRole::kFree, w_.slots().constant(1));
    use_reductions(nest, nodes, kNoNode);
    nest.emit(nodes);
    if (full) nest.set_free_tile(f, 32);
    nest.close();
  }

  static DType natural(DType t) {
    switch (lane_of(t)) {
      case Lane::kF32:
        return DType::kF32;
      case Lane::kF64:
        return DType::kF64;
      case Lane::kI64:
        return DType::kI64;
      case Lane::kI32:
        return DType::kI32;
    }
    return t;
  }

  const RegionIr& ir_;
  ProgramWriter w_;
  std::vector<Group> groups_, outer_, row_;
  std::vector<bool> row_value_;
  std::vector<std::pair<NodeId, ArgId>> results_, laid_out_;
  SlotId rows_ = kNoSlot, length_ = kNoSlot, blocks_ = kNoSlot;
};

}  // namespace

StatusOr<std::vector<Program>> lower_rows(const Graph& graph, const RegionIr& ir,
                                          const TargetInfo& target, const std::string& name) {
  NAX_ASSIGN_OR_RETURN(Program whole, whole_rows(graph, ir, target, name));
  std::vector<Program> variants;
  const bool guarded = !whole.guards.empty();
  variants.push_back(std::move(whole));
  if (guarded) {
    NAX_ASSIGN_OR_RETURN(Program blocked, LongRows(graph, ir, target, name + ".blocks").run());
    variants.push_back(std::move(blocked));
  }
  return variants;
}

}  // namespace nax
