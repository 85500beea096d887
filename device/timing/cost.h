// What one tile-level instruction costs, by the vendor's documented formulas (facts 1.6, 1.8). Pure
// functions of the instruction and the target; times are integer picoseconds so that everything
// above them is exact.
#pragma once

#include <cstdint>

#include "device/isa/program.h"
#include "device/targets/target.h"

namespace nax {

int64_t cycles_to_ps(double cycles, double ghz);
double engine_ghz(Engine engine, const TargetInfo& target);

// Issue interval in cycles of the instruction's engine, for `elements` a partition. Instructions on
// more elements than one may touch count as several. Not for DMA.
double instr_cycles(const Program& program, const Nest& nest, const Instr& instr, int64_t elements,
                    const TargetInfo& target);

// One nc_matmul with `columns` moving columns, all its passes.
double matmul_cycles(int64_t columns, DType operand, const TargetInfo& target);
// Software product of a tile with `rows` (k) x `columns`: integers and f64, on POOL.
double software_matmul_cycles(int64_t rows, int64_t columns, const TargetInfo& target);

// A dma_copy between HBM and a tile: `rows` descriptors groups (partitions), each of `runs`
// contiguous pieces.
struct DmaShape {
  int64_t rows = 1;
  int64_t runs = 1;
  int64_t run_bytes = 0;  // on the wider side, where the copy converts
};
struct DmaCost {
  int64_t descriptors = 0;
  int64_t descriptor_ps = 0;  // each, on its engine
};
DmaCost dma_cost(const DmaShape& shape, const TargetInfo& target);

}  // namespace nax
