// Shared by the sources of the expansion. Private to device/timing.
#pragma once

#include <string>
#include <vector>

#include "device/timing/expand.h"

namespace nax {

// Sizes of the tile that a step works on.
struct TileSize {
  int64_t partitions = 1;
  int64_t free = 1;
};

// a * b, at most 4 TiB: no step moves more, and sums of steps stay far from overflow.
int64_t step_bytes(int64_t a, int64_t b);

class NestExpander {
 public:
  NestExpander(const Program& program, const Nest& nest, const int64_t* slots,
               const TargetInfo& target, bool with_text);
  Expansion run();

 private:
  enum Dep : uint8_t { kLoopDep = 1, kPartitionDep = 2, kFreeDep = 4 };
  // One instruction in SSA form.
  struct Op {
    const Instr* instr = nullptr;
    bool finish = false;
    bool merge = false;
    int level = 0;  // 0 root, 1 in the loops, 2 in the outer tile loop, 3 in the inner one
    int16_t dst = -1;
    int16_t descriptors = -1;  // value: software descriptors of an indirect access
    std::vector<int16_t> src;
  };
  struct Extents {  // one class of iterations of the loop axes
    int64_t count = 1;
    int64_t partition = 1, free = 1;
  };

  // expand.cpp
  void build_ops();
  int level_of(uint8_t deps) const;
  int16_t new_value(uint8_t deps);
  void set_buffers();
  std::vector<Extents> loop_classes() const;
  void count_excess();
  void tiles(int loop, const Extents& e);
  void inner_tiles(int loop, TileSize size, int64_t inner_extent, int64_t inner_tile);
  void emit_ops(int loop, int level, bool finish, TileSize size);
  void emit(int loop, const Op& op, TileSize size);
  Step dma_step(const Op& op, TileSize size) const;
  int add_loop(int parent, int64_t count, const char* text);
  void add_step(int loop, Step step);
  int64_t stride(const HbmAccess& h, size_t axis) const;
  int64_t contiguous_run(const HbmAccess& h, int64_t elements) const;

  // expand_matmul.cpp
  struct MatmulPlan;
  void matmul(int loop, const Extents& e);
  void matmul_rows(int loop, const MatmulPlan& plan, int64_t rows, int64_t columns);
  void matmul_block(int loop, const MatmulPlan& plan, int64_t rows, int64_t columns, bool load_a);
  void matmul_k(int loop, const MatmulPlan& plan, int64_t rows, int64_t columns, int64_t k,
                bool load_a);
  void operand_load(int loop, const MatmulPlan& plan, const HbmAccess& h, int64_t width, int64_t k,
                    bool unit_width, bool unit_k, int16_t value, int16_t raw, bool merge,
                    const char* name);
  Step pe_step(double cycles, const char* text) const;

  const Program& program_;
  const Nest& nest_;
  const int64_t* slots_;
  const TargetInfo& target_;
  const bool with_text_;
  Expansion out_;
  bool tiled_ = false, carried_ = false;
  std::vector<Op> ops_;
  std::vector<uint8_t> value_deps_;
  std::vector<int16_t> psum_values_;
  int16_t psum_ssa_ = -1;  // the psum tile as body instructions name it
  int16_t psum_now_ = -1;  // which of psum_values_ it stands for
};

}  // namespace nax
