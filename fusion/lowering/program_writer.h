// Writes the nests of one program from a region's values: sizes and strides as slots, tiles,
// instructions.
#pragma once

#include <string>
#include <vector>

#include "device/isa/slots.h"
#include "device/targets/target.h"
#include "fusion/lowering/region_ir.h"

namespace nax {

// Neighbouring root dims that every access of a nest walks as one.
struct Group {
  int first = 0, last = 0;
  bool row = false;
};

class ProgramWriter {
 public:
  ProgramWriter(const Graph& graph, const RegionIr& ir, const TargetInfo& target,
                const std::string& name);

  const RegionIr& ir() const { return ir_; }
  const TargetInfo& target() const { return target_; }
  Program& program() { return program_; }
  SlotBuilder& slots() { return slots_; }

  // Number of points of root dims [first, last].
  SlotId size(int first, int last);
  SlotId size(const Group& g) { return size(g.first, g.last); }
  SlotId size(const std::vector<Group>& groups);
  // Elements that one step of root dim `j` moves an access; kNoSlot where it does not move.
  SlotId stride(const Access& access, int j);
  ArgId scratch(DType dtype, SlotId elements);

  // Groups of root dims for the nodes' accesses; never across the row's edge or a pinned dim.
  std::vector<Group> collapse(const std::vector<NodeId>& nodes) const;

  StatusOr<Program> finish();
  void fail(Status s) {
    if (status_.ok()) status_ = std::move(s);
  }

 private:
  SlotId root_size(int j);
  // A slot that holds the number behind a value id, from any view argument; kNoSlot where none has
  // it.
  SlotId find(ValueId value);
  SlotId try_size(int first, int last);

  const Graph& graph_;
  const RegionIr& ir_;
  const TargetInfo& target_;
  Program program_;
  SlotBuilder slots_;
  Status status_;
};

// A value that an earlier nest put into scratch: how this nest reads it.
struct ScratchValue {
  HbmAccess access;
  DType dtype = DType::kF32;
};

class NestWriter {
 public:
  explicit NestWriter(ProgramWriter& writer);

  // Adds an axis whose coordinate moves root dim `root` by `factor` (kNoSlot: 1) steps; root -1:
  // none.
  AxisId add_axis(AxisRole role, SlotId extent, int root = -1, SlotId factor = kNoSlot,
                  LoopKind kind = LoopKind::kParallel);
  AxisId add_axis(AxisRole role, const Group& g, LoopKind kind = LoopKind::kParallel);
  Axis& axis(AxisId id) { return nest_.axes[id]; }
  Nest& nest() { return nest_; }

  // `node` is read from scratch instead of being computed here.
  void use_scratch(NodeId node, const ScratchValue& value);
  // Tiles are not reused after their last use in `emit`: reductions and scratch stores that follow
  // read them.
  void keep_to_end() { keep_ = true; }
  // Emits nodes in order.
  void emit(const std::vector<NodeId>& nodes);
  void emit_finish(const std::vector<NodeId>& nodes);
  // Stores a node's value to scratch, in `finish` or the body.
  void store_scratch(NodeId node, const HbmAccess& access, bool in_finish);
  void store_scratch_full(NodeId node, const HbmAccess& access);
  // A reduction along free (row or tree order) or partitions, into a tile of `dtype`.
  void emit_reduce(NodeId node, ReduceOrder order, DType dtype);
  // Loads a partial from scratch as the operand of a reduction.
  void emit_tree(NodeId node, const HbmAccess& access, DType partial);

  HbmAccess access(const Access& a);
  int64_t bytes_per_free_element() const;
  // Sets the free axis's tile: as long as fits twice, in multiples of `unit`.
  void set_free_tile(AxisId axis, int64_t unit);
  // Appends the nest to the program.
  void close();

 private:
  struct TileUse {
    TileId tile = kNone;
    TileId full = kNone;  // broadcast copy
  };
  TileId new_tile(DType dtype, TileShape shape);
  TileShape shape_of(NodeId node) const;
  TileShape access_shape(const Access& a) const;
  Operand operand(const Ref& r);
  TileId as_shape(NodeId node, TileShape shape);
  void emit_node(NodeId id);
  void release(NodeId node);
  void count_uses(const std::vector<NodeId>& nodes);
  Instr instr(Opcode opcode, const Node& n) const;
  void push(const Instr& i) { (in_finish_ ? nest_.finish : nest_.body).push_back(i); }

  ProgramWriter& w_;
  const RegionIr& ir_;
  Nest nest_;
  std::array<int8_t, kMaxAxes> root_of_axis_;
  std::array<SlotId, kMaxAxes> factor_of_axis_;
  std::vector<TileUse> tiles_;      // by node
  std::vector<int> remaining_;      // uses of a node still to come
  std::vector<TileId> free_tiles_;  // kFull tiles without a live value
  std::vector<std::pair<NodeId, ScratchValue>> scratch_;
  bool in_finish_ = false, keep_ = false;
};

}  // namespace nax
