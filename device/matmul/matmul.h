// Matrix multiplication in the order of DESIGN I2: every output element is one chain acc = fma(a,
// b, acc), k ascending, from zero or from a given accumulator. For fp32 and f64 the bits are
// therefore a function of the operands alone: not of the host's ISA, the layout, the blocking or
// the threads. bf16 and f16 operands are widened to fp32 first. Integers multiply and add with
// wrap-around.
//
// Results are never stored by this folder: finished accumulators are handed out block by block
// while they are hot in cache, and the caller rounds, adds a bias, stores (the PSUM eviction
// chain).
#pragma once

#include <cstdint>

#include "device/base/dtype.h"
#include "device/base/function_ref.h"
#include "device/base/status.h"

namespace nax {

class ThreadPool;

// Strides count elements; any are fine: transposed, zero (expanded), negative. data points at
// element (0, 0).
struct MatrixView {
  const void* data = nullptr;
  DType dtype = DType::kInvalid;
  int64_t rows = 0, cols = 0;
  int64_t row_stride = 0, col_stride = 0;
};

struct MatmulArgs {
  int64_t batch = 1;
  MatrixView a;  // M x K
  MatrixView b;  // K x N, dtype of a
  int64_t a_batch_stride = 0, b_batch_stride = 0;
  // Where the chains continue from; data == nullptr: from zero. M x N in
  // accumulator_dtype(a.dtype).
  MatrixView init;
  int64_t init_batch_stride = 0;
};

// f32, f16, bf16 → f32; f64 → f64; u8, i8, i16, i32 → i32; i64 → i64; others kInvalid.
DType accumulator_dtype(DType operand);

// Rows [m0, m1), columns [n0, n1) of a batch item are done; element (m, n) is at acc[(m - m0) * ld
// + (n - n0)] in accumulator_dtype. The block may be overwritten afterwards by the same thread
// only. Blocks cover each output element exactly once and come from any thread of the pool, several
// at once; where M allows they have 64 rows or more.
using Evict = FunctionRef<void(int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                               const void* acc, int64_t ld)>;

// Shapes, dtypes and overflow; matmul() requires that this is ok.
Status check_matmul(const MatmulArgs& args);

// Runs inline where the work is under about 60 us or the caller is inside a parallel_for. k = 0
// gives zeros (or init). Any thread; scratch memory belongs to the threads, at most about 70 MB
// each for the caller, 4 MB for workers.
void matmul(const MatmulArgs& args, ThreadPool& pool, Evict evict);

}  // namespace nax
