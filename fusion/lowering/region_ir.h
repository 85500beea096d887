// The values of a region before loops are chosen: SSA nodes in program order over the region's
// frame, and the accesses to HBM that feed and drain them. A store to a buffer followed by a load
// of the same view is forwarded here, so an intermediate that stays on chip has exactly the value
// that a round trip through HBM would give.
#pragma once

#include <cstdint>
#include <vector>

#include "device/base/status.h"
#include "device/isa/program.h"
#include "fusion/frame.h"
#include "fusion/graph.h"
#include "fusion/plan.h"

namespace nax {

using NodeId = int16_t;
inline constexpr NodeId kNoNode = -1;

struct Ref {
  enum class Kind : uint8_t { kNone = 0, kNode = 1, kScalar = 2, kConstant = 3 };
  Kind kind = Kind::kNone;
  int16_t id = -1;  // node, argument, constant
};

enum class NodeKind : uint8_t {
  kLoad = 0,
  kStore = 1,  // src[0] to `access`
  kApply = 2,
  kCopy = 3,    // conversion; also materialises a scalar
  kReduce = 4,  // over the frame's row (kRow) or its reduced dims (kColumn)
  kScan = 5,    // along the frame's row
  kIota = 6,    // src[0] + coordinate * src[1] along root dim `axis` (-1: coordinate 0)
  kPsum = 7,    // the matmul's result
};

struct Node {
  NodeKind kind = NodeKind::kApply;
  ScalarOp fn = ScalarOp::kCopy;
  ReduceFn reduce = ReduceFn::kSum;
  DType dtype = DType::kF32;  // values are rounded to it
  std::array<Ref, 3> src = {};
  int16_t access = -1;
  int8_t axis = -1;
  uint16_t op = 0;  // index in the region
  uint16_t uses = 0;
  bool dead = false;  // a store that a later store overwrites, or of a dead temporary
};

struct Access {
  uint32_t op = 0;  // window op and operand that the argument binds
  uint8_t operand = 0;
  const GraphView* view = nullptr;
  DType dtype = DType::kInvalid;  // of the argument: storage dtypes move as integers of their size
  Span space = Span::kFull;
  DimMap dims = kNoDims;  // view dim of each root dim
  DimMap canon = kNoDims;
  ArgId arg = kNone;
  bool load = false, store = false;
  NodeId index = kNoNode;  // indirect along view dim `index_dim`
  int8_t index_dim = -1;
  int8_t contract_dim = -1;  // of a matmul's operand: the view dim that is summed, part of what is read
  bool accumulate = false;
};

struct RegionMatmul {
  int16_t a = -1, b = -1;     // accesses; dims hold the batch and row (column) dims of the frame
  int8_t a_k = -1, b_k = -1;  // contract dims of the views
  NodeId psum = kNoNode;
  DType dtype = DType::kF32;
  uint16_t op = 0;
};

struct RegionIr {
  Frame frame;
  std::vector<uint32_t> ops;  // window ops, by region index
  std::vector<Node> nodes;    // program order
  std::vector<Access> accesses;
  std::vector<ArgBinding> args;
  std::vector<ArgDecl> decls;
  std::vector<const GraphView*> arg_views;  // null for scalars
  std::vector<ScalarValue> constants;
  bool has_matmul = false;
  RegionMatmul matmul;
  uint8_t pinned = 0;                // bit j: root dims j and j + 1 must not be merged
  std::vector<BufferIndex> dropped;  // dead temporaries that never get memory
};

// Expands the ops of a region over its frame. kInvalidArgument with the reason where accesses
// conflict (the region must end between them), kUnimplemented where an op has no lowering.
StatusOr<RegionIr> build_region(const Graph& graph, const std::vector<uint32_t>& ops,
                                const Frame& frame);

}  // namespace nax
