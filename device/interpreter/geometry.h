// The iteration space of one launch of a nest: axis extents and access strides as numbers, dimensions merged where every
// access allows. Lives in an arena for the time of the launch.
#pragma once

#include <cstdint>

#include "device/interpreter/arena.h"
#include "device/interpreter/lane_program.h"

namespace nax {

struct Dim {
  int64_t extent = 1;
  AxisRole role = AxisRole::kLoop;
  LoopKind kind = LoopKind::kParallel;
  int group = 0;            // only dimensions of one group merge
  int split_outer = -1;     // ragged: points at coordinate o of that dimension: clamp(limit - o * extent, 0, extent)
  int64_t limit = 0;
  // Points at an outer coordinate.
  int64_t points(int64_t outer) const {
    const int64_t left = limit - outer * extent;
    return left < 0 ? 0 : left < extent ? left : extent;
  }
};

struct AccessGeometry {
  char* base = nullptr;     // null: virtual
  int64_t index = 0;
  int64_t element = 1;      // bytes of an element; 0 for virtual accesses
  int64_t stride[kMaxAxes] = {};  // by dimension
  int64_t index_stride = 0, index_size = 0;
  bool full = true;         // of a kFull value
};

struct Geometry {
  int n_dims = 0;
  Dim dims[kMaxAxes];
  int n_access = 0;
  AccessGeometry* access = nullptr;

  int64_t points() const;   // product of extents (the most there can be)
  bool empty() const { return points() == 0; }
  void swap_dims(int a, int b);
  void erase_dim(int d);    // its coordinate is always 0
  // Removes dimensions of extent 1 and merges neighbours of one group.
  void merge();
};

// Numbers of one launch, shared by its nests.
struct LaunchValues {
  const Program* program = nullptr;
  const ArgValue* args = nullptr;  // scratch cells already filled in
  const int64_t* slots = nullptr;
  int64_t slot(SlotId id, int64_t missing = 0) const { return id == kNoSlot ? missing : slots[id]; }
};

// All axes but the contracted one, one dimension each, in order; groups are left at 0.
Geometry make_geometry(const Nest& nest, const LaneProgram& lanes, const LaunchValues& launch, Arena& arena);
// One access with its strides in the dimensions of make_geometry.
AccessGeometry make_access(const Nest& nest, const HbmAccess& hbm, const LaunchValues& launch);

}  // namespace nax
