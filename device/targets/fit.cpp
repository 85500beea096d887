#include "device/targets/fit.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "device/isa/geometry.h"
#include "device/isa/slots.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"

namespace nax {
namespace {

std::string num(int64_t v) { return std::to_string(v); }

Status misfit(std::string message, StatusCode code = StatusCode::kInvalidArgument) {
  return {code, std::move(message), ErrorReason::kVerifyFailed};
}

int64_t mul(int64_t a, int64_t b) { return slot_arithmetic(SlotOp::kMul, a, b); }
int64_t add(int64_t a, int64_t b) { return slot_arithmetic(SlotOp::kAdd, a, b); }
int64_t ceil_div(int64_t a, int64_t b) { return slot_arithmetic(SlotOp::kCeilDiv, a, b); }

// First and last position of the straight line body + finish at which a tile is alive; {-1, -1} if
// it never is.
struct Life {
  int first = -1, last = -1;
};

std::vector<Life> lives(const Nest& nest) {
  std::vector<Life> life(nest.tiles.size());
  int at = 0;
  auto touch = [&](int16_t tile) {
    if (tile < 0) return;
    if (life[tile].first < 0) life[tile].first = at;
    life[tile].last = at;
  };
  if (nest.has_matmul) touch(nest.matmul.psum);
  const bool over_tiles = has_free_tiles(nest) || carries_partition(nest);
  for (const std::vector<Instr>* list : {&nest.body, &nest.finish}) {
    for (const Instr& i : *list) {
      ++at;
      touch(i.dst);
      for (const Operand& o : i.src)
        if (o.kind == OperandKind::kTile) touch(o.id);
      touch(i.hbm.index);
      // A reduction over tiles keeps its result through the whole loop.
      const bool reduction =
          i.opcode == Opcode::kTensorReduce || i.opcode == Opcode::kPartitionReduce;
      if (over_tiles && reduction && list == &nest.body) {
        life[i.dst].first = 0;
        life[i.dst].last = std::max(life[i.dst].last, static_cast<int>(nest.body.size()));
      }
    }
  }
  return life;
}

Status check_sbuf(const Nest& nest, const int64_t* slots, const TargetInfo& target) {
  const std::vector<Life> life = lives(nest);
  const int positions = static_cast<int>(nest.body.size() + nest.finish.size()) + 1;
  int64_t peak = -1;
  int peak_at = 0;
  // A matmul stages one step of its operands next to the tiles.
  int64_t staged = 0;
  if (nest.has_matmul) {
    const auto size = static_cast<int64_t>(dtype_size(nest.tiles[nest.matmul.psum].dtype));
    staged =
        mul(std::min<int64_t>(free_tile(nest, slots), target.pe_moving) + target.pe_columns, size);
  }
  for (int at = 0; at < positions; ++at) {
    int64_t bytes = staged;
    for (size_t t = 0; t < nest.tiles.size(); ++t) {
      if (nest.tiles[t].space != Space::kSbuf || life[t].first < 0 || at < life[t].first ||
          at > life[t].last)
        continue;
      bytes = add(bytes, tile_partition_bytes(nest, nest.tiles[t], slots));
    }
    if (bytes > peak) {
      peak = bytes;
      peak_at = at;
    }
  }
  if (peak <= target.sbuf_usable_partition_bytes) return {};
  std::string tiles;
  for (size_t t = 0; t < nest.tiles.size(); ++t) {
    if (nest.tiles[t].space != Space::kSbuf || peak_at < life[t].first || peak_at > life[t].last)
      continue;
    tiles += (tiles.empty() ? "" : ", ") + ("t" + num(static_cast<int64_t>(t))) + " " +
             std::string(dtype_name(nest.tiles[t].dtype)) + " " +
             num(tile_partition_bytes(nest, nest.tiles[t], slots)) + " bytes";
  }
  return misfit(
      "SBUF needs " + num(peak) + " bytes a partition, " + std::string(target.name) + " allows " +
      num(target.sbuf_usable_partition_bytes) + "; tiles that live at once: " + tiles +
      (staged ? ", matmul operands " + num(staged) + " bytes" : "") +
      "; use a smaller tile of the free axis (" + num(free_tile(nest, slots)) + " elements now)");
}

Status check_psum(const Nest& nest, const int64_t* slots, const TargetInfo& target) {
  if (!nest.has_matmul) return {};
  const Tile& t = nest.tiles[nest.matmul.psum];
  const int64_t banks = ceil_div(tile_partition_bytes(nest, t, slots), target.psum_bank_bytes);
  if (banks <= target.psum_banks) return {};
  return misfit("PSUM needs " + num(banks) + " banks for t" + num(nest.matmul.psum) + " " +
                std::string(dtype_name(t.dtype)) + " with " + num(free_tile(nest, slots)) +
                " elements, " + std::string(target.name) + " has " + num(target.psum_banks) +
                " of " + num(target.psum_bank_bytes) +
                " bytes a partition; use a smaller tile of " + "the free axis");
}

Status check_axes(const Nest& nest, const int64_t* slots) {
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    const Axis& a = nest.axes[i];
    const std::string who = "axis " + axis_text(nest, static_cast<AxisId>(i)) + ": ";
    if (slots[a.extent] < 0) return misfit(who + "extent " + num(slots[a.extent]) + " is negative");
    if (a.tile != kNoSlot && slots[a.tile] < 1)
      return misfit(who + "tile size " + num(slots[a.tile]) + ", at least 1");
    if (a.split_outer == kNone) continue;
    const int64_t limit = slots[a.split_limit], outer = slots[nest.axes[a.split_outer].extent];
    if (limit < 0 || mul(outer, slots[a.extent]) < limit) {
      return misfit(who + num(outer) + " parts of " + num(slots[a.extent]) +
                    " do not cover the split's limit " + num(limit));
    }
  }
  return {};
}

Status check_extents(const Nest& nest, const int64_t* slots) {
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    const int64_t extent = slots[nest.axes[i].extent];
    if (extent > kMaxExtent)
      return misfit("axis " + axis_text(nest, static_cast<AxisId>(i)) + ": extent " + num(extent) +
                    ", at most " + num(kMaxExtent));
  }
  return {};
}

Status check_reductions(const Program& p, const Nest& nest, const int64_t* slots) {
  const int64_t row = free_extent(nest, slots);
  for (const Axis& a : nest.axes) {
    if (a.tile == kNoSlot || slots[a.tile] >= row || slots[a.tile] % kRowChunk == 0) continue;
    for (const Instr& i : nest.body) {
      if (i.opcode != Opcode::kTensorReduce) continue;
      return misfit("the free axis has tiles of " + num(slots[a.tile]) + " elements; " +
                    instr_text(p, nest, i) + " needs multiples of " + num(kRowChunk));
    }
  }
  const AxisId partition = partition_axis(nest);
  const int64_t rows = partition == kNone ? 1 : axis_extent(nest, partition, slots);
  for (const std::vector<Instr>* list : {&nest.body, &nest.finish}) {
    for (const Instr& i : *list) {
      if (i.reduce != ReduceFn::kSum && i.reduce != ReduceFn::kProd)
        continue;  // the others have no order
      const bool along_row = i.opcode == Opcode::kTensorReduce && i.order == ReduceOrder::kRow;
      const bool along_column =
          i.opcode == Opcode::kPartitionReduce && i.order == ReduceOrder::kColumn;
      const int64_t length = along_row ? row : along_column ? rows : 0;
      if (length <= kReduceBlock) continue;
      return misfit(instr_text(p, nest, i) + " reduces " + num(length) +
                    " elements in one go; above " + num(kReduceBlock) + " reduce blocks of " +
                    num(kReduceBlock) + " to scratch, then these in order tree");
    }
  }
  return {};
}

// Smallest and largest value of an affine form over a nest's iteration space.
struct Range {
  int64_t low = 0, high = 0;
  void extend(int64_t stride, int64_t extent) {  // adds c * stride for c in [0, extent)
    const int64_t reach = mul(stride, extent - 1);
    (reach < 0 ? low : high) = add(reach < 0 ? low : high, reach);
  }
};

// The pair of a split: full outer parts, then a shorter one; the extremes are at corners of the two
// rectangles.
void extend_split(Range* r, int64_t outer_stride, int64_t outer, int64_t inner_stride,
                  int64_t inner, int64_t limit) {
  const int64_t full = std::min(outer, inner == 0 ? 0 : limit / inner);
  const int64_t rest = full < outer ? limit - full * inner : 0;
  int64_t low = 0, high = 0;
  auto corner = [&](int64_t o, int64_t i) {
    const int64_t v = add(mul(outer_stride, o), mul(inner_stride, i));
    low = std::min(low, v);
    high = std::max(high, v);
  };
  for (const int64_t o : {int64_t{0}, full - 1})
    for (const int64_t i : {int64_t{0}, inner - 1})
      if (full > 0) corner(o, i);
  if (rest > 0) {
    corner(full, 0);
    corner(full, rest - 1);
  }
  r->low = add(r->low, low);
  r->high = add(r->high, high);
}

Range reach(const Nest& nest, const HbmAccess& h, const int64_t* slots) {
  Range r;
  auto stride = [&](size_t axis) {
    return h.strides[axis] == kNoSlot ? int64_t{0} : slots[h.strides[axis]];
  };
  std::vector<bool> done(nest.axes.size(), false);
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    const Axis& a = nest.axes[i];
    if (a.split_outer == kNone) continue;
    const auto outer = static_cast<size_t>(a.split_outer);
    extend_split(&r, stride(outer), slots[nest.axes[outer].extent], stride(i), slots[a.extent],
                 slots[a.split_limit]);
    done[i] = done[outer] = true;
  }
  for (size_t i = 0; i < nest.axes.size(); ++i)
    if (!done[i]) r.extend(stride(i), slots[nest.axes[i].extent]);
  if (h.index != kNone) r.extend(slots[h.index_stride], std::max<int64_t>(slots[h.index_size], 1));
  const int64_t offset = h.offset == kNoSlot ? 0 : slots[h.offset];
  return {add(r.low, offset), add(r.high, offset)};
}

Status check_access(const Program& p, const Nest& nest, const HbmAccess& h, const int64_t* slots,
                    const ArgBounds* bounds) {
  const ArgDecl& arg = p.args[h.arg];
  const auto size = static_cast<int64_t>(dtype_size(arg.dtype));
  const Range r = reach(nest, h, slots);
  const std::string name = "a" + num(h.arg);
  int64_t first = 0, last = 0;  // elements of the argument that may be touched
  if (arg.kind == ArgKind::kScratch) {
    last = slots[arg.scratch_elements] - 1;
  } else {
    const ArgBounds& b = bounds[h.arg];
    if (b.offset_bytes < 0 || b.offset_bytes % size != 0) {
      return misfit(name + ": offset of " + num(b.offset_bytes) +
                        " bytes is not a multiple of the element's " + num(size),
                    StatusCode::kOutOfRange);
    }
    first = -(b.offset_bytes / size);
    last = (b.buffer_bytes - b.offset_bytes) / size - 1;
    if (b.buffer_bytes < b.offset_bytes) last = -1;
  }
  if (r.low >= first && r.high <= last) return {};
  return misfit(name + ": touches elements " + num(r.low) + " to " + num(r.high) +
                    ", allowed are " + num(first) + " to " + num(last),
                StatusCode::kOutOfRange);
}

bool is_empty(const Nest& nest, const int64_t* slots) {
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    // Without points along k a matmul still writes zeros.
    if (nest.axes[i].role == AxisRole::kContract) continue;
    if (axis_extent(nest, static_cast<AxisId>(i), slots) == 0) return true;
  }
  return false;
}

}  // namespace

Status check_fit(const Program& p, const int64_t* slots, const TargetInfo& target) {
  for (size_t n = 0; n < p.nests.size(); ++n) {
    const Nest& nest = p.nests[n];
    Status s = check_axes(nest, slots);
    if (s.ok() && !is_empty(nest, slots)) s = check_extents(nest, slots);
    if (s.ok()) s = check_reductions(p, nest, slots);
    if (s.ok()) s = check_sbuf(nest, slots, target);
    if (s.ok()) s = check_psum(nest, slots, target);
    if (!s.ok()) return std::move(s).with_context("nest " + num(static_cast<int64_t>(n)));
  }
  for (size_t a = 0; a < p.args.size(); ++a) {
    if (p.args[a].kind == ArgKind::kScratch && slots[p.args[a].scratch_elements] < 0) {
      return misfit("argument a" + num(static_cast<int64_t>(a)) + ": " +
                    num(slots[p.args[a].scratch_elements]) + " elements of scratch");
    }
  }
  return {};
}

Status check_bounds(const Program& p, const int64_t* slots, const ArgBounds* bounds) {
  for (size_t n = 0; n < p.nests.size(); ++n) {
    const Nest& nest = p.nests[n];
    if (is_empty(nest, slots)) continue;
    NAX_RETURN_IF_ERROR(check_axes(nest, slots));
    auto context = [&](Status s, const std::string& what) {
      return std::move(s).with_context("nest " + num(static_cast<int64_t>(n)) + ", " + what);
    };
    if (nest.has_matmul) {
      bool no_k = false;
      for (size_t i = 0; i < nest.axes.size(); ++i)
        no_k |= nest.axes[i].role == AxisRole::kContract &&
                axis_extent(nest, static_cast<AxisId>(i), slots) == 0;
      for (const HbmAccess* h : {&nest.matmul.a, &nest.matmul.b}) {
        if (no_k) continue;
        Status s = check_access(p, nest, *h, slots, bounds);
        if (!s.ok()) return context(std::move(s), matmul_text(p, nest));
      }
    }
    for (const std::vector<Instr>* list : {&nest.body, &nest.finish}) {
      for (const Instr& i : *list) {
        if (i.opcode != Opcode::kDmaLoad && i.opcode != Opcode::kDmaStore) continue;
        Status s = check_access(p, nest, i.hbm, slots, bounds);
        if (!s.ok()) return context(std::move(s), instr_text(p, nest, i));
      }
    }
  }
  return {};
}

}  // namespace nax
