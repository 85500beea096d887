// Matmul nests: device/matmul makes the accumulators; the body runs on each block while it is hot in cache.
#include <algorithm>
#include <string>

#include "device/interpreter/nest.h"
#include "device/matmul/matmul.h"

namespace nax {
Status run_matmul(const NestLaunch& launch) {
  Arena& arena = thread_arena();
  const Arena::Scope scope(arena);
  const Nest& nest = launch.nest();
  const LaneProgram& lanes = launch.lanes();
  const LaunchValues& values = *launch.values;
  // Dimensions: loops, m, n; k is not one of them.
  const Geometry g = make_geometry(nest, lanes, values, arena);
  const int n_loops = g.n_dims - 2;
  RunShape shape;
  shape.row = n_loops;
  shape.first_free = n_loops + 1;

  size_t k_axis = 0;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (nest.axes[a].role == AxisRole::kContract) k_axis = a;
  const int64_t m = g.dims[shape.row].extent, n = g.dims[shape.first_free].extent;
  const int64_t k = std::max<int64_t>(0, values.slot(nest.axes[k_axis].extent, 1));
  int64_t points = 1;
  for (int d = 0; d < n_loops; ++d) points *= g.dims[d].extent;
  if (points == 0 || m == 0 || n == 0) return {};

  const AccessGeometry a = make_access(nest, nest.matmul.a, values), b = make_access(nest, nest.matmul.b, values);
  MatmulArgs args;
  args.a.dtype = values.program->args[static_cast<size_t>(nest.matmul.a.arg)].dtype;
  args.a.rows = m;
  args.a.cols = k;
  args.a.row_stride = a.stride[shape.row];
  args.a.col_stride = values.slot(nest.matmul.a.strides[k_axis]);
  args.b.dtype = args.a.dtype;
  args.b.rows = k;
  args.b.cols = n;
  args.b.row_stride = values.slot(nest.matmul.b.strides[k_axis]);
  args.b.col_stride = b.stride[shape.first_free];

  // The innermost loops whose strides continue each other are one batch; the rest is walked here.
  int first_batch = n_loops;
  int64_t batch = 1;
  while (first_batch > 0) {
    const int d = first_batch - 1;
    if (first_batch < n_loops) {
      const bool same = a.stride[d] == a.stride[d + 1] * g.dims[d + 1].extent && b.stride[d] == b.stride[d + 1] * g.dims[d + 1].extent;
      if (!same) break;
    }
    batch *= g.dims[d].extent;
    first_batch = d;
  }
  args.batch = batch;
  if (n_loops > 0) {
    args.a_batch_stride = a.stride[n_loops - 1];
    args.b_batch_stride = b.stride[n_loops - 1];
  }

  int16_t psum = -1;
  for (size_t i = 0; i < lanes.accesses.size(); ++i)
    if (lanes.accesses[i].source == AccessSource::kPsum) psum = static_cast<int16_t>(i);
  const int64_t size = psum >= 0 ? static_cast<int64_t>(dtype_size(lanes.accesses[static_cast<size_t>(psum)].dtype)) : 4;

  int64_t outer[kMaxAxes] = {};
  for (int64_t o = 0; o < points / batch; ++o) {
    int64_t rest = o;
    int64_t a_offset = 0, b_offset = 0;
    for (int d = first_batch - 1; d >= 0; --d) {
      outer[d] = rest % g.dims[d].extent;
      rest /= g.dims[d].extent;
      a_offset += outer[d] * a.stride[d];
      b_offset += outer[d] * b.stride[d];
    }
    args.a.data = a.base + a_offset * a.element;
    args.b.data = b.base + b_offset * b.element;
    NAX_RETURN_IF_ERROR(check_matmul(args));
    matmul(args, *launch.pool, [&](int64_t item, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const void* acc, int64_t ld) {
      Arena& task_arena = thread_arena();
      const Arena::Scope task_scope(task_arena);
      TaskErrors errors(launch, task_arena);
      int64_t coords[kMaxAxes];
      std::copy(outer, outer + kMaxAxes, coords);
      for (int d = n_loops - 1; d >= first_batch; --d) {
        coords[d] = item % g.dims[d].extent;
        item /= g.dims[d].extent;
      }
      RowRunArgs run = make_run(launch, g, shape, coords, task_arena);
      run.op_errors = errors.bits();
      if (psum >= 0) {
        AccessRun& access = const_cast<AccessRun*>(run.accesses)[psum];
        access.base = const_cast<char*>(static_cast<const char*>(acc)) - (m0 * ld + n0) * size;
        access.row_stride = ld;
        access.free_stride[0] = 1;
      }
      execute_run(launch, run, m0, m1, n0, n1, task_arena);
    });
  }
  return {};
}

}  // namespace nax
