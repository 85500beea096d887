// Moving blocks of rows x free elements between strided memory and packed strips: broadcast, transposed, indirect.
#pragma once

#include <cstdint>

#include "device/interpreter/lane_program.h"
#include "device/scalar/strip.h"

namespace nax {

// One access of a run. `linear`: along the linearised free axis the elements lie `inner` apart.
struct BlockAccess {
  char* base = nullptr;
  int64_t index = 0;
  int64_t row_stride = 0;
  int64_t inner = 0;
  bool linear = true;
  int n_free = 1;
  const int64_t* free_stride = nullptr;
  const int64_t* free_extent = nullptr;
  int64_t index_stride = 0, index_size = 0;
};

BlockAccess make_block_access(const AccessRun& run, int n_free, const int64_t* free_extent);

// Rows [p, p + rows) x free [f, f + width), packed as rows x width.
struct Block {
  int64_t p = 0, rows = 1, f = 0, width = 0;
  int64_t count() const { return rows * width; }
};

// The block is one piece of memory with stride 1.
inline bool is_contiguous(const BlockAccess& a, int64_t rows, int64_t width) {
  return a.linear && ((a.inner == 1 || width == 1) && (rows == 1 || a.row_stride == width));
}
inline bool is_uniform(const BlockAccess& a) { return a.linear && a.inner == 0 && a.row_stride == 0; }
// Memory runs along the rows.
inline bool is_transposed(const BlockAccess& a) {
  return a.linear && a.row_stride == 1 && a.inner != 0 && a.inner != 1;
}

// Calls fn(offset in the strip, offset in memory, stride, length) for each piece of a block, in strip order.
template <class F>
void for_pieces(const BlockAccess& a, const Block& b, F&& fn) {
  if (a.linear) {
    const int64_t first = b.p * a.row_stride + b.f * a.inner;
    if (b.rows == 1 || a.row_stride == b.width * a.inner) {
      fn(int64_t{0}, first, a.inner, b.count());
    } else if (b.width == 1) {
      fn(int64_t{0}, first, a.row_stride, b.rows);
    } else {
      for (int64_t r = 0; r < b.rows; ++r) fn(r * b.width, first + r * a.row_stride, a.inner, b.width);
    }
    return;
  }
  const int last = a.n_free - 1;
  int64_t start[kMaxFreeDims];
  int64_t rest = b.f;
  for (int d = last; d >= 0; --d) {
    start[d] = rest % a.free_extent[d];
    rest /= a.free_extent[d];
  }
  for (int64_t r = 0; r < b.rows; ++r) {
    int64_t c[kMaxFreeDims];
    int64_t offset = (b.p + r) * a.row_stride;
    for (int d = 0; d <= last; ++d) {
      c[d] = start[d];
      offset += c[d] * a.free_stride[d];
    }
    int64_t done = 0;
    while (done < b.width) {
      const int64_t room = a.free_extent[last] - c[last];
      const int64_t length = room < b.width - done ? room : b.width - done;
      fn(r * b.width + done, offset, a.free_stride[last], length);
      done += length;
      if (done == b.width) break;
      offset -= c[last] * a.free_stride[last];
      c[last] = 0;
      for (int d = last - 1; d >= 0; --d) {
        offset += a.free_stride[d];
        if (++c[d] < a.free_extent[d]) break;
        offset -= c[d] * a.free_stride[d];
        c[d] = 0;
      }
    }
  }
}

// Memory -> strip. `temp` has room for the block in memory's type. `fill`: lanes already in memory's representation.
void load_block(const BlockAccess& a, const Block& b, LoadFn load, int memory_size, int lane_size, void* lanes, void* temp);
void store_block(const BlockAccess& a, const Block& b, StoreFn store, int memory_size, int lane_size, const void* lanes,
                 void* temp);

// Where the indices of an indirect access come from.
struct IndexSource {
  const int64_t* values = nullptr;
  enum class Per : uint8_t { kElement, kRow, kBlock } per = Per::kElement;
};
// Out of range: sets kOpIndexOutOfRange in *errors; a load takes index 0 (or zero where there is none), a store is dropped.
void load_indirect(const BlockAccess& a, const Block& b, const IndexSource& index, LoadFn load, int memory_size,
                   int lane_size, void* lanes, void* temp, uint8_t* errors);

// A store by pieces; with `combine`: memory = round(memory + value), one element after the other.
struct StoreSpec {
  LoadFn load = nullptr;
  StoreFn store = nullptr;
  CombineFn combine = nullptr;  // null: plain store
  RoundFn round = nullptr;
  int memory_size = 4, lane_size = 4;
};
void store_indirect(const BlockAccess& a, const Block& b, const IndexSource* index, const StoreSpec& spec,
                    const void* lanes, void* temp, uint8_t* errors);

}  // namespace nax
