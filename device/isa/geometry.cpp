#include "device/isa/geometry.h"

#include <algorithm>

#include "device/isa/slots.h"

namespace nax {

int64_t axis_extent(const Nest& nest, AxisId axis, const int64_t* slots) {
  const Axis& a = nest.axes[axis];
  int64_t extent = slots[a.extent];
  if (a.split_outer != kNone) extent = std::min(extent, slots[a.split_limit]);
  return std::max<int64_t>(extent, 0);
}

int64_t free_extent(const Nest& nest, const int64_t* slots) {
  int64_t product = 1;
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    if (nest.axes[i].role != AxisRole::kFree) continue;
    product =
        slot_arithmetic(SlotOp::kMul, product, axis_extent(nest, static_cast<AxisId>(i), slots));
  }
  return product;
}

int64_t free_tile(const Nest& nest, const int64_t* slots) {
  int64_t tile = free_extent(nest, slots);
  for (const Axis& a : nest.axes)
    if (a.tile != kNoSlot) tile = std::min(tile, std::max<int64_t>(slots[a.tile], 1));
  return tile;
}

int64_t tile_partition_bytes(const Nest& nest, const Tile& tile, const int64_t* slots) {
  const auto size = static_cast<int64_t>(dtype_size(tile.dtype));
  const bool spans_free = tile.shape == TileShape::kFull || tile.shape == TileShape::kColumn;
  return spans_free ? slot_arithmetic(SlotOp::kMul, free_tile(nest, slots), size) : size;
}

}  // namespace nax
