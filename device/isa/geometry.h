// Sizes of a nest with concrete slots: what capacity checks and the timing expansion share. Pure.
#pragma once

#include <cstdint>

#include "device/isa/program.h"

namespace nax {

// Points of an axis where it is longest; never negative. A split axis is no longer than its limit.
int64_t axis_extent(const Nest& nest, AxisId axis, const int64_t* slots);

// Elements of all free axes together (1 without any), and of the largest tile of them.
int64_t free_extent(const Nest& nest, const int64_t* slots);
int64_t free_tile(const Nest& nest, const int64_t* slots);

// Bytes of a tile in each partition that it occupies; saturates.
int64_t tile_partition_bytes(const Nest& nest, const Tile& tile, const int64_t* slots);

}  // namespace nax
