// Scans the ops in order. An op joins the latest region that it depends on, if their loops agree
// and no access conflicts; else a later region that reads the same buffer; else it starts a region.
// Regions keep their order of creation, and every dependence points to an equal or earlier region,
// so that order is topological. Linear in the operands of the window.
#include <algorithm>

#include "fusion/frame.h"
#include "fusion/policies/policy.h"

namespace nax {
namespace {

// How one region touched one canonical view: enough to decide whether another access may share the
// loop.
struct Touch {
  int32_t region = -1;
  uint32_t op = 0;
  uint8_t operand = 0;
  bool mixed = false;  // at different places of the loop
};

struct ViewState {
  Touch write, read;  // latest region that writes, reads it
};

class Greedy {
 public:
  Greedy(const Graph& graph, const FusionLimits& limits)
      : graph_(graph),
        limits_(limits),
        views_(graph.views().size()),
        last_reader_(graph.buffers().size(), -1) {}

  Proposal run() {
    for (uint32_t i = 0; i < graph_.ops().size(); ++i) place(i);
    for (Region& r : regions_) out_.regions.push_back(std::move(r.ops));
    return std::move(out_);
  }

 private:
  struct Region {
    RegionFrame frame;
    std::vector<uint32_t> ops;
    size_t operands = 0;  // upper bound of its arguments
  };

  const GraphOp& op(uint32_t i) const { return graph_.ops()[i]; }

  bool aligned(int32_t region, uint32_t a, int ai, uint32_t b, int bi) const {
    const Frame& f = regions_[region].frame.frame();
    Placement x, y;
    return place_operand(graph_, op(a), ai, f, &x) && place_operand(graph_, op(b), bi, f, &y) &&
           x.canon == y.canon && (f.kind != RegionKind::kColumn || x.space == y.space);
  }

  // Calls f(canonical view) for each view of the same buffer that is not disjoint from `view`.
  template <class F>
  void for_each_alias(int32_t view, F f) const {
    const GraphBuffer& b = graph_.buffers()[graph_.views()[view].buffer];
    if (b.first_view == view && graph_.views()[view].next < 0) return f(view, true);
    for (int32_t v = b.first_view; v >= 0; v = graph_.views()[v].next) {
      if (v == view)
        f(v, true);
      else if (graph_.alias(v, view) != AliasClass::kDisjoint)
        f(v, false);
    }
  }

  void place(uint32_t i) {
    const GraphOp& o = op(i);
    // The first region that may hold the op: it may share the region `earliest`, unless `apart`.
    int32_t earliest = -1;
    bool apart = false;
    const auto after = [&](int32_t region, bool conflict) {
      if (region < 0) return;
      if (region > earliest)
        earliest = region, apart = conflict;
      else if (region == earliest)
        apart |= conflict;
    };
    const int count = o.input_count + o.output_count;
    for (int k = 0; k < count; ++k) {
      const GraphOperand& operand = graph_.operand(o, k);
      if (operand.cls != OperandClass::kTensor) continue;
      const bool writes = k >= o.input_count;
      if (!graph_.buffers()[operand.view.buffer].written) continue;
      for_each_alias(operand.view.view, [&](int32_t v, bool same) {
        const Touch& w = views_[v].write;
        if (w.region >= 0) after(w.region, !same || w.mixed);
        if (!writes) return;
        const Touch& r = views_[v].read;
        if (r.region >= 0) after(r.region, !same || r.mixed);
      });
    }
    const char* reason = "no producer in the window";
    int32_t chosen = -1;
    if (earliest >= 0) {
      reason = apart ? "its memory is used at other places of the loop" : "";
      if (!apart && join(i, earliest, &reason)) chosen = earliest;
    }
    // A later region that reads the same input shares the load.
    if (chosen < 0) {
      for (int k = 0; k < o.input_count && chosen < 0; ++k) {
        const GraphOperand& operand = graph_.input(o, k);
        if (operand.cls != OperandClass::kTensor) continue;
        const int32_t r = last_reader_[operand.view.buffer];
        const char* ignored = nullptr;
        if (r > earliest && join(i, r, &ignored)) chosen = r;
      }
    }
    out_.reasons.push_back(chosen < 0 ? reason : "");
    if (chosen < 0) {
      chosen = static_cast<int32_t>(regions_.size());
      regions_.emplace_back();
      const char* ignored = nullptr;
      regions_.back().frame.admit(graph_, i, &ignored);
      regions_.back().ops.push_back(i);
      regions_.back().operands = static_cast<size_t>(count) + 1;
    }
    record(i, chosen);
  }

  bool join(uint32_t i, int32_t region, const char** reason) {
    Region& r = regions_[region];
    const GraphOp& o = op(i);
    const int count = o.input_count + o.output_count;
    if (r.ops.size() >= limits_.max_ops) return *reason = "the region has its most ops", false;
    // One more for a reduced count.
    if (r.operands + static_cast<size_t>(count) + 1 > limits_.max_args &&
        arguments(r, i) > limits_.max_args)
      return *reason = "the region has its most arguments", false;
    RegionFrame before = r.frame;
    if (!r.frame.admit(graph_, i, reason)) return false;
    // Accesses inside one region must walk the same places.
    bool ok = true;
    for (int k = 0; k < count && ok; ++k) {
      const GraphOperand& operand = graph_.operand(o, k);
      if (operand.cls != OperandClass::kTensor) continue;
      const bool writes = k >= o.input_count;
      if (!graph_.buffers()[operand.view.buffer].written) continue;
      for_each_alias(operand.view.view, [&](int32_t v, bool same) {
        const auto check = [&](const Touch& t) {
          if (t.region == region && (!same || t.mixed || !aligned(region, t.op, t.operand, i, k)))
            ok = false;
        };
        check(views_[v].write);
        if (writes) check(views_[v].read);
      });
    }
    if (!ok) {
      r.frame = before;
      return *reason = "its memory is used at other places of the loop", false;
    }
    r.ops.push_back(i);
    r.operands += static_cast<size_t>(count) + 1;
    return true;
  }

  // Distinct views and scalars of the region with one more op.
  size_t arguments(const Region& r, uint32_t more) const {
    std::vector<std::pair<int32_t, int32_t>> seen;
    size_t scalars = 0;
    const auto add = [&](uint32_t i) {
      const GraphOp& o = op(i);
      if (op_info(o.id)->kind == OpKind::kReduction || op_info(o.id)->kind == OpKind::kRow)
        ++scalars;
      for (int k = 0; k < o.input_count + o.output_count; ++k) {
        const GraphOperand& operand = graph_.operand(o, k);
        if (operand.cls == OperandClass::kScalar) ++scalars;
        if (operand.cls != OperandClass::kTensor) continue;
        // A temporary of the region needs no argument.
        const GraphBuffer& b = graph_.buffers()[operand.view.buffer];
        if (b.born_here && !b.live_out && b.touches <= 2) continue;
        const std::pair<int32_t, int32_t> key = {operand.view.view, operand.view.shape};
        if (std::find(seen.begin(), seen.end(), key) == seen.end()) seen.push_back(key);
      }
    };
    for (const uint32_t i : r.ops) add(i);
    add(more);
    return seen.size() + scalars;
  }

  void touch(Touch* t, uint32_t i, int k, int32_t region) const {
    if (t->region == region) {
      if (!t->mixed && !aligned(region, t->op, t->operand, i, k)) t->mixed = true;
      return;
    }
    if (region > t->region) *t = {region, i, static_cast<uint8_t>(k), false};
  }

  void record(uint32_t i, int32_t region) {
    const GraphOp& o = op(i);
    for (int k = 0; k < o.input_count + o.output_count; ++k) {
      const GraphOperand& operand = graph_.operand(o, k);
      if (operand.cls != OperandClass::kTensor) continue;
      if (k < o.input_count) {
        touch(&views_[operand.view.view].read, i, k, region);
        last_reader_[operand.view.buffer] = region;
      } else {
        touch(&views_[operand.view.view].write, i, k, region);
      }
    }
  }

  const Graph& graph_;
  const FusionLimits& limits_;
  std::vector<ViewState> views_;
  std::vector<int32_t> last_reader_;  // by buffer: latest region that reads it
  std::vector<Region> regions_;
  Proposal out_;
};

}  // namespace

Proposal propose_greedy(const Graph& graph, const FusionLimits& limits) {
  return Greedy(graph, limits).run();
}

}  // namespace nax
