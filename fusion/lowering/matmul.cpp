// A matmul and the pointwise chain on its output: one structured block. m is the partition axis, n
// the free axis.
#include "fusion/lowering/lower.h"

namespace nax {

StatusOr<std::vector<Program>> lower_matmul(const Graph& graph, const RegionIr& ir,
                                            const TargetInfo& target, const std::string& name) {
  constexpr int64_t kPsumTile = 512;  // elements of a PSUM bank
  ProgramWriter w(graph, ir, target, name);
  SlotBuilder& s = w.slots();
  const std::vector<NodeId> nodes = all_nodes(ir);
  const RegionMatmul& m = ir.matmul;
  const Access &a = ir.accesses[m.a], &b = ir.accesses[m.b];
  const int rank = a.view->rank;
  const std::vector<Group> groups = w.collapse(nodes);
  // Which of batch, m and n a group belongs to, by the operand dims that it moves.
  const auto role = [&](const Group& g) {
    const int da = a.dims[g.last], db = b.dims[g.last];
    if (da == rank - 2) return 1;
    if (db == rank - 1) return 2;
    return 0;
  };
  NestWriter nest(w);
  const Group *rows = nullptr, *columns = nullptr;
  std::vector<Group> batch;
  // Operands of size 1 or stride 0 do not tell; the output's placement does.
  DimMap out_dim;
  const GraphOp& op = graph.ops()[ir.ops[m.op]];
  if (!place_shape(graph.shape_of(graph.output(op, 0).view), ir.frame, Span::kFull, &out_dim))
    return invalid_argument("iteration spaces differ");
  for (const Group& g : groups) {
    const int d = out_dim[g.last];
    const int kind = d == rank - 2 ? 1 : d == rank - 1 ? 2 : role(g);
    for (int j = g.first; j <= g.last; ++j)
      if (out_dim[j] != d) return unimplemented("a matmul's rows and columns cannot be one loop");
    if (kind == 1) {
      if (rows)
        return unimplemented("a matmul's rows are one loop; another op of the region splits them");
      rows = &g;
    } else if (kind == 2) {
      if (columns)
        return unimplemented(
            "a matmul's columns are one loop; another op of the region splits them");
      columns = &g;
    } else {
      batch.push_back(g);
    }
  }
  for (const Group& g : batch) nest.add_axis(AxisRole::kLoop, g);
  if (rows)
    nest.add_axis(AxisRole::kPartition, *rows);
  else
    nest.add_axis(AxisRole::kPartition, s.constant(1));
  const AxisId n = columns ? nest.add_axis(AxisRole::kFree, *columns)
                           : nest.add_axis(AxisRole::kFree, s.constant(1));
  nest.axis(n).tile = s.constant(kPsumTile);
  const AxisId k = nest.add_axis(AxisRole::kContract, s.size(a.arg, m.a_k));

  nest.nest().has_matmul = true;
  nest.nest().matmul.op = m.op;
  nest.emit(nodes);
  const auto operand = [&](const Access& x, int contract) {
    HbmAccess h = nest.access(x);
    const StrideClass c = x.view->stride[contract];
    h.strides[k] = c == StrideClass::kOne    ? s.constant(1)
                   : c == StrideClass::kZero ? kNoSlot
                                             : s.stride(x.arg, contract);
    return h;
  };
  nest.nest().matmul.a = operand(a, m.a_k);
  nest.nest().matmul.b = operand(b, m.b_k);
  nest.close();
  NAX_ASSIGN_OR_RETURN(Program p, w.finish());
  std::vector<Program> variants;
  variants.push_back(std::move(p));
  return variants;
}

}  // namespace nax
