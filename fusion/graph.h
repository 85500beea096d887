// The pattern of a window: all that a plan may depend on, and nothing else. The window key is its
// serialisation; policies, legality and lowering read it instead of the window, so equal keys give
// equal plans by construction.
//
// Sizes, strides and offsets appear as classes only:
//   value ids   a size, or a product of leading sizes of one shape; equal numbers have equal ids. 0
//   and 1 are themselves. shapes      dims and prefix products as value ids; interned. views
//   canonical regions of a buffer: offset, dtype, and the dims left after dropping those of size 1
//   or stride 0
//               and merging neighbours. Views with one id are the same elements in the same order.
//   canon       per dim of an operand: the canonical dim that holds it, or -1 (size 1 or stride 0).
//   Two neighbouring dims
//               with equal canon may be merged.
// Thread: a Graph is owned by one thread; const access from any.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/op_table.h"
#include "fusion/window.h"

namespace nax {

using ValueId = uint32_t;
inline constexpr ValueId kValueZero = 0, kValueOne = 1, kUnknownValue = ~0u;

struct GraphShape {
  uint8_t rank = 0;
  bool empty = false;  // no elements
  std::array<ValueId, kMaxRank> dim = {};
  std::array<ValueId, kMaxRank> prefix = {};  // product of dims [0, i]
  ValueId elements() const { return rank == 0 ? kValueOne : prefix[rank - 1]; }
};

enum class StrideClass : uint8_t {
  kZero = 0,
  kOne = 1,
  kMany = 2,
  kNegative = 3
};  // kZero also for size 1
enum class AliasClass : uint8_t { kDisjoint = 0, kSame = 1, kOverlapping = 2 };

struct GraphView {
  BufferIndex buffer = -1;
  int32_t view = -1;  // canonical view
  int32_t shape = -1;
  DType dtype = DType::kInvalid;
  uint8_t rank = 0;
  std::array<StrideClass, kMaxRank> stride = {};
  std::array<int8_t, kMaxRank> canon = {};
};

struct GraphOperand {
  OperandClass cls = OperandClass::kAbsent;
  GraphView view;
};

struct GraphOp {
  OpId id = OpId::k_copy;
  DType compute = DType::kInvalid;
  uint8_t input_count = 0, output_count = 0, attr_count = 0;
  uint32_t first_operand = 0, first_attr = 0;
};

struct GraphBuffer {
  bool live_out = true, born_here = false;
  int32_t first_view = -1;  // chain of canonical views, newest first
  uint32_t view_count = 0;
  uint32_t touches = 0;  // operands of the window that name it
  bool written = false;
};

struct GraphCanonicalView {
  BufferIndex buffer = -1;
  int32_t next = -1;  // in the buffer's chain
  bool written = false;
  // Concrete geometry: for interning and alias classes only, never for decisions.
  int64_t offset_bytes = 0;
  DType dtype = DType::kInvalid;
  uint8_t rank = 0;
  std::array<int64_t, kMaxRank> sizes = {}, strides = {};
  int64_t first_byte = 0, last_byte = 0;  // touched range, last exclusive
};

// Whether two views of one buffer may share an element; exact for byte ranges and for rows of one
// pitch.
bool may_overlap(const View& a, const View& b);

class Graph {
 public:
  // Reuses the memory of an earlier analysis.
  void analyze(const Window& window);

  const std::vector<GraphOp>& ops() const { return ops_; }
  const std::vector<GraphBuffer>& buffers() const { return buffers_; }
  const std::vector<GraphCanonicalView>& views() const { return views_; }
  const GraphShape& shape(int32_t id) const { return shapes_[id]; }
  const GraphShape& shape_of(const GraphView& v) const { return shapes_[v.shape]; }
  const GraphOperand& input(const GraphOp& op, int i) const {
    return operands_[op.first_operand + i];
  }
  const GraphOperand& output(const GraphOp& op, int i) const {
    return operands_[op.first_operand + op.input_count + i];
  }
  const GraphOperand& operand(const GraphOp& op, int i) const {
    return operands_[op.first_operand + i];
  }
  int64_t attr(const GraphOp& op, int i) const { return attrs_[op.first_attr + i]; }
  // Class of two canonical views; kDisjoint for different buffers.
  AliasClass alias(int32_t a, int32_t b) const;

  void append_key(std::string* out) const;

 private:
  struct Slot {
    uint32_t generation = 0;
    int32_t id = 0;
    uint64_t hash = 0;
  };
  class Table {
   public:
    void clear();
    template <class Equal>
    int32_t find(uint64_t hash, Equal equal) const;
    void insert(uint64_t hash, int32_t id);

   private:
    void grow();
    std::vector<Slot> slots_;
    uint32_t generation_ = 0;
    size_t used_ = 0;
  };

  ValueId value_id(int64_t number);
  int32_t shape_id(const View& v);
  int32_t view_id(const View& v, GraphView* out);
  void add_view(const View& v, GraphView* out);

  std::vector<GraphOp> ops_;
  std::vector<GraphOperand> operands_;
  std::vector<int64_t> attrs_;
  std::vector<GraphShape> shapes_;
  std::vector<std::array<int64_t, kMaxRank>> shape_sizes_;
  std::vector<GraphBuffer> buffers_;
  std::vector<GraphCanonicalView> views_;
  std::vector<int64_t> values_;
  std::vector<const View*> recent_;  // last operand a buffer was seen with
  std::vector<uint32_t> recent_operand_;
  Table value_table_, shape_table_, view_table_;
};

}  // namespace nax
