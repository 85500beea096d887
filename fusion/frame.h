// The iteration space that the ops of a region share: a root shape without dims of size 1, of which
// some dims may form the "row" that reductions run over. Other shapes are placed on the root by
// their prefix products, so [B*T, C] lies on [B, T, C]. Decides what can stand in one region;
// lowering then builds nests over it. Pure functions of the graph.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fusion/graph.h"

namespace nax {

enum class RegionKind : uint8_t {
  kPointwise = 0,
  kRow = 1,     // row reductions: outer dims, then the row
  kColumn = 2,  // column reductions: pointwise producers, then the sums
  kMatmul = 3,  // one matmul and the pointwise chain on its output
  kSolo = 4,    // indexing, scans, ops without elements: alone
};

// Which dims of the frame an operand spans: all, or all but the row.
enum class Span : uint8_t { kFull = 0, kRow = 1 };

// For each root dim: a dim of something else, or -1.
using DimMap = std::array<int8_t, kMaxRank>;
inline constexpr DimMap kNoDims = {-1, -1, -1, -1, -1, -1};

struct Frame {
  RegionKind kind = RegionKind::kPointwise;
  int32_t root = -1;  // shape
  int rank = 0;       // its dims of size other than 1
  uint8_t row = 0;    // bit j: root dim j belongs to the row
  std::array<ValueId, kMaxRank> dim = {};
  std::array<ValueId, kMaxRank> prefix = {};
  // Prefix products of the outer dims alone, where a shape that has them is known.
  std::array<ValueId, kMaxRank> outer_prefix = {kUnknownValue, kUnknownValue, kUnknownValue,
                                                kUnknownValue, kUnknownValue, kUnknownValue};
};

// Root dim -> dim of `shape`. False where the shape does not lie on the frame.
bool place_shape(const GraphShape& shape, const Frame& frame, Span space, DimMap* out);

// The reduced (or normalized) dims of a reduction or row op, as a mask over the dims of input 0.
uint8_t reduced_dims(const Graph& graph, const GraphOp& op);
// Row rule: the last dim (of those with a size other than 1) is reduced, or the op is a row op.
bool is_row_rule(const Graph& graph, const GraphOp& op);
// The shape of the op's full space: the output's, or the input's of a reduction.
int32_t full_shape(const Graph& graph, const GraphOp& op);

// Where an operand of a region's op lies: its space, the view's dim for each root dim (-1:
// broadcast or not spanned), and the canonical dim likewise. False for operands that are not
// aligned to the frame (of matmuls and indexing).
struct Placement {
  Span space = Span::kFull;
  DimMap dims = kNoDims;
  DimMap canon = kNoDims;
};
bool place_operand(const Graph& graph, const GraphOp& op, int operand, const Frame& frame,
                   Placement* out);

// Grows a frame op by op.
class RegionFrame {
 public:
  // Takes the op in, or leaves everything as it was and says why not (static text).
  bool admit(const Graph& graph, uint32_t op, const char** reason);
  const Frame& frame() const { return frame_; }
  size_t op_count() const { return count_; }

 private:
  bool fits(const Graph& graph, const Frame& frame, uint32_t op) const;
  size_t count_ = 0;
  Frame frame_;
  std::vector<uint32_t> samples_;  // one op of each (kind, shapes): to check a changed frame
};

// The first op's frame alone.
Frame frame_of_op(const Graph& graph, const GraphOp& op);

}  // namespace nax
