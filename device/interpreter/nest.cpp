#include "device/interpreter/nest.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace nax {

TaskErrors::TaskErrors(const NestLaunch& launch, Arena& arena)
    : launch_(launch), count_(launch.values->program->op_count) {
  bits_ = reinterpret_cast<uint8_t*>(arena.allocate(count_));
  std::memset(bits_, 0, count_);
}

TaskErrors::~TaskErrors() {
  if (!launch_.lanes().may_fail) return;
  for (size_t i = 0; i < count_; ++i)
    if (bits_[i] != 0) std::atomic_ref<uint8_t>(launch_.op_errors[i]).fetch_or(bits_[i], std::memory_order_relaxed);
}

RowRunArgs make_run(const NestLaunch& launch, const Geometry& g, const RunShape& shape, const int64_t* outer,
                    Arena& arena) {
  RowRunArgs args;
  const int n_outer = shape.row >= 0 ? shape.row : shape.first_free;
  AccessRun* accesses = arena.allocate_array<AccessRun>(static_cast<size_t>(std::max(g.n_access, 1)));
  args.n_free = std::max(1, g.n_dims - shape.first_free);
  int64_t length = 1;
  args.free_extent.fill(1);
  for (int d = shape.first_free; d < g.n_dims; ++d) {
    const Dim& dim = g.dims[d];
    // Ragged over an outer dimension; over the rows the caller cuts.
    const int64_t extent = dim.split_outer >= 0 && dim.split_outer < n_outer ? dim.points(outer[dim.split_outer]) : dim.extent;
    args.free_extent[d - shape.first_free] = extent;
    length *= extent;
  }
  args.row_length = length;
  for (int i = 0; i < g.n_access; ++i) {
    const AccessGeometry& a = g.access[i];
    AccessRun& run = *new (&accesses[i]) AccessRun();
    int64_t offset = 0;
    for (int d = 0; d < n_outer; ++d) offset += outer[d] * a.stride[d];
    run.base = a.base == nullptr ? nullptr : a.base + offset * a.element;
    run.index = a.index + offset;
    run.row_stride = shape.row >= 0 ? a.stride[shape.row] : 0;
    for (int d = shape.first_free; d < g.n_dims; ++d) run.free_stride[d - shape.first_free] = a.stride[d];
    run.index_stride = a.index_stride;
    run.index_size = a.index_size;
  }
  args.accesses = accesses;
  args.scalars = launch.scalars;
  args.seeds = launch.seeds;
  return args;
}

void convert_scalars(const LaneProgram& lanes, const LaunchValues& values, LaneCell* out) {
  constexpr DType kNatural[kLaneCount] = {DType::kF32, DType::kF64, DType::kI64, DType::kI32};
  for (size_t i = 0; i < lanes.scalars.size(); ++i) {
    const LaneScalar& s = lanes.scalars[i];
    const size_t id = static_cast<size_t>(s.source.id);
    const ScalarValue& v = s.source.kind == OperandKind::kConstant ? values.program->constants[id] : values.args[id].scalar;
    scalar_to_lane(v, kNatural[static_cast<int>(s.lane)], &out[i]);
  }
}

bool kernel_accepts(const CompiledKernel& kernel, const RowRunArgs& args, size_t accesses) {
  if (kernel.run == nullptr || args.n_free > kernel.max_free || args.row_length < kernel.min_row || kernel.inner.size() != accesses) return false;
  for (size_t i = 0; i < accesses; ++i) {
    const int64_t inner = args.accesses[i].free_stride[args.n_free - 1];
    if (kernel.inner[i] == InnerStride::kUnit && inner != 1) return false;
    if (kernel.inner[i] == InnerStride::kZero && inner != 0) return false;
  }
  return true;
}

// Some access runs along the rows: the strips' transposed blocks read whole cache lines, a loop along free does not.
static bool runs_across(const LaneProgram& lanes, const RowRunArgs& args) {
  for (size_t i = 0; i < lanes.accesses.size(); ++i) {
    const AccessRun& a = args.accesses[i];
    const int64_t inner = a.free_stride[static_cast<size_t>(args.n_free - 1)];
    const AccessSource source = lanes.accesses[i].source;
    if ((source == AccessSource::kHbm || source == AccessSource::kPsum) && a.row_stride == 1 && inner != 0 && inner != 1) return true;
  }
  return false;
}

void execute_run(const NestLaunch& launch, RowRunArgs& args, int64_t p0, int64_t p1, int64_t f0, int64_t f1, Arena& arena) {
  const LaneProgram& lanes = launch.lanes();
  if (launch.kernel == nullptr || !kernel_accepts(*launch.kernel, args, lanes.accesses.size()) ||
      (p1 - p0 >= 8 && f1 - f0 >= 8 && runs_across(lanes, args))) {
    launch.ran(NestLaunch::kStrips);
    run_strips(launch.variant->code, args, p0, p1, f0, f1);
    return;
  }
  const Arena::Scope scope(arena);
  if (lanes.row_buffers > 0) {
    args.row_buffer_bytes = (args.row_length * 8 + 127) / 64 * 64;
    args.row_buffers = arena.allocate(static_cast<size_t>(args.row_buffer_bytes) * static_cast<size_t>(lanes.row_buffers));
  }
  launch.ran(NestLaunch::kKernel);
  launch.kernel->run(&args, p0, p1, f0, f1);
}

}  // namespace nax
