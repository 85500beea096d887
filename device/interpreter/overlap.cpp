#include "device/interpreter/overlap.h"

#include <cstdlib>

namespace nax {
namespace {

// The bytes of a view: [begin, end) in all; and, apart from its widest dimension, `span` bytes that repeat every `step`.
struct Extent {
  intptr_t begin = 0, end = 0;
  int64_t step = 0, span = 0;
};

Extent extent_of(const ArgDecl& decl, const ArgValue& arg) {
  const int64_t size = static_cast<int64_t>(dtype_size(decl.dtype));
  int64_t low = 0, high = 0, rest = 0, widest = 0;
  for (int d = 0; d < decl.rank; ++d) {
    if (arg.sizes[d] <= 0) return {};
    if (arg.sizes[d] == 1) continue;
    const int64_t reach = (arg.sizes[d] - 1) * arg.strides[d];
    (reach < 0 ? low : high) += reach;
    const int64_t step = std::abs(arg.strides[d]);
    if (step > widest) {
      widest = step;
      rest = std::abs(reach);
    }
  }
  const intptr_t base = reinterpret_cast<intptr_t>(arg.data) + arg.offset_bytes;
  Extent e;
  e.begin = base + low * size;
  e.end = base + (high + 1) * size;
  e.step = widest * size;
  e.span = (high - low - rest + 1) * size;
  return e;
}

}  // namespace

bool views_overlap(const ArgDecl& a_decl, const ArgValue& a, const ArgDecl& b_decl, const ArgValue& b) {
  const Extent x = extent_of(a_decl, a), y = extent_of(b_decl, b);
  if (x.begin >= y.end || y.begin >= x.end || x.begin == x.end || y.begin == y.end) return false;
  if (x.step != y.step || x.step == 0) return true;
  // Both repeat with one step: apart if one starts, modulo the step, behind the other and ends before it comes again.
  const int64_t shift = ((y.begin - x.begin) % x.step + x.step) % x.step;
  return shift < x.span || shift + y.span > x.step;
}

bool any_overlap(const Program& program, const ArgValue* args) {
  const size_t n = program.args.size();
  for (size_t i = 0; i < n; ++i) {
    if (program.args[i].kind != ArgKind::kView || !program.args[i].written) continue;
    for (size_t j = 0; j < n; ++j)
      if (j != i && program.args[j].kind == ArgKind::kView && views_overlap(program.args[i], args[i], program.args[j], args[j]))
        return true;
  }
  return false;
}

bool nest_overlaps(const Program& program, const LaneProgram& lanes, const ArgValue* args) {
  for (const LaneAccess& s : lanes.accesses) {
    if (s.source != AccessSource::kHbm || !s.store) continue;
    for (const LaneAccess& o : lanes.accesses) {
      if (o.source != AccessSource::kHbm || o.hbm.arg == s.hbm.arg) continue;
      const size_t i = static_cast<size_t>(s.hbm.arg), j = static_cast<size_t>(o.hbm.arg);
      if (program.args[i].kind != ArgKind::kView || program.args[j].kind != ArgKind::kView) continue;
      if (views_overlap(program.args[i], args[i], program.args[j], args[j])) return true;
    }
  }
  return false;
}

}  // namespace nax
