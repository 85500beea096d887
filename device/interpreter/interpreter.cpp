#include "device/interpreter/interpreter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "device/base/host_isa.h"
#include "device/interpreter/build_lanes.h"
#include "device/interpreter/nest.h"
#include "device/interpreter/overlap.h"
#include "device/isa/slots.h"
#include "device/matmul/matmul.h"

namespace nax {
namespace {

Status check_nest(const Program& program, const Nest& nest) {
  if (nest.axes.size() > static_cast<size_t>(kMaxAxes)) return unimplemented("more than 8 axes");
  int partitions = 0, free = 0, contract = 0;
  for (const Axis& axis : nest.axes) {
    partitions += axis.role == AxisRole::kPartition;
    free += axis.role == AxisRole::kFree;
    contract += axis.role == AxisRole::kContract;
    if (axis.role == AxisRole::kFree && axis.kind != LoopKind::kParallel)
      return unimplemented("a free axis that is not parallel: allowed are parallel free axes and scans");
  }
  if (free > kMaxFreeDims) return unimplemented("more than 6 free axes");
  if (!nest.has_matmul) return {};
  if (partitions != 1 || free != 1 || contract != 1)
    return unimplemented("a matmul nest needs exactly one partition, one free and one contract axis");
  for (const Axis& axis : nest.axes)
    if (axis.kind != LoopKind::kParallel && axis.role != AxisRole::kContract)
      return unimplemented("a matmul nest with sequential axes");
  for (const Axis& axis : nest.axes)
    if (axis.split_outer != kNone) return unimplemented("a matmul nest with split axes");
  const DType a = program.args[nest.matmul.a.arg].dtype, b = program.args[nest.matmul.b.arg].dtype;
  if (a != b) return unimplemented("a matmul of operands of two dtypes");
  const DType acc = accumulator_dtype(a);
  if (acc == DType::kInvalid) return unimplemented("a matmul of " + std::string(dtype_name(a)));
  if (nest.tiles[nest.matmul.psum].dtype != acc)
    return unimplemented("a matmul of " + std::string(dtype_name(a)) + " accumulates in " + std::string(dtype_name(acc)) + ", not in the psum tile's dtype");
  return {};
}

Status make_variant(const Program& program, const Nest& nest, AliasRule rule, NestVariant* out) {
  NAX_ASSIGN_OR_RETURN(out->lanes, build_lanes(program, nest, rule));
  NAX_ASSIGN_OR_RETURN(out->code, make_strip_code(out->lanes, host_isa()));
  if (nest.has_matmul && (out->lanes.has_row_reduction || out->lanes.stages.size() > 1 || !out->lanes.accumulators.empty()))
    return unimplemented("a reduction in a matmul nest: allowed are pointwise instructions on its blocks");
  if (out->lanes.finish != nullptr) {
    NAX_ASSIGN_OR_RETURN(out->finish, make_strip_code(*out->lanes.finish, host_isa()));
  }
  return {};
}

void find_order(PreparedNest& nest) {
  bool sequential = false;
  for (const Axis& axis : nest.nest->axes) sequential |= axis.kind != LoopKind::kParallel && axis.role != AxisRole::kContract;
  bool loads = false, stores = false, accumulates = false;
  for (const LaneAccess& a : nest.distinct.lanes.accesses) {
    if (a.source != AccessSource::kHbm) continue;
    accumulates |= a.store && (a.hbm.accumulate || a.index_value >= 0);
    stores |= a.store;
    if (a.store) continue;
    for (const LaneAccess& s : nest.distinct.lanes.accesses) loads |= s.store && s.hbm.arg == a.hbm.arg;
  }
  nest.ordered = sequential || accumulates;
  nest.hazard = sequential && stores && loads;
}

double estimate_ns(const Program& program, const std::vector<std::unique_ptr<PreparedNest>>& nests, const int64_t* slots) {
  double ns = 0;
  for (size_t i = 0; i < nests.size(); ++i) {
    double points = 1;
    for (const Axis& axis : program.nests[i].axes) points *= static_cast<double>(std::max<int64_t>(0, slots[axis.extent]));
    ns += points * (program.nests[i].has_matmul ? 0.02 : nests[i]->distinct.code.element_ns);
  }
  return ns;
}

// One instance: all nests in order. `row` holds its scratch cells already.
Status run_instance(const Program& program, const std::vector<std::unique_ptr<PreparedNest>>& nests, const ArgValue* row,
                    const int64_t* slots, ThreadPool& pool, uint8_t* op_errors) {
  Arena& arena = thread_arena();
  const Arena::Scope scope(arena);
  LaunchValues values;
  values.program = &program;
  values.args = row;
  values.slots = slots;
  const bool overlap = any_overlap(program, row);
  for (const std::unique_ptr<PreparedNest>& nest : nests) {
    const Arena::Scope nest_scope(arena);
    NestLaunch launch;
    launch.prepared = nest.get();
    const bool aliased = overlap && nest_overlaps(program, nest->distinct.lanes, row);
    launch.variant = aliased ? &nest->any : &nest->distinct;
    launch.values = &values;
    launch.pool = &pool;
    launch.op_errors = op_errors;
    if (!aliased) launch.kernel = nest->current_kernel();
    const LaneProgram& lanes = launch.variant->lanes;
    LaneCell* scalars = arena.allocate_array<LaneCell>(lanes.scalars.size() + 1);
    convert_scalars(lanes, values, scalars);
    SeedRun* seeds = arena.allocate_array<SeedRun>(lanes.seeds.size() + 1);
    for (size_t i = 0; i < lanes.seeds.size(); ++i) seeds[i] = {row[lanes.seeds[i]].seed, row[lanes.seeds[i]].seed_offset};
    launch.scalars = scalars;
    launch.seeds = seeds;
    Status status;
    if (nest->nest->has_matmul) {
      status = run_matmul(launch);
      nest->matmuls.fetch_add(1, std::memory_order_relaxed);
    } else if (!lanes.accumulators.empty()) {
      status = run_columns(launch);
    } else {
      status = run_rows(launch);
    }
    if (!status.ok()) return std::move(status).with_context("program " + program.name);
    const uint8_t tiers = launch.tiers.load(std::memory_order_relaxed);
    if (tiers & NestLaunch::kStrips) nest->interpreted.fetch_add(1, std::memory_order_relaxed);
    if (tiers & NestLaunch::kKernel) nest->compiled.fetch_add(1, std::memory_order_relaxed);
  }
  return {};
}

}  // namespace

PreparedProgram::PreparedProgram(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
PreparedProgram::~PreparedProgram() = default;

StatusOr<std::shared_ptr<PreparedProgram>> PreparedProgram::prepare(std::shared_ptr<const Program> program) {
  std::shared_ptr<PreparedProgram> out(new PreparedProgram(std::move(program)));
  const Program& p = *out->program_;
  for (size_t i = 0; i < p.nests.size(); ++i) {
    const std::string where = "program " + p.name + ", nest " + std::to_string(i);
    auto nest = std::make_unique<PreparedNest>();
    nest->program = &p;
    nest->nest = &p.nests[i];
    Status status = check_nest(p, *nest->nest);
    if (status.ok()) status = make_variant(p, *nest->nest, AliasRule::kDistinctArgs, &nest->distinct);
    if (status.ok()) status = make_variant(p, *nest->nest, AliasRule::kAnyArg, &nest->any);
    if (!status.ok()) return std::move(status).with_context(where);
    find_order(*nest);
    out->nests_.push_back(std::move(nest));
  }
  return out;
}

const LaneProgram& PreparedProgram::lanes(int nest) const { return nests_[static_cast<size_t>(nest)]->distinct.lanes; }

void PreparedProgram::attach_kernel(int nest, std::shared_ptr<const CompiledKernel> kernel) {
  PreparedNest& n = *nests_[static_cast<size_t>(nest)];
  const std::lock_guard<std::mutex> lock(n.kernel_mutex);
  n.has_kernel.store(kernel != nullptr, std::memory_order_release);
  n.kernel = std::move(kernel);
}

std::shared_ptr<const CompiledKernel> PreparedProgram::kernel(int nest) const {
  return nests_[static_cast<size_t>(nest)]->current_kernel();
}

NestStats PreparedProgram::stats(int nest) const {
  const PreparedNest& n = *nests_[static_cast<size_t>(nest)];
  return {n.interpreted.load(std::memory_order_relaxed), n.compiled.load(std::memory_order_relaxed),
          n.matmuls.load(std::memory_order_relaxed)};
}

Status PreparedProgram::run(const ArgValue* rows, int64_t n_rows, ThreadPool& pool, uint8_t* op_errors) const {
  const Program& program = *program_;
  const size_t columns = program.args.size();
  const size_t n = static_cast<size_t>(n_rows);
  Arena& arena = thread_arena();
  const Arena::Scope scope(arena);
  // Slots, then scratch memory, of every instance.
  int64_t* slots = arena.allocate_array<int64_t>(n * program.slots.size() + 1);
  for (size_t i = 0; i < n; ++i) evaluate_slots(program, rows + i * columns, slots + i * program.slots.size());
  bool has_scratch = false;
  for (const ArgDecl& decl : program.args) has_scratch |= decl.kind == ArgKind::kScratch;
  const ArgValue* cells = rows;
  if (has_scratch) {
    ArgValue* copy = arena.allocate_array<ArgValue>(n * columns);
    std::copy(rows, rows + n * columns, copy);
    for (size_t i = 0; i < n; ++i)
      for (size_t a = 0; a < columns; ++a) {
        const ArgDecl& decl = program.args[a];
        if (decl.kind != ArgKind::kScratch) continue;
        const int64_t elements = std::max<int64_t>(0, slots[i * program.slots.size() + static_cast<size_t>(decl.scratch_elements)]);
        copy[i * columns + a].data = arena.allocate(static_cast<size_t>(elements) * dtype_size(decl.dtype));
        copy[i * columns + a].offset_bytes = 0;
      }
    cells = copy;
  }
  const auto instance = [&](size_t i) {
    return run_instance(program, nests_, cells + i * columns, slots + i * program.slots.size(), pool, op_errors);
  };
  if (n_rows <= 1 || pool.threads() <= 1) {
    for (size_t i = 0; i < n; ++i) NAX_RETURN_IF_ERROR(instance(i));
    return {};
  }
  // Instances that are large share all threads, one after the other; the rest run side by side.
  double total = 0;
  double* work = arena.allocate_array<double>(n);
  for (size_t i = 0; i < n; ++i) total += work[i] = estimate_ns(program, nests_, slots + i * program.slots.size());
  const double large = std::max(kInlineNs, total / (4.0 * pool.threads()));
  int64_t* small = arena.allocate_array<int64_t>(n);
  int64_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    if (work[i] <= large) small[count++] = static_cast<int64_t>(i);
    else NAX_RETURN_IF_ERROR(instance(i));
  }
  double small_total = 0;
  for (int64_t k = 0; k < count; ++k) small_total += work[small[k]];
  if (small_total < kInlineNs) {
    for (int64_t k = 0; k < count; ++k) NAX_RETURN_IF_ERROR(instance(static_cast<size_t>(small[k])));
    return {};
  }
  std::mutex mutex;
  Status first;
  int64_t first_at = count;
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kTaskNs * static_cast<double>(count) / small_total));
  pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      Status status = instance(static_cast<size_t>(small[k]));
      if (status.ok()) continue;
      const std::lock_guard<std::mutex> lock(mutex);
      if (k < first_at) {
        first = std::move(status);
        first_at = k;
      }
      return;
    }
  });
  return first;
}

}  // namespace nax
