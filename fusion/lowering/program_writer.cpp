#include "fusion/lowering/program_writer.h"

#include <algorithm>

namespace nax {

ProgramWriter::ProgramWriter(const Graph& graph, const RegionIr& ir, const TargetInfo& target,
                             const std::string& name)
    : graph_(graph), ir_(ir), target_(target), slots_(&program_.slots) {
  program_.name = name;
  program_.target = std::string(target.name);
  program_.args = ir.decls;
  program_.constants = ir.constants;
  program_.op_count = static_cast<uint16_t>(std::max<size_t>(ir.ops.size(), 1));
}

SlotId ProgramWriter::find(ValueId value) {
  if (value == kValueOne) return slots_.constant(1);
  for (size_t i = 0; i < ir_.arg_views.size(); ++i) {
    const GraphView* v = ir_.arg_views[i];
    if (!v) continue;
    const GraphShape& s = graph_.shape_of(*v);
    for (int d = 0; d < s.rank; ++d)
      if (s.dim[d] == value) return slots_.size(static_cast<ArgId>(i), d);
  }
  for (size_t i = 0; i < ir_.arg_views.size(); ++i) {
    const GraphView* v = ir_.arg_views[i];
    if (!v) continue;
    const GraphShape& s = graph_.shape_of(*v);
    for (int last = 1; last < s.rank; ++last) {
      if (s.prefix[last] != value) continue;
      SlotId product = slots_.constant(1);
      for (int d = 0; d <= last; ++d)
        product = slots_.mul(product, slots_.size(static_cast<ArgId>(i), d));
      return product;
    }
  }
  return kNoSlot;
}

SlotId ProgramWriter::try_size(int first, int last) {
  const Frame& f = ir_.frame;
  SlotId product = slots_.constant(1);
  for (int j = first; j <= last && product != kNoSlot; ++j) {
    const SlotId one = find(f.dim[j]);
    product = one == kNoSlot ? kNoSlot : slots_.mul(product, one);
  }
  if (product != kNoSlot) return product;
  // The dims belong to a temporary that has no argument; products of dims may still be known.
  const SlotId whole = find(f.prefix[last]);
  if (first == 0 || whole == kNoSlot) return whole;
  const SlotId before = find(f.prefix[first - 1]);
  return before == kNoSlot ? kNoSlot : slots_.floor_div(whole, before);
}

SlotId ProgramWriter::root_size(int j) { return size(j, j); }

SlotId ProgramWriter::size(int first, int last) {
  const SlotId s = try_size(first, last);
  if (s != kNoSlot) return s;
  fail(unimplemented("a size of the loop belongs to no argument"));
  return slots_.constant(1);
}

SlotId ProgramWriter::size(const std::vector<Group>& groups) {
  SlotId product = slots_.constant(1);
  for (const Group& g : groups) product = slots_.mul(product, size(g));
  return product;
}

SlotId ProgramWriter::stride(const Access& a, int j) {
  const int d = a.dims[j];
  if (d < 0) return kNoSlot;
  if (a.view->stride[d] == StrideClass::kZero) return kNoSlot;
  SlotId s = a.view->stride[d] == StrideClass::kOne ? slots_.constant(1) : slots_.stride(a.arg, d);
  for (int k = j + 1; k < ir_.frame.rank; ++k)
    if (a.dims[k] == d) s = slots_.mul(s, root_size(k));
  return s;
}

ArgId ProgramWriter::scratch(DType dtype, SlotId elements) {
  ArgDecl d;
  d.kind = ArgKind::kScratch;
  d.dtype = dtype;
  d.scratch_elements = elements;
  d.read = d.written = true;
  program_.args.push_back(d);
  return static_cast<ArgId>(program_.args.size() - 1);
}

std::vector<Group> ProgramWriter::collapse(const std::vector<NodeId>& nodes) const {
  const Frame& f = ir_.frame;
  std::vector<bool> used(ir_.accesses.size(), false);
  for (const NodeId n : nodes)
    if (ir_.nodes[n].access >= 0) used[ir_.nodes[n].access] = true;
  if (ir_.has_matmul) used[ir_.matmul.a] = used[ir_.matmul.b] = true;
  std::vector<Group> groups;
  for (int j = 0; j < f.rank; ++j) {
    const bool row = f.row >> j & 1;
    bool merge = j > 0 && !(ir_.pinned >> (j - 1) & 1) && row == groups.back().row;
    for (size_t a = 0; merge && a < used.size(); ++a)
      if (used[a]) merge = ir_.accesses[a].canon[j] == ir_.accesses[a].canon[j - 1];
    if (merge)
      groups.back().last = j;
    else
      groups.push_back({j, j, row});
  }
  return groups;
}

StatusOr<Program> ProgramWriter::finish() {
  if (slots_.overflowed())
    return invalid_argument("the region needs more slots than a program has");
  NAX_RETURN_IF_ERROR(Status(status_));
  return std::move(program_);
}

}  // namespace nax
