// Pointwise nests and row reductions: rows x free elements, in units that tasks share.
#include <algorithm>
#include <cstdlib>

#include "device/interpreter/nest.h"

namespace nax {
namespace {

constexpr int64_t kUnitElements = 32768;

// Every kRow and kOne value is the same in the whole launch: rows and free elements may be regrouped at will.
bool rows_are_uniform(const LaneProgram& lanes, const Geometry& g) {
  for (const LaneStage& stage : lanes.stages)
    for (int16_t i : stage.row_ops) {
      const LaneOp& op = lanes.ops[static_cast<size_t>(i)];
      if (op.kind == LaneOpKind::kApply || op.kind == LaneOpKind::kConvert) continue;  // as uniform as their operands
      if (op.kind != LaneOpKind::kLoad || lanes.accesses[op.access].index_value >= 0 || !lanes.accesses[op.access].rereadable)
        return false;
      for (int d = 0; d < g.n_dims; ++d)
        if (g.access[op.access].stride[d] != 0) return false;
    }
  return true;
}

bool has_ragged(const Geometry& g) {
  for (int d = 0; d < g.n_dims; ++d)
    if (g.dims[d].split_outer >= 0) return true;
  return false;
}

// Should dimension a be outside of b? The first access that can tell decides, stores first.
bool in_order(const LaneProgram& lanes, const Geometry& g, int a, int b) {
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < g.n_access; ++i) {
      if (lanes.accesses[static_cast<size_t>(i)].store != (pass == 0)) continue;
      const int64_t x = std::abs(g.access[i].stride[a]), y = std::abs(g.access[i].stride[b]);
      if (x == 0 || y == 0 || x == y) continue;
      return x > y;
    }
  return true;
}

void sort_dims(const LaneProgram& lanes, Geometry& g) {
  for (int end = g.n_dims; end > 1; --end)
    for (int d = 0; d + 1 < end; ++d)
      if (!in_order(lanes, g, d, d + 1)) g.swap_dims(d, d + 1);
}

// A dimension along which some access has unit stride while the innermost one strides: transposed blocks run over both.
int transposed_dim(const Geometry& g) {
  const int inner = g.n_dims - 1;
  for (int i = 0; i < g.n_access; ++i) {
    const AccessGeometry& a = g.access[i];
    if (!a.full || a.stride[inner] == 0 || a.stride[inner] == 1) continue;
    for (int d = 0; d < inner; ++d)
      if (a.stride[d] == 1 && g.dims[d].extent >= 8) return d;
  }
  return -1;
}

// Pointwise: any grouping of the points is right.
RunShape shape_pointwise(const NestLaunch& launch, Geometry& g) {
  const LaneProgram& lanes = launch.lanes();
  for (int d = 0; d < g.n_dims; ++d) g.dims[d].group = 0;
  g.merge();
  if (!has_ragged(g)) {
    sort_dims(lanes, g);
    g.merge();
  }
  RunShape shape;
  if (g.n_dims == 0) {
    shape.first_free = 0;
    return shape;
  }
  const int inner = g.n_dims - 1;
  if (g.n_dims == 1) {
    shape.first_free = 0;
    return shape;
  }
  if (!has_ragged(g)) {
    const int t = g.dims[inner].extent >= 8 ? transposed_dim(g) : -1;
    if (t >= 0) {
      if (t != inner - 1) g.swap_dims(t, inner - 1);
      shape.row = inner - 1;
      shape.first_free = inner;
      return shape;
    }
    // Short inner dimensions are packed: more of them become free axes.
    int first = inner;
    int64_t length = g.dims[inner].extent;
    if (launch.kernel == nullptr)
      while (first > 1 && length < 256 && g.n_dims - first < kMaxFreeDims) length *= g.dims[--first].extent;
    shape.first_free = first;
    shape.row = first - 1;
    return shape;
  }
  shape.first_free = inner;
  shape.row = inner - 1;
  return shape;
}

// Rows stay rows: loops and partition on one side, free axes on the other.
RunShape shape_rows(Geometry& g, bool keep_rows) {
  for (int d = 0; d < g.n_dims; ++d) {
    const bool free = g.dims[d].role == AxisRole::kFree;
    g.dims[d].group = free ? 2 : keep_rows && g.dims[d].role == AxisRole::kPartition ? 1 : 0;
  }
  g.merge();
  RunShape shape;
  shape.first_free = g.n_dims;
  for (int d = g.n_dims - 1; d >= 0 && g.dims[d].role == AxisRole::kFree; --d) shape.first_free = d;
  shape.row = shape.first_free > 0 ? shape.first_free - 1 : -1;
  return shape;
}

struct Units {
  int n_outer = 0;
  int64_t outer = 1;          // points of the outer dimensions
  int64_t rows = 1, free = 1; // extents of a run
  int64_t row_step = 1, free_step = 1;
  int64_t row_blocks = 1, free_blocks = 1;
  int64_t count() const { return outer * row_blocks * free_blocks; }
};

class Rows {
 public:
  Rows(const NestLaunch& launch, const Geometry& g, const RunShape& shape, const Units& units)
      : launch_(launch), g_(g), shape_(shape), u_(units) {}

  void run(int64_t begin, int64_t end) const {
    Arena& arena = thread_arena();
    const Arena::Scope scope(arena);
    TaskErrors errors(launch_, arena);
    int64_t last = -1;
    int64_t outer[kMaxAxes] = {};
    RowRunArgs args;
    int64_t points = 1;  // rows at these outer coordinates
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t o = unit / (u_.row_blocks * u_.free_blocks);
      const int64_t rest = unit % (u_.row_blocks * u_.free_blocks);
      const int64_t rb = rest / u_.free_blocks, fb = rest % u_.free_blocks;
      const Arena::Scope unit_scope(arena);
      // The accesses of a run live in the unit's scope, so they are made again for each unit.
      if (o != last) decompose(o, outer);
      last = o;
      if (!exists(outer)) continue;
      args = make_run(launch_, g_, shape_, outer, arena);
      args.op_errors = errors.bits();
      points = 1;
      if (shape_.row >= 0) {
        const Dim& row = g_.dims[shape_.row];
        points = row.split_outer >= 0 ? row.points(outer[row.split_outer]) : row.extent;
      }
      const int64_t p0 = rb * u_.row_step, p1 = std::min(points, p0 + u_.row_step);
      if (p0 >= p1) continue;
      run_block(args, p0, p1, fb * u_.free_step, arena);
    }
  }

 private:
  void decompose(int64_t o, int64_t* outer) const {
    for (int d = u_.n_outer - 1; d >= 0; --d) {
      outer[d] = o % g_.dims[d].extent;
      o /= g_.dims[d].extent;
    }
  }

  // Coordinates beyond the end of a ragged outer dimension are no points.
  bool exists(const int64_t* outer) const {
    for (int d = 0; d < u_.n_outer; ++d)
      if (g_.dims[d].split_outer >= 0 && outer[d] >= g_.dims[d].points(outer[g_.dims[d].split_outer])) return false;
    return true;
  }

  void run_block(RowRunArgs& args, int64_t p0, int64_t p1, int64_t f0, Arena& arena) const {
    // A free axis that is ragged over the rows: whole rows, then rows of their own length.
    const Dim* ragged = nullptr;
    int64_t others = 1;
    for (int d = shape_.first_free; d < g_.n_dims; ++d) {
      if (shape_.row >= 0 && g_.dims[d].split_outer == shape_.row) ragged = &g_.dims[d];
      else others *= args.free_extent[d - shape_.first_free];
    }
    if (ragged == nullptr) {
      execute(args, p0, p1, f0, arena);
      return;
    }
    const int64_t whole = ragged->extent > 0 ? std::max<int64_t>(0, ragged->limit / ragged->extent) : 0;
    const int64_t p = std::min(p1, std::max(p0, whole));
    execute(args, p0, p, f0, arena);
    for (int64_t r = p; r < p1; ++r) {
      RowRunArgs tail = args;
      const int64_t points = ragged->points(r);
      tail.free_extent[static_cast<size_t>(ragged - &g_.dims[shape_.first_free])] = points;
      tail.row_length = points * others;
      execute(tail, r, r + 1, f0, arena);
    }
  }

  void execute(RowRunArgs& args, int64_t p0, int64_t p1, int64_t f0, Arena& arena) const {
    const int64_t f1 = std::min(args.row_length, f0 + u_.free_step);
    if (p0 >= p1 || (f0 >= f1 && f0 > 0)) return;
    const bool one_by_one = launch_.prepared->hazard && shape_.row >= 0 && g_.dims[shape_.row].kind != LoopKind::kParallel;
    if (!one_by_one) {
      execute_run(launch_, args, p0, p1, f0, std::max(f0, f1), arena);
      return;
    }
    for (int64_t p = p0; p < p1; ++p) execute_run(launch_, args, p, p + 1, f0, std::max(f0, f1), arena);
  }

  const NestLaunch& launch_;
  const Geometry& g_;
  const RunShape& shape_;
  const Units& u_;
};

bool only_uniform_rows(const LaneProgram& lanes) {
  for (const LaneStage& stage : lanes.stages)
    for (int16_t i : stage.row_ops)
      if (lanes.ops[static_cast<size_t>(i)].kind != LaneOpKind::kLoad) return false;
  return true;
}

}  // namespace

Status run_rows(const NestLaunch& launch) {
  Arena& arena = thread_arena();
  const Arena::Scope scope(arena);
  const LaneProgram& lanes = launch.lanes();
  Geometry g = make_geometry(launch.nest(), lanes, *launch.values, arena);
  const bool whole_rows = lanes.has_row_reduction || lanes.stages.size() > 1;
  const bool ordered = launch.prepared->ordered;
  const bool pointwise = !whole_rows && !ordered && rows_are_uniform(lanes, g);
  if (pointwise && g.empty()) return {};
  const RunShape shape = pointwise ? shape_pointwise(launch, g) : shape_rows(g, ordered);
  for (int d = shape.first_free; d < g.n_dims; ++d)
    if (g.dims[d].split_outer >= shape.first_free)
      return unimplemented("a split free axis whose outer part is a free axis with other strides");

  Units u;
  u.n_outer = shape.row >= 0 ? shape.row : shape.first_free;
  int parallel_outer = 0;
  bool leading = true;
  int64_t parallel_points = 1;
  for (int d = 0; d < u.n_outer; ++d) {
    u.outer *= g.dims[d].extent;
    leading &= g.dims[d].kind == LoopKind::kParallel;
    if (leading) {
      ++parallel_outer;
      parallel_points *= g.dims[d].extent;
    }
  }
  u.rows = shape.row >= 0 ? g.dims[shape.row].extent : 1;
  for (int d = shape.first_free; d < g.n_dims; ++d) u.free *= g.dims[d].extent;
  if (u.outer == 0 || u.rows == 0) return {};
  if (u.free == 0 && !whole_rows && only_uniform_rows(lanes)) return {};

  const double total_ns = static_cast<double>(u.outer) * static_cast<double>(u.rows) *
                          static_cast<double>(std::max<int64_t>(u.free, 1)) * launch.variant->code.element_ns;
  const bool inline_run = total_ns < kInlineNs || launch.pool->threads() <= 1 || ThreadPool::in_parallel_region();
  u.row_step = u.rows;
  u.free_step = std::max<int64_t>(u.free, 1);
  const bool rows_parallel = !ordered || (leading && (shape.row < 0 || g.dims[shape.row].kind == LoopKind::kParallel));
  if (!inline_run && rows_parallel) {
    const int64_t free = std::max<int64_t>(u.free, 1);
    const bool may_split_free = !whole_rows && !ordered && only_uniform_rows(lanes);
    if (may_split_free && free > 2 * kUnitElements) {
      u.free_step = kUnitElements;
      u.row_step = 1;
    } else {
      const int64_t step = std::clamp<int64_t>(kUnitElements / free, 1, u.rows);
      u.row_step = step >= 64 ? step / 64 * 64 : step;
    }
  }
  u.row_blocks = (u.rows + u.row_step - 1) / u.row_step;
  u.free_blocks = (std::max<int64_t>(u.free, 1) + u.free_step - 1) / u.free_step;

  const Rows rows(launch, g, shape, u);
  if (inline_run) {
    rows.run(0, u.count());
  } else if (rows_parallel) {
    const double unit_ns = total_ns / static_cast<double>(u.count());
    const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kTaskNs / std::max(unit_ns, 1.0)));
    launch.pool->parallel_for(u.count(), grain, [&](int64_t begin, int64_t end) { rows.run(begin, end); });
  } else {
    // Program order inside each point of the leading parallel loops.
    const int64_t inner = u.count() / std::max<int64_t>(parallel_points, 1);
    launch.pool->parallel_for(parallel_points, 1, [&](int64_t begin, int64_t end) { rows.run(begin * inner, end * inner); });
  }
  return {};
}

}  // namespace nax
