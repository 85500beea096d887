#include "device/interpreter/geometry.h"

#include <algorithm>
#include <new>
#include <utility>

namespace nax {

int64_t Geometry::points() const {
  int64_t n = 1;
  for (int d = 0; d < n_dims; ++d) n *= dims[d].extent;
  return n;
}

void Geometry::swap_dims(int a, int b) {
  std::swap(dims[a], dims[b]);
  for (int i = 0; i < n_access; ++i) std::swap(access[i].stride[a], access[i].stride[b]);
  for (int d = 0; d < n_dims; ++d) {
    int& outer = dims[d].split_outer;
    outer = outer == a ? b : outer == b ? a : outer;
  }
}

void Geometry::erase_dim(int d) {
  for (int k = d; k + 1 < n_dims; ++k) dims[k] = dims[k + 1];
  for (int i = 0; i < n_access; ++i)
    for (int k = d; k + 1 < n_dims; ++k) access[i].stride[k] = access[i].stride[k + 1];
  --n_dims;
  for (int k = 0; k < n_dims; ++k)
    if (dims[k].split_outer > d) --dims[k].split_outer;
}

void Geometry::merge() {
  const auto resolve_single = [&] {
    // An outer dimension with one point makes its inner one plain.
    for (int d = 0; d < n_dims; ++d) {
      const int o = dims[d].split_outer;
      if (o < 0 || dims[o].extent != 1) continue;
      dims[d].extent = dims[d].points(0);
      dims[d].split_outer = -1;
    }
  };
  const auto referenced = [&](int d) {
    for (int k = 0; k < n_dims; ++k)
      if (dims[k].split_outer == d) return true;
    return false;
  };
  resolve_single();
  for (int d = 0; d < n_dims;) {
    if (dims[d].extent == 1 && dims[d].split_outer < 0 && !referenced(d)) erase_dim(d);
    else ++d;
  }
  for (int d = n_dims - 2; d >= 0; --d) {
    Dim &o = dims[d], &i = dims[d + 1];
    if (o.group != i.group || o.split_outer >= 0 || referenced(d + 1)) continue;
    const bool split = i.split_outer == d;
    if (!split && (i.split_outer >= 0 || referenced(d))) continue;
    if (split) {
      int users = 0;
      for (int k = 0; k < n_dims; ++k) users += dims[k].split_outer == d;
      if (users != 1) continue;
    }
    bool same = true;
    for (int a = 0; a < n_access && same; ++a) same = access[a].stride[d] == access[a].stride[d + 1] * i.extent;
    if (!same) continue;
    const int64_t all = o.extent * i.extent;
    o.extent = split ? std::clamp<int64_t>(i.limit, 0, all) : all;
    o.kind = std::max(o.kind, i.kind);
    o.role = i.role;
    for (int a = 0; a < n_access; ++a) access[a].stride[d] = access[a].stride[d + 1];
    i.split_outer = -1;
    erase_dim(d + 1);
  }
}

AccessGeometry make_access(const Nest& nest, const HbmAccess& hbm, const LaunchValues& launch) {
  AccessGeometry g;
  const ArgValue& arg = launch.args[hbm.arg];
  const ArgDecl& decl = launch.program->args[hbm.arg];
  g.element = static_cast<int64_t>(dtype_size(decl.dtype));
  g.base = static_cast<char*>(arg.data) + arg.offset_bytes + launch.slot(hbm.offset) * g.element;
  int d = 0;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (nest.axes[a].role != AxisRole::kContract) g.stride[d++] = launch.slot(hbm.strides[a]);
  if (hbm.index != kNone) {
    g.index_stride = launch.slot(hbm.index_stride);
    g.index_size = launch.slot(hbm.index_size);
  }
  return g;
}

Geometry make_geometry(const Nest& nest, const LaneProgram& lanes, const LaunchValues& launch, Arena& arena) {
  Geometry g;
  int dim_of_axis[kMaxAxes];
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    const Axis& axis = nest.axes[a];
    dim_of_axis[a] = -1;
    if (axis.role == AxisRole::kContract) continue;
    dim_of_axis[a] = g.n_dims;
    Dim& d = g.dims[g.n_dims++];
    d.extent = std::max<int64_t>(0, launch.slot(axis.extent, 1));
    d.role = axis.role;
    d.kind = axis.kind;
    if (axis.split_outer != kNone) {
      d.split_outer = dim_of_axis[axis.split_outer];
      d.limit = launch.slot(axis.split_limit);
    }
  }
  g.n_access = static_cast<int>(lanes.accesses.size());
  g.access = arena.allocate_array<AccessGeometry>(lanes.accesses.size() + 2);
  for (int i = 0; i < g.n_access; ++i) {
    const LaneAccess& access = lanes.accesses[i];
    AccessGeometry& a = *new (&g.access[i]) AccessGeometry();
    switch (access.source) {
      case AccessSource::kHbm: a = make_access(nest, access.hbm, launch); break;
      case AccessSource::kIndex: {
        a.element = 0;
        if (access.id >= 0) {
          a.stride[dim_of_axis[access.id]] = 1;
          break;
        }
        a.index = launch.slot(access.hbm.offset);
        for (size_t x = 0; x < nest.axes.size(); ++x)
          if (dim_of_axis[x] >= 0) a.stride[dim_of_axis[x]] = launch.slot(access.hbm.strides[x]);
        break;
      }
      case AccessSource::kPsum:
      case AccessSource::kAccumulator:
        a.element = static_cast<int64_t>(dtype_size(access.dtype));
        break;
    }
    a.full = access.shape == TileShape::kFull;
  }
  return g;
}

}  // namespace nax
