#include "device/matmul/matmul.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "device/base/host_isa.h"
#include "device/matmul/kernel_table.h"
#include "device/matmul/scratch.h"
#include "device/pool/pool.h"

namespace nax {

using matmul_detail::BlockArgs;
using matmul_detail::KernelTable;
using matmul_detail::PackArgs;
using matmul_detail::Scratch;
using matmul_detail::TypeKernels;

namespace {

// Blocking. None of these changes a bit: they say how much of a chain runs before its accumulator
// rests in memory.
constexpr int64_t kDepth = 384;   // KC: k steps per pass
constexpr int64_t kRows = 168;    // MC: a packed block of A (KC x MC) stays in L2
constexpr int64_t kMinRows = 64;  // smaller blocks would make the eviction chain repack and restart
constexpr int64_t kGroup = 256;   // columns between evictions: MC x kGroup accumulators are hot
constexpr int64_t kFewRowsGroup =
    64;  // B packed for one block of few rows is used while in L1 or L2
constexpr int64_t kDirectDepth =
    16;  // rows of a large unpacked B that are read side by side, as streams
constexpr int64_t kLargeDirect = int64_t{128} << 10;  // bytes
constexpr int64_t kMaxColumns = 2048;  // columns of a task: bounds its partial accumulators
constexpr int64_t kMinColumns = 128;
constexpr int64_t kSharedBytes = int64_t{64} << 20;  // B packed for all tasks at once
constexpr double kInlineFlops = 4e6;                 // about 60 us of one core

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Part i of `total` cut into `parts`, as even as multiples of `unit` allow.
struct Range {
  int64_t begin, end;
};
Range part(int64_t total, int64_t parts, int64_t unit, int64_t i) {
  const int64_t units = ceil_div(total, unit);
  return {std::min(total, units * i / parts * unit),
          std::min(total, units * (i + 1) / parts * unit)};
}

struct Operand {
  const char* data;
  DType dtype;
  int64_t x_stride, k_stride;  // x is m or n

  const void* at(int64_t x, int64_t k) const {
    return data + (x * x_stride + k * k_stride) * static_cast<int64_t>(dtype_size(dtype));
  }
};

// One item of the batch. Where N is tiny the product is computed transposed (swapped), so that the
// long side fills the vectors: fma does not care which factor comes first.
struct Item {
  const TypeKernels& kernels;
  DType acc_dtype;
  int64_t size;  // bytes of an accumulator
  int64_t batch;
  int64_t m, n, k;
  Operand a, b;
  Operand init;  // x = m, k = n; data null without one
  bool swapped;
  Evict evict;

  // B packed for all: depth blocks one after the other, each all its panels of columns
  // [shared_from, shared_to).
  const char* shared = nullptr;
  int64_t shared_from = 0, shared_to = 0;

  int64_t depth_step = kDepth;
  int64_t depth_blocks() const { return std::max<int64_t>(1, ceil_div(k, depth_step)); }
  Range depth(int64_t i) const {
    return part(k, depth_blocks(), std::max<int64_t>(8, kernels.k_step), i);
  }
  int64_t most_depth() const {
    return std::min(k, depth_step + std::max<int64_t>(8, kernels.k_step));
  }
  bool is_a_direct() const {
    return a.dtype == kernels.direct_a && kernels.is_cells(a.x_stride, a.k_stride, k);
  }
  int64_t operand_bytes() const { return kernels.cell_bytes / kernels.k_step; }  // of a packed k
  // Panels of vectors even themselves out; a tile's missing rows are lost.
  int64_t row_unit() const { return kernels.k_step < 32 ? 1 : kernels.mr; }
  // With few rows B is used too seldom for packing to pay, or is packed for this block alone.
  bool few_rows() const { return m <= 2 * kernels.mr; }
  bool is_thin() const {
    return kernels.thin && m <= matmul_detail::kThinRows && b.k_stride == 1 && b.x_stride != 1;
  }
  bool is_b_direct() const { return is_thin() || (few_rows() && b.dtype == kernels.direct_b && b.x_stride == 1); }

  void multiply(ThreadPool& pool, bool serial);
  void pack_shared(ThreadPool& pool, bool serial, char* to) const;
  void run_task(Range rows, Range columns) const;
  void load_init(Range rows, Range columns, char* c, int64_t ld) const;
  void emit(Range rows, Range columns, const char* c, int64_t ld) const;
};

// Packs columns [from, to) of B, k in `depth`.
void pack_b(const Item& item, Range depth, int64_t from, int64_t to, void* dst) {
  item.kernels.pack_b({item.b.at(from, depth.begin), item.b.dtype, item.b.x_stride, item.b.k_stride,
                       to - from, depth.end - depth.begin, dst});
}

void Item::pack_shared(ThreadPool& pool, bool serial, char* to) const {
  const int64_t nr = kernels.nr;
  const int64_t panels = ceil_div(shared_to - shared_from, nr);
  const auto pack_panels = [&](int64_t begin, int64_t end) {
    for (int64_t d = 0; d < depth_blocks(); ++d) {
      const Range range = depth(d);
      const int64_t kc = range.end - range.begin;
      pack_b(*this, range, shared_from + begin * nr, std::min(shared_to, shared_from + end * nr),
             to + (range.begin / kernels.k_step * panels + begin * kernels.steps(kc)) * nr *
                      kernels.cell_bytes);
    }
  };
  const int64_t grain =
      std::max<int64_t>(1, (int64_t{64} << 10) / std::max<int64_t>(1, k * nr * operand_bytes()));
  if (serial)
    pack_panels(0, panels);
  else
    pool.parallel_for(panels, grain, pack_panels);
}

void Item::multiply(ThreadPool& pool, bool serial) {
  if (is_b_direct() && !is_thin() && k * n * operand_bytes() > kLargeDirect) depth_step = kDirectDepth;
  const int threads = serial ? 1 : pool.threads();
  int64_t row_blocks = ceil_div(m, kRows);
  int64_t column_blocks = ceil_div(n, kMaxColumns);
  if (threads > 1) {
    const int64_t wanted = 4 * threads;
    const int64_t most_columns = std::max<int64_t>(1, n / kMinColumns);
    if (row_blocks * column_blocks < wanted)
      column_blocks = std::clamp(ceil_div(wanted, row_blocks), column_blocks,
                                 std::max(column_blocks, most_columns));
    const int64_t most_rows = std::max<int64_t>(1, m / kMinRows);
    if (row_blocks * column_blocks < wanted)
      row_blocks =
          std::clamp(ceil_div(wanted, column_blocks), row_blocks, std::max(row_blocks, most_rows));
  }

  // Where several row blocks read B it is packed once, for as many columns as the bound on memory
  // allows.
  int64_t shared_columns = 0;
  if (row_blocks > 1) {
    const int64_t fit = kSharedBytes / std::max<int64_t>(1, kernels.packed_b_bytes(1, k)) * kernels.nr;
    if (fit >= std::min(n, kGroup)) shared_columns = std::min(n, fit);
  }
  const int64_t step = shared_columns > 0 ? shared_columns : n;
  for (int64_t from = 0; from < n; from += step) {
    const int64_t to = std::min(n, from + step);
    const int64_t blocks = std::max<int64_t>(1, column_blocks * (to - from) / n);
    Scratch packed(1, shared_columns > 0 ? kernels.packed_b_bytes(to - from, k) : 0);
    if (shared_columns > 0) {
      shared_from = from;
      shared_to = to;
      shared = static_cast<const char*>(packed.data());
      pack_shared(pool, serial, static_cast<char*>(packed.data()));
    }
    const auto run = [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const Range rows = part(m, row_blocks, row_unit(), t / blocks);
        Range columns = part(to - from, blocks, kernels.nr, t % blocks);
        columns.begin += from;
        columns.end += from;
        if (columns.begin < columns.end) run_task(rows, columns);
      }
    };
    if (serial)
      run(0, row_blocks * blocks);
    else
      pool.parallel_for(row_blocks * blocks, 1, run);
  }
}

// A block of rows over a range of columns: for each depth block, A is packed once, then the columns
// go by in groups. Partial accumulators of all groups wait in C between depth blocks; with one
// depth block C holds a single group.
void Item::run_task(Range rows, Range columns) const {
  const int64_t mb = rows.end - rows.begin, nb = columns.end - columns.begin, nr = kernels.nr;
  const int64_t blocks = depth_blocks();
  const bool thin = !shared && is_thin();
  const bool b_direct = !shared && is_b_direct();
  const bool a_direct = is_a_direct() && (nb <= 4 * nr || mb <= 4);
  // B that is packed for this block of rows alone should still be in L1 when it is used.
  const int64_t groups = ceil_div(nb, few_rows() && !b_direct && !swapped ? kFewRowsGroup : kGroup);
  const int64_t group = round_up(ceil_div(nb, groups), nr);
  const int64_t ld = blocks > 1 ? round_up(nb, nr) : group;

  const int64_t c_bytes = round_up(mb * ld * size, 64);
  const int64_t a_bytes =
      a_direct ? 0 : round_up(kernels.packed_a_bytes(mb, most_depth()), 64);
  const int64_t b_columns = shared || thin ? 0 : b_direct ? (nb % nr != 0 ? nr : 0) : group;
  Scratch scratch(0, static_cast<size_t>(c_bytes + a_bytes + kernels.packed_b_bytes(b_columns, most_depth())));
  char* const c = static_cast<char*>(scratch.data());
  char* const a_packed = c + c_bytes;
  char* const b_packed = a_packed + a_bytes;

  BlockArgs args = {};
  args.m = mb;
  args.ld = ld;
  for (int64_t d = 0; d < blocks; ++d) {
    const Range range = depth(d);
    args.kc = range.end - range.begin;
    args.accumulate = d > 0 || init.data;
    args.a_packed = !a_direct;
    if (a_direct) {
      args.a = a.at(rows.begin, range.begin);
      args.a_row = a.x_stride / kernels.k_step;
      args.a_k = kernels.k_step == 1 ? a.k_stride : 1;
    } else {
      args.a = a_packed;
      args.a_row = 1;  // for thin, where A is a single panel
      args.a_k = mb;
      kernels.pack_a(
          {a.at(rows.begin, range.begin), a.dtype, a.x_stride, a.k_stride, mb, args.kc, a_packed});
    }
    for (int64_t g = 0; g < groups; ++g) {
      Range now = part(nb, groups, nr, g);
      now.begin += columns.begin;
      now.end += columns.begin;
      const int64_t j = now.begin;
      char* const c_group = blocks > 1 ? c + (j - columns.begin) * size : c;
      args.c = c_group;
      args.n = now.end - now.begin;
      if (d == 0 && init.data) load_init(rows, now, c_group, ld);
      if (thin) {
        args.b = b.at(j, range.begin);
        args.b_dtype = b.dtype;
        args.b_panel = b.x_stride;
        kernels.thin(args);
      } else if (b_direct) {
        const int64_t whole = args.n / nr * nr;
        args.b = b.at(j, range.begin);
        args.b_panel = nr;
        args.b_k = b.k_stride;
        args.n = whole;
        if (whole > 0) kernels.block(args);
        if (j + whole < now.end) {  // a part of a panel must not be read past its end
          pack_b(*this, range, j + whole, now.end, b_packed);
          args.b = b_packed;
          args.b_panel = nr * kernels.steps(args.kc);
          args.b_k = nr;
          args.n = now.end - j - whole;
          args.c = c_group + whole * size;
          kernels.block(args);
        }
      } else {
        args.b_panel = nr * kernels.steps(args.kc);
        args.b_k = nr;
        if (shared) {
          const int64_t panels = ceil_div(shared_to - shared_from, nr);
          args.b = shared + (range.begin / kernels.k_step * panels * nr +
                             (j - shared_from) / nr * args.b_panel) *
                                kernels.cell_bytes;
        } else {
          pack_b(*this, range, now.begin, now.end, b_packed);
          args.b = b_packed;
        }
        kernels.block(args);
      }
      if (d == blocks - 1) emit(rows, now, c_group, ld);
    }
  }
}

void Item::load_init(Range rows, Range columns, char* c, int64_t ld) const {
  const int64_t width = columns.end - columns.begin;
  for (int64_t i = rows.begin; i < rows.end; ++i, c += ld * size) {
    std::memset(c + width * size, 0,
                static_cast<size_t>((round_up(width, kernels.nr) - width) * size));
    if (init.k_stride == 1) {
      std::memcpy(c, init.at(i, columns.begin), static_cast<size_t>(width * size));
    } else if (size == 4) {
      for (int64_t j = 0; j < width; ++j) std::memcpy(c + j * 4, init.at(i, columns.begin + j), 4);
    } else {
      for (int64_t j = 0; j < width; ++j) std::memcpy(c + j * 8, init.at(i, columns.begin + j), 8);
    }
  }
}

void Item::emit(Range rows, Range columns, const char* c, int64_t ld) const {
  if (!swapped) return evict(batch, rows.begin, rows.end, columns.begin, columns.end, c, ld);
  if (m == 1) return evict(batch, columns.begin, columns.end, 0, 1, c, 1);
  // Swapped: few rows here, which are the caller's columns.
  const int64_t height = columns.end - columns.begin, width = rows.end - rows.begin;
  alignas(64) char turned[kGroup * 4 * 8];
  for (int64_t i = 0; i < height; ++i)
    for (int64_t j = 0; j < width; ++j)
      std::memcpy(turned + (i * width + j) * size, c + (j * ld + i) * size,
                  static_cast<size_t>(size));
  evict(batch, columns.begin, columns.end, rows.begin, rows.end, turned, width);
}
constexpr int64_t kSwapColumns = 4;  // `turned` above holds kGroup x kSwapColumns

const TypeKernels& kernels_for(DType operand) {
  const KernelTable& table = matmul_detail::active_kernels();
  if (operand == DType::kBF16) return table.bf16;
  switch (accumulator_dtype(operand)) {
    case DType::kF64:
      return table.f64;
    case DType::kI32:
      return table.i32;
    case DType::kI64:
      return table.i64;
    default:
      return table.f32;
  }
}

Item make_item(const MatmulArgs& args, Evict evict, int64_t batch) {
  const DType acc = accumulator_dtype(args.a.dtype);
  const auto data = [&](const MatrixView& view, int64_t batch_stride) {
    return static_cast<const char*>(view.data) +
           batch * batch_stride * static_cast<int64_t>(dtype_size(view.dtype));
  };
  Operand a = {data(args.a, args.a_batch_stride), args.a.dtype, args.a.row_stride,
               args.a.col_stride};
  Operand b = {data(args.b, args.b_batch_stride), args.b.dtype, args.b.col_stride,
               args.b.row_stride};
  Operand init = {nullptr, acc, args.init.row_stride, args.init.col_stride};
  if (args.init.data) init.data = data(args.init, args.init_batch_stride);
  int64_t m = args.a.rows, n = args.b.cols;
  const bool swap = n <= kSwapColumns && n < m;
  if (swap) {
    std::swap(m, n);
    std::swap(a, b);
    std::swap(init.x_stride, init.k_stride);
  }
  return {kernels_for(args.a.dtype),
          acc,
          static_cast<int64_t>(dtype_size(acc)),
          batch,
          m,
          n,
          args.a.cols,
          a,
          b,
          init,
          swap,
          evict};
}

}  // namespace

DType accumulator_dtype(DType operand) {
  switch (operand) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return DType::kF32;
    case DType::kF64:
      return DType::kF64;
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
      return DType::kI32;
    case DType::kI64:
      return DType::kI64;
    default:
      return DType::kInvalid;
  }
}

Status check_matmul(const MatmulArgs& args) {
  const auto shape = [](const MatrixView& v) {
    return std::to_string(v.rows) + "x" + std::to_string(v.cols);
  };
  const auto bad = [](std::string message) {
    return invalid_argument("matmul: " + std::move(message));
  };
  if (args.batch < 0 || args.a.rows < 0 || args.a.cols < 0 || args.b.rows < 0 || args.b.cols < 0)
    return bad("negative size: batch " + std::to_string(args.batch) + ", A " + shape(args.a) +
               ", B " + shape(args.b));
  if (args.a.cols != args.b.rows)
    return bad("inner dimensions differ: A " + shape(args.a) + ", B " + shape(args.b));
  const DType acc = accumulator_dtype(args.a.dtype);
  if (args.a.dtype != args.b.dtype || acc == DType::kInvalid)
    return bad("operand types " + std::string(dtype_name(args.a.dtype)) + " and " +
               std::string(dtype_name(args.b.dtype)) +
               "; both must be the same of f32, f16, bf16, f64, u8, i8, i16, i32, i64");
  if (args.init.data) {
    if (args.init.dtype != acc)
      return bad("initial accumulator is " + std::string(dtype_name(args.init.dtype)) +
                 ", must be " + std::string(dtype_name(acc)));
    if (args.init.rows != args.a.rows || args.init.cols != args.b.cols)
      return bad("initial accumulator is " + shape(args.init) + ", must be " +
                 std::to_string(args.a.rows) + "x" + std::to_string(args.b.cols));
  }
  return {};
}

void matmul(const MatmulArgs& args, ThreadPool& pool, Evict evict) {
  const int64_t m = args.a.rows, n = args.b.cols, k = args.a.cols;
  if (args.batch <= 0 || m <= 0 || n <= 0) return;
  const double item_flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) *
                            static_cast<double>(std::max<int64_t>(k, 1));
  const bool serial = item_flops * static_cast<double>(args.batch) < kInlineFlops ||
                      ThreadPool::in_parallel_region() || pool.threads() == 1;
  const auto items = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) make_item(args, evict, i).multiply(pool, true);
  };
  if (serial) return items(0, args.batch);
  if (args.batch >= 2 * pool.threads() || item_flops < kInlineFlops) {
    const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kInlineFlops / 4 / item_flops));
    return pool.parallel_for(args.batch, grain, items);
  }
  for (int64_t i = 0; i < args.batch; ++i) make_item(args, evict, i).multiply(pool, false);
}

}  // namespace nax
