// Column reductions: sequential in chunks of 128 rows along the carried partition axis, kept dims
// along free.
//   Variant 0: up to 65536 rows. Variant 1: blocks of 65536 rows, partials to scratch, a tree over
//   the blocks. Reduced dims that are not one stride are first laid out as rows in scratch.
#include <algorithm>

#include "fusion/lowering/lower.h"

namespace nax {
namespace {

DType natural(DType t) {
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

class Columns {
 public:
  Columns(const Graph& graph, const RegionIr& ir, const TargetInfo& target, const std::string& name,
          bool blocks)
      : ir_(ir), w_(graph, ir, target, name), blocks_(blocks) {}

  StatusOr<Program> run() {
    split_nodes();
    for (const Group& g : w_.collapse(all_nodes(ir_))) (g.row ? reduced_ : kept_).push_back(g);
    rows_ = w_.size(reduced_);
    columns_ = w_.size(kept_);
    if (reduced_.size() != 1) {
      lay_out();
    }
    if (!blocks_) {
      w_.program().guards.push_back({rows_, kReduceBlock});
      one_nest();
    } else {
      block_nest();
      tree_nest();
    }
    return w_.finish();
  }

 private:
  // Before: everything that reductions and full outputs need. After: what only reduced values feed.
  void split_nodes() {
    after_mark_.assign(ir_.nodes.size(), false);
    for (size_t i = 0; i < ir_.nodes.size(); ++i) {
      const Node& n = ir_.nodes[i];
      bool after = false;
      for (const Ref& r : n.src)
        if (r.kind == Ref::Kind::kNode)
          after |= after_mark_[r.id] || ir_.nodes[r.id].kind == NodeKind::kReduce;
      after_mark_[i] = after;
      (after ? after_ : before_).push_back(static_cast<NodeId>(i));
      if (n.kind == NodeKind::kReduce) reduces_.push_back(static_cast<NodeId>(i));
    }
    // Scalars that only the second part uses belong to it.
    for (auto it = before_.begin(); it != before_.end();) {
      const Node& n = ir_.nodes[*it];
      bool used_before = n.kind == NodeKind::kStore || n.kind == NodeKind::kReduce;
      for (const NodeId b : before_)
        for (const Ref& r : ir_.nodes[b].src)
          used_before |= r.kind == Ref::Kind::kNode && r.id == *it;
      if (used_before) {
        ++it;
      } else {
        after_.push_back(*it);
        it = before_.erase(it);
      }
    }
    std::sort(after_.begin(), after_.end());
  }

  // Strides of a [.., columns] array in scratch along the kept axes; `axis_of_kept` as added.
  void kept_strides(HbmAccess* h, const std::vector<AxisId>& axes, SlotId unit) {
    SlotId step = unit;
    for (size_t i = kept_.size(); i-- > 0;) {
      h->strides[axes[i]] = step;
      step = w_.slots().mul(step, w_.size(kept_[i]));
    }
  }

  // Copies each reduction's operand, in logical order of the reduced dims, to scratch [rows,
  // columns]; full outputs are written on the way.
  void lay_out() {
    SlotBuilder& s = w_.slots();
    NestWriter nest(w_);
    // Axes in order of the root; the last is free, the one before partition.
    std::vector<Group> all = kept_;
    all.insert(all.end(), reduced_.begin(), reduced_.end());
    std::sort(all.begin(), all.end(),
              [](const Group& x, const Group& y) { return x.first < y.first; });
    std::vector<AxisId> axes;
    for (size_t i = 0; i < all.size(); ++i)
      axes.push_back(nest.add_axis(i + 1 == all.size()   ? AxisRole::kFree
                                   : i + 2 == all.size() ? AxisRole::kPartition
                                                         : AxisRole::kLoop,
                                   all[i]));
    std::vector<NodeId> nodes;
    for (const NodeId n : before_)
      if (ir_.nodes[n].kind != NodeKind::kReduce) nodes.push_back(n);
    nest.keep_to_end();
    nest.emit(nodes);
    for (const NodeId r : reduces_) {
      const NodeId from = ir_.nodes[r].src[0].id;
      const DType dtype = ir_.nodes[from].dtype;
      const ArgId arg = w_.scratch(dtype, s.mul(rows_, columns_));
      laid_out_.push_back({from, arg});
      HbmAccess h;
      h.arg = arg;
      SlotId step = s.constant(1), row_step = columns_;
      for (size_t i = all.size(); i-- > 0;) {
        SlotId& use = all[i].row ? row_step : step;
        h.strides[axes[i]] = use;
        use = s.mul(use, w_.size(all[i]));
      }
      nest.store_scratch_full(from, h);
    }
    nest.set_free_tile(axes.back(), 32);
    nest.close();
  }

  // The operands of the reductions in a nest whose row axis has coordinate axes `rows` (a block and
  // the row in it, or the row alone), and the kept axes.
  void emit_operands(NestWriter& nest, AxisId block, AxisId row, const std::vector<AxisId>& kept) {
    SlotBuilder& s = w_.slots();
    if (laid_out_.empty()) {
      std::vector<NodeId> nodes;
      for (const NodeId n : before_)
        if (ir_.nodes[n].kind != NodeKind::kReduce) nodes.push_back(n);
      nest.keep_to_end();
      nest.emit(nodes);
      return;
    }
    std::vector<NodeId> nodes;
    for (const auto& [node, arg] : laid_out_) {
      HbmAccess h;
      h.arg = arg;
      kept_strides(&h, kept, s.constant(1));
      h.strides[row] = columns_;
      if (block != kNone) h.strides[block] = s.mul(columns_, s.constant(kReduceBlock));
      nest.use_scratch(node, {h, ir_.nodes[node].dtype});
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    }
    std::sort(nodes.begin(), nodes.end());
    nest.keep_to_end();
    nest.emit(nodes);
  }

  // Loops over all kept groups but the last, which is free.
  AxisId add_row_axes(NestWriter& nest, std::vector<AxisId>* kept, AxisId* block) {
    SlotBuilder& s = w_.slots();
    const bool in_place = laid_out_.empty();
    for (size_t i = 0; i + 1 < kept_.size(); ++i)
      kept->push_back(nest.add_axis(AxisRole::kLoop, kept_[i]));
    const int root = in_place ? reduced_[0].last : -1;
    AxisId row;
    if (block) {
      const SlotId size = s.constant(kReduceBlock);
      *block = nest.add_axis(AxisRole::kLoop, s.ceil_div(rows_, size), root, size);
      row = nest.add_axis(AxisRole::kPartition, size, root, kNoSlot, LoopKind::kCarried);
      nest.axis(row).split_outer = *block;
      nest.axis(row).split_limit = rows_;
    } else {
      row = nest.add_axis(AxisRole::kPartition, rows_, root, kNoSlot, LoopKind::kCarried);
    }
    kept->push_back(nest.add_axis(AxisRole::kFree, kept_.back()));
    return row;
  }

  void one_nest() {
    NestWriter nest(w_);
    std::vector<AxisId> kept;
    const AxisId row = add_row_axes(nest, &kept, nullptr);
    emit_operands(nest, kNone, row, kept);
    for (const NodeId r : reduces_) nest.emit_reduce(r, ReduceOrder::kColumn, ir_.nodes[r].dtype);
    nest.emit_finish(after_);
    nest.set_free_tile(kept.back(), 32);
    nest.close();
  }

  void block_nest() {
    SlotBuilder& s = w_.slots();
    NestWriter nest(w_);
    std::vector<AxisId> kept;
    AxisId block = kNone;
    const AxisId row = add_row_axes(nest, &kept, &block);
    emit_operands(nest, block, row, kept);
    const SlotId n = s.ceil_div(rows_, s.constant(kReduceBlock));
    for (const NodeId r : reduces_) {
      const DType wide =
          ir_.nodes[r].dtype == DType::kBool ? DType::kBool : natural(ir_.nodes[r].dtype);
      nest.emit_reduce(r, ReduceOrder::kColumn, wide);
      const ArgId arg = w_.scratch(wide, s.mul(n, columns_));
      partials_.push_back(arg);
    }
    for (size_t i = 0; i < reduces_.size(); ++i) {
      HbmAccess h;
      h.arg = partials_[i];
      kept_strides(&h, kept, s.constant(1));
      h.strides[block] = columns_;
      nest.store_scratch(reduces_[i], h, true);
    }
    nest.set_free_tile(kept.back(), 32);
    nest.close();
  }

  void tree_nest() {
    SlotBuilder& s = w_.slots();
    NestWriter nest(w_);
    std::vector<AxisId> kept;
    for (size_t i = 0; i + 1 < kept_.size(); ++i)
      kept.push_back(nest.add_axis(AxisRole::kLoop, kept_[i]));
    kept.push_back(nest.add_axis(AxisRole::kPartition, kept_.back()));
    const AxisId f = nest.add_axis(AxisRole::kFree, s.ceil_div(rows_, s.constant(kReduceBlock)));
    for (size_t i = 0; i < reduces_.size(); ++i) {
      HbmAccess h;
      h.arg = partials_[i];
      kept_strides(&h, kept, s.constant(1));
      h.strides[f] = columns_;
      nest.emit_tree(reduces_[i], h, w_.program().args[partials_[i]].dtype);
    }
    nest.emit(after_);
    nest.close();
  }

  const RegionIr& ir_;
  ProgramWriter w_;
  const bool blocks_;
  std::vector<Group> kept_, reduced_;
  std::vector<NodeId> before_, after_, reduces_;
  std::vector<bool> after_mark_;
  std::vector<std::pair<NodeId, ArgId>> laid_out_;
  std::vector<ArgId> partials_;
  SlotId rows_ = kNoSlot, columns_ = kNoSlot;
};

}  // namespace

StatusOr<std::vector<Program>> lower_columns(const Graph& graph, const RegionIr& ir,
                                             const TargetInfo& target, const std::string& name) {
  std::vector<Program> variants;
  NAX_ASSIGN_OR_RETURN(Program one, Columns(graph, ir, target, name, false).run());
  variants.push_back(std::move(one));
  NAX_ASSIGN_OR_RETURN(Program blocked, Columns(graph, ir, target, name + ".blocks", true).run());
  variants.push_back(std::move(blocked));
  return variants;
}

}  // namespace nax
