// Partition reductions: chunks of 128 rows into fresh accumulators, chunks combined from left to right, then `finish`.
// Tasks are column tiles; where there are too few of them, ranges of chunks, whose partial results are kept and combined
// in order afterwards. Either way the same operations happen in the same order.
#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "device/interpreter/nest.h"

namespace nax {
namespace {

constexpr int64_t kColumnTile = 2048;
constexpr int64_t kLeastColumns = 256;  // narrower tiles would only pay overhead

struct ColumnPlan {
  bool wide = false;        // the parallel loops are columns too: short free axes make long strips
  int n_outer = 0;
  int64_t outer = 1;        // points of the parallel loops
  int row = -1;             // dimension of the reduced rows
  int64_t rows = 1;
  int64_t free = 1;
  int64_t tile = 1;         // columns a task
  int64_t tiles = 1;
  int64_t chunks = 1;       // of 128 rows
  int64_t group = 1;        // chunks a task
  int64_t groups = 1;
};

class Columns {
 public:
  Columns(const NestLaunch& launch, const Geometry& g, const RunShape& shape, const ColumnPlan& plan)
      : launch_(launch), lanes_(launch.lanes()), g_(g), shape_(shape), plan_(plan) {}

  // Partial results of every chunk: where one task does not see all chunks. [outer][accumulator][chunk][columns].
  void allocate_partials(Arena& arena) {
    const size_t n = lanes_.accumulators.size();
    partials_ = arena.allocate_array<char*>(static_cast<size_t>(plan_.outer) * n);
    for (int64_t o = 0; o < plan_.outer; ++o)
      for (size_t i = 0; i < n; ++i)
        partials_[static_cast<size_t>(o) * n + i] = arena.allocate(static_cast<size_t>(plan_.chunks * width(i, plan_.free)) * size(i));
  }

  // A task of the first pass.
  void reduce(int64_t task) const {
    Arena& arena = thread_arena();
    const Arena::Scope scope(arena);
    TaskErrors errors(launch_, arena);
    const int64_t group = task % plan_.groups;
    const int64_t tile = task / plan_.groups % plan_.tiles;
    const int64_t o = task / plan_.groups / plan_.tiles;
    int64_t outer[kMaxAxes] = {};
    decompose(o, outer);
    RowRunArgs args = make_run(launch_, g_, shape_, outer, arena);
    args.op_errors = errors.bits();
    const int64_t rows = row_points(outer);
    const int64_t f0 = tile * plan_.tile, f1 = std::min(args.row_length, f0 + plan_.tile);
    const size_t n = lanes_.accumulators.size();
    const int64_t w = std::max<int64_t>(0, f1 - f0);
    char** acc = arena.allocate_array<char*>(n);
    char** total = arena.allocate_array<char*>(n);
    ColumnTree* trees = arena.allocate_array<ColumnTree>(n);
    for (size_t i = 0; i < n; ++i) {
      total[i] = arena.allocate(static_cast<size_t>(width(i, w)) * size(i));
      fill(i, total[i], width(i, w));
      if (tree(i)) {
        trees[i].width = width(i, w);
        trees[i].first_row = 0;
        trees[i].levels = arena.allocate(static_cast<size_t>(levels(rows) * width(i, w)) * size(i));
        acc[i] = reinterpret_cast<char*>(&trees[i]);
      } else {
        acc[i] = arena.allocate(static_cast<size_t>(width(i, w)) * size(i));
      }
    }
    args.column_accumulators = acc;
    const int64_t first = group * plan_.group, last = std::min(plan_.chunks, first + plan_.group);
    for (int64_t c = first; c < last; ++c) {
      const int64_t p0 = c * kColumnChunk, p1 = std::min(rows, p0 + kColumnChunk);
      char** into = acc;
      for (size_t i = 0; i < n; ++i) {
        if (tree(i)) continue;
        if (partials_ != nullptr) into[i] = partial(o, i, c) + static_cast<size_t>(lanes_.accumulators[i].shape == TileShape::kColumn ? f0 : 0) * size(i);
        fill(i, into[i], width(i, w));
      }
      if (p0 < p1) execute_run(launch_, args, p0, p1, f0, f1, arena);
      if (partials_ != nullptr) continue;
      for (size_t i = 0; i < n; ++i)
        if (!tree(i)) combine(i)(total[i], into[i], width(i, w));
    }
    if (partials_ != nullptr) return;
    for (size_t i = 0; i < n; ++i)
      if (tree(i)) close_tree(i, trees[i], rows, total[i]);
    finish(outer, total, f0, f1, errors, arena);
  }

  // A task of the second pass: one column tile of one outer point, all chunks.
  void combine_partials(int64_t task) const {
    Arena& arena = thread_arena();
    const Arena::Scope scope(arena);
    TaskErrors errors(launch_, arena);
    const int64_t tile = task % plan_.tiles, o = task / plan_.tiles;
    int64_t outer[kMaxAxes] = {};
    decompose(o, outer);
    const RowRunArgs run = make_run(launch_, g_, shape_, outer, arena);
    const int64_t f0 = tile * plan_.tile, f1 = std::min(run.row_length, f0 + plan_.tile);
    const int64_t w = std::max<int64_t>(0, f1 - f0);
    const size_t n = lanes_.accumulators.size();
    char** total = arena.allocate_array<char*>(n);
    for (size_t i = 0; i < n; ++i) {
      total[i] = arena.allocate(static_cast<size_t>(width(i, w)) * size(i));
      fill(i, total[i], width(i, w));
      const size_t at = static_cast<size_t>(lanes_.accumulators[i].shape == TileShape::kColumn ? f0 : 0) * size(i);
      for (int64_t c = 0; c < plan_.chunks; ++c) combine(i)(total[i], partial(o, i, c) + at, width(i, w));
    }
    finish(outer, total, f0, f1, errors, arena);
  }

 private:
  size_t size(size_t i) const { return lane_size(lanes_.accumulators[i].lane); }
  bool tree(size_t i) const { return lanes_.accumulators[i].order == ReduceOrder::kTree; }
  int64_t width(size_t i, int64_t columns) const { return lanes_.accumulators[i].shape == TileShape::kColumn ? columns : 1; }
  CombineFn combine(size_t i) const {
    return combine_fn(launch_.variant->code.isa, lanes_.accumulators[i].reduce, lanes_.accumulators[i].lane);
  }
  void fill(size_t i, char* dst, int64_t n) const {
    uint64_t identity = 0;
    reduce_identity(lanes_.accumulators[i].reduce, lanes_.accumulators[i].lane, &identity);
    fill_lanes(lanes_.accumulators[i].lane, dst, &identity, n);
  }
  char* partial(int64_t o, size_t i, int64_t chunk) const {
    return partials_[static_cast<size_t>(o) * lanes_.accumulators.size() + i] +
           static_cast<size_t>(chunk * width(i, plan_.free)) * size(i);
  }
  static int64_t levels(int64_t rows) { return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(rows, 1))) + 1; }

  void decompose(int64_t o, int64_t* outer) const {
    for (int d = plan_.n_outer - 1; d >= 0; --d) {
      outer[d] = o % g_.dims[d].extent;
      o /= g_.dims[d].extent;
    }
  }
  int64_t row_points(const int64_t* outer) const {
    if (plan_.row < 0) return 1;
    const Dim& d = g_.dims[plan_.row];
    return d.split_outer >= 0 ? d.points(outer[d.split_outer]) : d.extent;
  }

  // From the lowest full level up: an odd last group is carried up unchanged.
  void close_tree(size_t i, const ColumnTree& t, int64_t rows, char* out) const {
    const size_t step = static_cast<size_t>(t.width) * size(i);
    bool any = false;
    for (int64_t l = 0; l < levels(rows); ++l) {
      if (((static_cast<uint64_t>(rows) >> l) & 1) == 0) continue;
      char* level = t.levels + static_cast<size_t>(l) * step;
      if (any) combine(i)(level, out, t.width);
      std::memcpy(out, level, step);
      any = true;
    }
  }

  void finish(const int64_t* outer, char* const* total, int64_t f0, int64_t f1, TaskErrors& errors, Arena& arena) const {
    if (lanes_.finish == nullptr) return;
    const LaneProgram& lanes = *lanes_.finish;
    Geometry g = make_geometry(launch_.nest(), lanes, *launch_.values, arena);
    // The same dimensions as the body's, which this file neither merges nor drops; its rows are a single one here.
    RowRunArgs args;
    args.n_free = 1;
    AccessRun* accesses = arena.allocate_array<AccessRun>(lanes.accesses.size() + 1);
    args.free_extent.fill(1);
    const auto is_column = [&](int d) {
      return g.dims[d].role == AxisRole::kFree || (plan_.wide && g.dims[d].role == AxisRole::kLoop);
    };
    int n_free = 0;
    int64_t length = 1;
    for (int d = 0; d < g.n_dims; ++d) {
      if (!is_column(d)) continue;
      args.free_extent[static_cast<size_t>(n_free)] = plan_.wide ? g.dims[d].extent : free_points(g, d, outer);
      length *= args.free_extent[static_cast<size_t>(n_free++)];
    }
    args.n_free = std::max(1, n_free);
    args.row_length = length;
    for (size_t i = 0; i < lanes.accesses.size(); ++i) {
      const AccessGeometry& a = g.access[i];
      AccessRun& run = *new (&accesses[i]) AccessRun();
      int64_t offset = 0;
      int f = 0, loop = 0;
      for (int d = 0; d < g.n_dims; ++d) {
        if (is_column(d)) run.free_stride[static_cast<size_t>(f++)] = a.stride[d];
        else if (g.dims[d].role == AxisRole::kLoop) offset += outer[loop++] * a.stride[d];
      }
      run.base = a.base == nullptr ? nullptr : a.base + offset * a.element;
      run.index = a.index + offset;
      run.index_stride = a.index_stride;
      run.index_size = a.index_size;
      if (lanes.accesses[i].source != AccessSource::kAccumulator) continue;
      const size_t id = static_cast<size_t>(lanes.accesses[i].id);
      const bool column = lanes_.accumulators[id].shape == TileShape::kColumn;
      run.base = total[id] - static_cast<size_t>(column ? f0 : 0) * size(id);
      int64_t step = column ? 1 : 0;
      for (int d = n_free - 1; d >= 0; --d) {
        run.free_stride[static_cast<size_t>(d)] = step;
        step *= args.free_extent[static_cast<size_t>(d)];
      }
      if (n_free == 0) run.free_stride[0] = column ? 1 : 0;
    }
    args.accesses = accesses;
    args.op_errors = errors.bits();
    args.scalars = finish_scalars(lanes, arena);
    args.seeds = finish_seeds(lanes, arena);
    run_strips(launch_.variant->finish, args, 0, 1, f0, f1);
  }

  static int64_t free_points(const Geometry& g, int d, const int64_t* outer) {
    const Dim& dim = g.dims[d];
    return dim.split_outer >= 0 && g.dims[dim.split_outer].role == AxisRole::kLoop ? dim.points(outer[dim.split_outer]) : dim.extent;
  }

  const LaneCell* finish_scalars(const LaneProgram& lanes, Arena& arena) const {
    LaneCell* scalars = arena.allocate_array<LaneCell>(lanes.scalars.size() + 1);
    convert_scalars(lanes, *launch_.values, scalars);
    return scalars;
  }
  const SeedRun* finish_seeds(const LaneProgram& lanes, Arena& arena) const {
    SeedRun* seeds = arena.allocate_array<SeedRun>(lanes.seeds.size() + 1);
    for (size_t i = 0; i < lanes.seeds.size(); ++i) {
      const ArgValue& a = launch_.values->args[lanes.seeds[i]];
      seeds[i] = {a.seed, a.seed_offset};
    }
    return seeds;
  }

  const NestLaunch& launch_;
  const LaneProgram& lanes_;
  const Geometry& g_;
  const RunShape& shape_;
  const ColumnPlan& plan_;
  char** partials_ = nullptr;
};

}  // namespace

Status run_columns(const NestLaunch& launch) {
  Arena& arena = thread_arena();
  const Arena::Scope scope(arena);
  const LaneProgram& lanes = launch.lanes();
  // Loops stay as they are, so that `finish` finds the same coordinates.
  Geometry g = make_geometry(launch.nest(), lanes, *launch.values, arena);
  RunShape shape;
  shape.first_free = g.n_dims;
  for (int d = g.n_dims - 1; d >= 0 && g.dims[d].role == AxisRole::kFree; --d) shape.first_free = d;
  const bool partition = shape.first_free > 0 && g.dims[shape.first_free - 1].role == AxisRole::kPartition;
  if (!partition) return unimplemented("tensor_partition_reduce in a nest without a partition axis");
  shape.row = shape.first_free - 1;

  ColumnPlan plan;
  plan.n_outer = shape.row;
  bool parallel = true;
  for (int d = 0; d < plan.n_outer; ++d) {
    plan.outer *= g.dims[d].extent;
    parallel &= g.dims[d].kind == LoopKind::kParallel;
    if (g.dims[d].split_outer >= 0) return unimplemented("tensor_partition_reduce under a split loop axis");
  }
  plan.row = shape.row;
  plan.rows = g.dims[shape.row].extent;
  for (int d = shape.first_free; d < g.n_dims; ++d) {
    plan.free *= g.dims[d].extent;
    if (g.dims[d].split_outer >= shape.row) return unimplemented("tensor_partition_reduce of rows of different lengths");
  }
  if (plan.outer == 0) return {};
  const bool row_split = g.dims[shape.row].split_outer >= 0;
  plan.chunks = (plan.rows + kColumnChunk - 1) / kColumnChunk;
  bool tree = false;
  for (const ColumnAccumulator& a : lanes.accumulators) tree |= a.order == ReduceOrder::kTree;
  // Column tiles repeat what is done once a row; such nests take all columns at once.
  bool rows_have_work = lanes.stages.size() > 1 || lanes.has_row_reduction;
  for (const LaneStage& stage : lanes.stages) rows_have_work |= !stage.row_ops.empty();
  if (lanes.finish != nullptr) rows_have_work |= lanes.finish->has_row_reduction || lanes.finish->stages.size() > 1;
  if (lanes.finish != nullptr)
    for (const LaneStage& stage : lanes.finish->stages) rows_have_work |= !stage.row_ops.empty();

  if (!rows_have_work && parallel && !row_split && plan.outer > 1 && plan.free < kLeastColumns * 2 && g.n_dims - 1 <= kMaxFreeDims) {
    plan.wide = true;
    for (int d = shape.row; d > 0; --d) g.swap_dims(d, d - 1);
    for (int d = 0; d < g.n_dims; ++d) g.dims[d].group = d == 0 ? 1 : 2;
    plan.free *= plan.outer;
    plan.outer = 1;
    plan.n_outer = 0;
    g.merge();
    shape.row = g.n_dims > 0 && g.dims[0].group == 1 ? 0 : -1;
    shape.first_free = shape.row + 1;
    plan.row = shape.row;
  }

  const double total_ns = static_cast<double>(plan.outer) * static_cast<double>(plan.rows) *
                          static_cast<double>(std::max<int64_t>(plan.free, 1)) * launch.variant->code.element_ns;
  const int threads = launch.pool->threads();
  const bool inline_run = total_ns < kInlineNs || threads <= 1 || !parallel || ThreadPool::in_parallel_region();
  const int64_t wanted = inline_run ? 1 : 4 * threads;
  plan.tile = std::max<int64_t>(plan.free, 1);
  if (!rows_have_work && plan.free > kLeastColumns) {
    int64_t per_task = plan.free;
    if (plan.outer < wanted) per_task = (plan.free * plan.outer + wanted - 1) / wanted;
    plan.tile = std::clamp<int64_t>((per_task + 63) / 64 * 64, kLeastColumns, kColumnTile);
  }
  plan.tiles = (std::max<int64_t>(plan.free, 1) + plan.tile - 1) / plan.tile;
  plan.group = std::max<int64_t>(plan.chunks, 1);
  const int64_t tasks = plan.outer * plan.tiles;
  if (!inline_run && !tree && tasks < wanted && plan.chunks > 1) {
    const int64_t groups = std::min(plan.chunks, (wanted + tasks - 1) / tasks);
    plan.group = (plan.chunks + groups - 1) / groups;
  }
  plan.groups = (std::max<int64_t>(plan.chunks, 1) + plan.group - 1) / plan.group;

  Columns columns(launch, g, shape, plan);
  if (plan.groups > 1) columns.allocate_partials(arena);
  const int64_t all = tasks * plan.groups;
  const auto first = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) columns.reduce(t);
  };
  if (inline_run) {
    first(0, all);
    return {};
  }
  const double task_ns = total_ns / static_cast<double>(all);
  launch.pool->parallel_for(all, std::max<int64_t>(1, static_cast<int64_t>(kTaskNs / std::max(task_ns, 1.0))), first);
  if (plan.groups == 1) return {};
  for (int64_t t = 0; t < tasks; ++t) columns.combine_partials(t);
  return {};
}

}  // namespace nax
