#include "device/timing/cost.h"

#include <algorithm>
#include <cmath>

#include "device/isa/geometry.h"

namespace nax {
namespace {

// One step takes at most a second: sums over simulated steps stay far from overflow, even for
// sizes that fit nowhere.
constexpr double kMaxStepPs = 1e12;
constexpr double kMaxDescriptors = 1e9;

bool is_16bit(DType t) { return t == DType::kF16 || t == DType::kBF16; }
bool is_wide(DType t) { return t == DType::kI64 || t == DType::kF64; }

struct Operands {
  int tiles = 0;             // of dst's own shape
  int psum = 0;              // tile operands in psum
  bool one_divisor = false;  // the second operand is one value a row
  bool all_16bit = true;     // tile operands and dst
  bool wide = false;
};

Operands look_at(const Nest& nest, const Instr& i) {
  Operands o;
  const Tile& dst = nest.tiles[i.dst];
  o.all_16bit = is_16bit(dst.dtype);
  o.wide = is_wide(dst.dtype);
  o.one_divisor = i.src[1].kind != OperandKind::kTile || nest.tiles[i.src[1].id].shape != dst.shape;
  for (const Operand& s : i.src) {
    if (s.kind != OperandKind::kTile) continue;
    const Tile& t = nest.tiles[s.id];
    o.wide = o.wide || is_wide(t.dtype);
    if (t.shape != dst.shape) continue;  // one value a row costs nothing
    ++o.tiles;
    o.psum += t.space == Space::kPsum;
    o.all_16bit = o.all_16bit && is_16bit(t.dtype);
  }
  return o;
}

// Two tiles from SBUF come at half rate, unless they are 16 bits wide.
double two_tile_factor(const Operands& o) {
  return o.tiles < 2 || o.psum > 0 || o.all_16bit ? 1.0 : 2.0;
}

double copy_factor(const Operands& o, Engine engine, const TargetInfo& t) {
  if (!o.all_16bit) return 1.0;
  if (engine == Engine::kDVE && t.dve_fast_modes) return o.psum > 0 ? 0.5 : 0.25;
  if (engine == Engine::kACT && t.act_fast_16bit) return 0.5;
  return 1.0;
}

double function_cycles(const Instr& i, const Operands& o, double n, const TargetInfo& t) {
  const ScalarOpInfo& fn = scalar_op_info(i.fn);
  if (o.wide) {
    // Software: a pair of 32-bit instructions an integer step, a sequence for everything in f64.
    const bool simple = fn.cost == ScalarCost::kSimple && !fn.allows(Lane::kF64);
    const double steps = simple ? 4 : t.software_factor * (fn.cost == ScalarCost::kSimple ? 1 : 2);
    return t.pool_start + steps * n;
  }
  switch (fn.cost) {
    case ScalarCost::kSimple:
      return two_tile_factor(o) * n;
    case ScalarCost::kTable:
      if (i.engine == Engine::kACT) return n;
      if (i.fn == ScalarOp::kReciprocal && i.engine == Engine::kDVE) return t.reciprocal_factor * n;
      return 4 * n;  // POOL and DVE have no tables (S2: about 4 x ACT)
    case ScalarCost::kDivide:
      // One reciprocal a row, then a product and a correction step of three instructions.
      if (i.fn == ScalarOp::kDivide && o.one_divisor) return std::min(4.0, t.reciprocal_factor) * n;
      return t.reciprocal_factor * n;
    case ScalarCost::kSoftware:
      return t.pool_start + t.software_factor * n;
  }
  return n;
}

double one_instr_cycles(const Program& p, const Nest& nest, const Instr& i, double n,
                        const TargetInfo& t) {
  const Operands o = look_at(nest, i);
  const Tile& dst = nest.tiles[i.dst];
  switch (i.opcode) {
    case Opcode::kTensorTensor:
      return function_cycles(i, o, n, t);
    case Opcode::kTensorScalar:
      if (!o.wide && scalar_op_info(i.fn).cost == ScalarCost::kSimple)
        return copy_factor(o, i.engine, t) * n;
      return function_cycles(i, o, n, t);
    case Opcode::kActivation:
      return n;
    case Opcode::kTensorCopy:
      return copy_factor(o, i.engine, t) * n * (o.wide ? 2 : 1);
    case Opcode::kMemset: {
      const Operand& s = i.src[0];
      const bool zero = s.kind == OperandKind::kConstant && p.constants[s.id].to_f64() == 0;
      return zero && is_16bit(dst.dtype) ? n / 2 : n;
    }
    case Opcode::kSelect:
      return (o.psum > 0 ? 2 : 3) * n * (o.wide ? 2 : 1);  // a copy, then a predicated copy
    case Opcode::kPointwise:
      return function_cycles(i, o, n, t);
    case Opcode::kTensorReduce: {
      const Tile& src = nest.tiles[i.src[0].id];
      if (i.order == ReduceOrder::kTree) {
        double cycles = 0;
        for (double left = n; left > 1; left = std::ceil(left / 2))
          cycles += std::max<double>(t.min_interval, left / 2);
        return cycles * (o.wide ? 4 : 1);
      }
      const bool fast = is_16bit(src.dtype) && is_16bit(dst.dtype) && i.reduce != ReduceFn::kProd;
      return (fast ? 0.5 : 1.0) * n * (is_wide(src.dtype) ? 4 : 1);
    }
    case Opcode::kPartitionReduce:
      return t.pool_start +
             t.partition_reduce_factor * n * (is_wide(nest.tiles[i.src[0].id].dtype) ? 4 : 1);
    case Opcode::kScan:
      return 2 * n * (o.wide ? 4 : 1);
    case Opcode::kIota:
      return t.pool_start + n;
    case Opcode::kPhilox:
      return t.pool_start + t.software_factor * n;
    case Opcode::kDmaLoad:
    case Opcode::kDmaStore:
      break;
  }
  return n;
}

}  // namespace

int64_t cycles_to_ps(double cycles, double ghz) {
  return static_cast<int64_t>(std::llround(std::min(cycles * 1000.0 / ghz, kMaxStepPs)));
}

double engine_ghz(Engine engine, const TargetInfo& t) {
  switch (engine) {
    case Engine::kPE:
      return t.pe_ghz;
    case Engine::kDVE:
      return t.dve_ghz;
    case Engine::kPOOL:
      return t.pool_ghz;
    default:
      return t.act_ghz;
  }
}

double instr_cycles(const Program& p, const Nest& nest, const Instr& i, int64_t elements,
                    const TargetInfo& t) {
  const bool psum = [&] {
    for (const Operand& s : i.src)
      if (s.kind == OperandKind::kTile && nest.tiles[s.id].space == Space::kPsum) return true;
    return false;
  }();
  const int64_t limit = psum ? t.free_size_psum : t.free_size_sbuf;
  double cycles = 0;
  const int64_t whole = elements / limit, rest = elements % limit;
  const auto floor = static_cast<double>(t.min_interval);
  if (whole > 0) {
    cycles += static_cast<double>(whole) *
              std::max(floor, one_instr_cycles(p, nest, i, static_cast<double>(limit), t));
  }
  if (rest > 0 || whole == 0)
    cycles += std::max(floor, one_instr_cycles(p, nest, i, static_cast<double>(rest), t));
  return cycles;
}

double matmul_cycles(int64_t columns, DType operand, const TargetInfo& t) {
  const int passes = operand == DType::kF32 ? t.pe_fp32_passes : 1;
  return passes * (static_cast<double>(std::max<int64_t>(columns, 64)) + t.pe_pass_overhead);
}

double software_matmul_cycles(int64_t rows, int64_t columns, const TargetInfo& t) {
  return t.pool_start +
         static_cast<double>(rows) * static_cast<double>(columns) * t.software_factor / 4;
}

DmaCost dma_cost(const DmaShape& s, const TargetInfo& t) {
  const int64_t piece =
      s.runs > 1 ? std::max<int64_t>(s.run_bytes, t.dma_burst_bytes) : s.run_bytes;
  const double row = static_cast<double>(s.runs) * static_cast<double>(piece);
  const double parts = std::max(1.0, std::ceil(row / static_cast<double>(t.dma_descriptor_bytes)));
  const double ns = std::max(t.dma_descriptor_ns, row / parts / t.dma_bytes_per_ns);
  const double descriptors = std::min(static_cast<double>(s.rows) * parts, kMaxDescriptors);
  const double ps = std::min(ns * 1000, std::max(1.0, kMaxStepPs / std::max(1.0, descriptors)));
  return {static_cast<int64_t>(descriptors), static_cast<int64_t>(std::llround(ps))};
}

}  // namespace nax
