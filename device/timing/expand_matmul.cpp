#include <algorithm>

#include "device/isa/geometry.h"
#include "device/isa/slots.h"
#include "device/isa/text.h"
#include "device/timing/cost.h"
#include "device/timing/expand_impl.h"

namespace nax {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return slot_arithmetic(SlotOp::kCeilDiv, a, b); }

constexpr int64_t kGoodRowBytes = 2048;  // DMA is efficient from here on (S4)
constexpr int64_t kTransposeChunk = 4096;
constexpr int64_t kWidestTile = int64_t{1} << 24;  // far beyond PSUM; keeps products in range

}  // namespace

struct NestExpander::MatmulPlan {
  DType dtype = DType::kF32;
  int64_t element = 4;  // bytes of an operand's element
  int64_t k = 0;
  int64_t n_tile = 512;                            // the nest's free tile: one psum tile
  int64_t m_tiles = 1, n_tiles = 1;                // psum tiles of a block
  bool a_resident = true;                          // the A block stays in SBUF over all n
  bool software = false;                           // integers and f64: on POOL
  int64_t a_m = 0, a_k = 0, b_n = 0, b_k = 0;      // strides
  int16_t a = -1, b = -1, a_raw = -1, b_raw = -1;  // values
};

void NestExpander::matmul(int loop, const Extents& e) {
  const Matmul& m = nest_.matmul;
  MatmulPlan plan;
  plan.dtype = program_.args[m.a.arg].dtype;
  plan.element = static_cast<int64_t>(dtype_size(plan.dtype));
  const DType accumulator = nest_.tiles[m.psum].dtype;
  plan.software = accumulator != DType::kF32;
  size_t m_axis = 0, n_axis = 0, k_axis = 0;
  for (size_t i = 0; i < nest_.axes.size(); ++i) {
    if (nest_.axes[i].role == AxisRole::kPartition) m_axis = i;
    if (nest_.axes[i].role == AxisRole::kFree) n_axis = i;
    if (nest_.axes[i].role == AxisRole::kContract) k_axis = i;
  }
  plan.k = axis_extent(nest_, static_cast<AxisId>(k_axis), slots_);
  plan.a_m = stride(m.a, m_axis);
  plan.a_k = stride(m.a, k_axis);
  plan.b_n = stride(m.b, n_axis);
  plan.b_k = stride(m.b, k_axis);
  plan.n_tile = std::clamp<int64_t>(std::min(free_tile(nest_, slots_), e.free), 1, kWidestTile);

  // A block of psum tiles: wide enough for efficient rows of B, then as many m tiles as banks and
  // SBUF allow.
  const int64_t banks =
      std::max<int64_t>(1, ceil_div(slot_arithmetic(SlotOp::kMul, plan.n_tile,
                                                    static_cast<int64_t>(dtype_size(accumulator))),
                                    target_.psum_bank_bytes));
  const int64_t in_psum = std::max<int64_t>(1, target_.psum_banks / banks);
  const int64_t row_bytes = slot_arithmetic(SlotOp::kMul, plan.n_tile, plan.element);
  plan.n_tiles = std::clamp<int64_t>(ceil_div(kGoodRowBytes, row_bytes), 1,
                                     std::min(in_psum, ceil_div(e.free, plan.n_tile)));
  plan.m_tiles = std::clamp<int64_t>(in_psum / plan.n_tiles, 1, ceil_div(e.partition, kPartitions));
  const int64_t budget = target_.sbuf_usable_partition_bytes / 2;
  const int64_t a_tile =
      slot_arithmetic(SlotOp::kMul, std::max<int64_t>(1, ceil_div(plan.k, kPartitions)),
                      kPartitions * plan.element);
  plan.m_tiles = std::clamp<int64_t>(budget / a_tile, 1, plan.m_tiles);
  plan.a_resident = a_tile <= budget;

  plan.a = new_value(0);
  plan.b = new_value(0);
  plan.a_raw = new_value(0);
  plan.b_raw = new_value(0);
  out_.buffers[plan.a] = plan.a_resident && 2 * plan.m_tiles * a_tile <= budget ? 2
                         : plan.a_resident                                      ? 1
                                                                                : 4;
  out_.buffers[plan.b] = static_cast<uint8_t>(std::clamp<int64_t>(
      target_.sbuf_usable_partition_bytes / 4 / std::max<int64_t>(1, plan.n_tiles * row_bytes), 2,
      8));
  out_.buffers[plan.a_raw] = out_.buffers[plan.b_raw] = 4;
  psum_values_.clear();
  const int64_t tiles = plan.m_tiles * plan.n_tiles;
  for (int64_t j = 0; j < tiles; ++j) {
    psum_values_.push_back(new_value(0));
    out_.buffers[psum_values_.back()] =
        static_cast<uint8_t>(std::clamp<int64_t>(in_psum / tiles, 1, 4));
  }

  const int64_t block = plan.m_tiles * kPartitions;
  if (e.partition >= block)
    matmul_rows(add_loop(loop, e.partition / block, "m block"), plan, block, e.free);
  if (e.partition % block != 0)
    matmul_rows(add_loop(loop, 1, "m block"), plan, e.partition % block, e.free);
}

void NestExpander::matmul_rows(int loop, const MatmulPlan& plan, int64_t rows, int64_t columns) {
  auto begin = [&](int16_t value, const char* text) {
    Step s;
    s.kind = StepKind::kBegin;
    s.dst = value;
    if (with_text_) s.text = text;
    add_step(loop, std::move(s));
  };
  if (plan.a_resident) begin(plan.a, "begin a block");
  for (const Op& op : ops_)
    if (op.merge && op.level == 3 && op.instr->start) begin(op.dst, "begin reduction");
  const int64_t width = plan.n_tiles * plan.n_tile;
  int64_t full = columns / width;
  const int64_t rest = columns % width;
  bool load_a = true;
  if (full > 0) {
    matmul_block(add_loop(loop, 1, "first n block"), plan, rows, width, true);
    load_a = !plan.a_resident;
    if (--full > 0) matmul_block(add_loop(loop, full, "n block"), plan, rows, width, load_a);
  }
  if (rest > 0) matmul_block(add_loop(loop, 1, "last n block"), plan, rows, rest, load_a);
  for (int64_t m = 0; m < rows; m += kPartitions)
    emit_ops(loop, 2, true, {std::min(kPartitions, rows - m), plan.n_tile});
}

void NestExpander::matmul_block(int loop, const MatmulPlan& plan, int64_t rows, int64_t columns,
                                bool load_a) {
  const int64_t tiles = ceil_div(rows, kPartitions) * ceil_div(columns, plan.n_tile);
  for (int64_t j = 0; j < tiles; ++j) {
    Step s;
    s.kind = StepKind::kBegin;
    s.dst = psum_values_[static_cast<size_t>(j)];
    if (with_text_) s.text = "begin psum";
    add_step(loop, std::move(s));
  }
  const int64_t step = target_.pe_rows;
  if (plan.k >= step)
    matmul_k(add_loop(loop, plan.k / step, "k tile"), plan, rows, columns, step, load_a);
  if (plan.k % step != 0)
    matmul_k(add_loop(loop, 1, "last k tile"), plan, rows, columns, plan.k % step, load_a);
  size_t j = 0;
  for (int64_t m = 0; m < rows; m += kPartitions) {
    for (int64_t n = 0; n < columns; n += plan.n_tile) {
      psum_now_ = psum_values_[j++];
      emit_ops(loop, 3, false,
               {std::min(kPartitions, rows - m), std::min(plan.n_tile, columns - n)});
    }
  }
  psum_now_ = -1;
}

Step NestExpander::pe_step(double cycles, const char* text) const {
  Step s;
  s.engine = Engine::kPE;
  s.busy_ps = cycles_to_ps(cycles, target_.pe_ghz);
  s.latency_ps = cycles_to_ps(target_.static_cycles, target_.pe_ghz);
  if (with_text_) s.text = text;
  return s;
}

void NestExpander::matmul_k(int loop, const MatmulPlan& plan, int64_t rows, int64_t columns,
                            int64_t k, bool load_a) {
  const Matmul& m = nest_.matmul;
  if (load_a) {
    operand_load(loop, plan, m.a, rows, k, plan.a_m == 1, plan.a_k == 1, plan.a, plan.a_raw,
                 plan.a_resident, "a");
  }
  operand_load(loop, plan, m.b, columns, k, plan.b_n == 1, plan.b_k == 1, plan.b, plan.b_raw, false,
               "b");
  size_t j = 0;
  for (int64_t r = 0; r < rows; r += kPartitions) {
    for (int64_t c = 0; c < columns; c += plan.n_tile) {
      const int64_t width = std::min(plan.n_tile, columns - c);
      Step s;
      if (plan.software) {
        s.engine = Engine::kPOOL;
        s.busy_ps = cycles_to_ps(software_matmul_cycles(k, width, target_), target_.pool_ghz);
        s.latency_ps = cycles_to_ps(target_.static_cycles, target_.pool_ghz);
        if (with_text_) s.text = "x.matmul";
      } else {
        double cycles = static_cast<double>(width / target_.pe_moving) *
                        matmul_cycles(target_.pe_moving, plan.dtype, target_);
        if (width % target_.pe_moving != 0)
          cycles += matmul_cycles(width % target_.pe_moving, plan.dtype, target_);
        s = pe_step(cycles, "nc_matmul");
      }
      s.src = {plan.a, plan.b, -1, -1};
      s.dst = psum_values_[j++];
      s.merge = true;
      add_step(loop, std::move(s));
    }
  }
}

// Brings k x width elements of an operand into SBUF with k on the partitions. Where k is the
// contiguous side they come as width x k and are transposed: by DMA if the target can (2-byte
// types), else by PE and a copy out of psum.
void NestExpander::operand_load(int loop, const MatmulPlan& plan, const HbmAccess& h, int64_t width,
                                int64_t k, bool unit_width, bool unit_k, int16_t value, int16_t raw,
                                bool merge, const char* name) {
  Step load;
  load.kind = StepKind::kDma;
  load.engine = Engine::kDMA;
  load.hbm_read = step_bytes(width, k * plan.element);
  if (with_text_) load.text = std::string("dma_copy ") + name + " from a" + std::to_string(h.arg);
  if (unit_width || !unit_k) {
    const DmaCost cost =
        dma_cost({k, unit_width ? 1 : width, (unit_width ? width : 1) * plan.element}, target_);
    load.descriptors = cost.descriptors;
    load.descriptor_ps = cost.descriptor_ps;
    load.dst = value;
    load.merge = merge;
    add_step(loop, std::move(load));
    return;
  }
  // Rows along k are read in chunks of 4 KiB; this step pays its share of them.
  const int64_t row = slot_arithmetic(SlotOp::kMul, std::max<int64_t>(1, plan.k), plan.element);
  const int64_t chunk = std::min(kTransposeChunk, row);
  const double share = static_cast<double>(k * plan.element) / static_cast<double>(chunk);
  load.descriptors = width;
  load.descriptor_ps = static_cast<int64_t>(
      static_cast<double>(dma_cost({1, 1, chunk}, target_).descriptor_ps) * share);
  if (plan.element == 2 && target_.dma_transpose) {
    load.descriptor_ps = load.descriptor_ps * 10 / 9;
    load.dst = value;
    load.merge = merge;
    add_step(loop, std::move(load));
    return;
  }
  load.dst = raw;
  add_step(loop, std::move(load));
  const auto blocks = static_cast<double>(ceil_div(width, kPartitions));
  Step transpose =
      pe_step(blocks * matmul_cycles(target_.pe_columns, plan.dtype, target_), "nc_transpose");
  transpose.src[0] = raw;
  transpose.dst = raw;
  transpose.merge = true;
  add_step(loop, std::move(transpose));
  Step copy;
  copy.engine = Engine::kACT;
  copy.busy_ps = cycles_to_ps(std::max<double>(target_.min_interval, static_cast<double>(width)),
                              target_.act_ghz);
  copy.latency_ps = cycles_to_ps(target_.static_cycles, target_.act_ghz);
  copy.src[0] = raw;
  copy.dst = value;
  copy.merge = merge;
  if (with_text_) copy.text = std::string("tensor_copy of transposed ") + name;
  add_step(loop, std::move(copy));
}

}  // namespace nax
