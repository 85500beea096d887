// What one ISA's translation unit offers to the ISA-neutral driver. Everything else in those units
// has internal linkage, so that the linker can never pick wide code for a narrow machine (no comdat
// mixing).
#pragma once

#include <cstdint>

#include "device/base/dtype.h"

namespace nax::matmul_detail {

// Operands are cut into cells: `k_step` neighbouring k of one row of A or one column of B. A block
// of k begins at a multiple of k_step, counted from the first k of the whole product, and only the
// product's last cell may be short: it is filled up with zeros, whose products are exact.

// C[m x n] (+)= A[m x kc] * B[kc x n] in the accumulator type. Strides and ld count cells of an
// operand, elements of C.
struct BlockArgs {
  int64_t m, n, kc;
  // Packed (pack_a of the same m and kc): panels one after the other. Otherwise (see direct_a) cell
  // (i, s) at a[i * a_row + s * a_k].
  const void* a;
  bool a_packed;
  int64_t a_row, a_k;
  // block: cell (s, j) at b[j / nr * b_panel + s * b_k + j % nr]; whole panels of nr are read. Where
  // direct_b is kInvalid only what pack_b wrote will do: b_panel = nr * steps(kc), b_k = nr.
  // thin: element (k, j) at b[j * b_panel + k], of type b_dtype; nothing else is read.
  const void* b;
  int64_t b_panel, b_k;
  DType b_dtype;
  // ld is a multiple of nr; whole panels are written.
  void* c;
  int64_t ld;
  bool accumulate;  // else starts from zero
};

// k x extent elements of an operand, `x` being its m or n dimension; strides count elements.
struct PackArgs {
  const void* src;
  DType dtype;
  int64_t x_stride, k_stride;
  int64_t extent, kc;
  void* dst;
};

// Kernels of one operand type.
struct TypeKernels {
  int mr, nr;      // register block
  int k_step;      // 1; 2 for pairs of bf16; 32 for rows of a tile
  int cell_bytes;  // packed
  // Operands of this type may be read unpacked: A where it is made of cells (is_cells below), B
  // where its n is contiguous, too. kInvalid: packed ones only.
  DType direct_a, direct_b;
  // packed_a_bytes / packed_b_bytes at dst, 64-byte aligned.
  void (*pack_a)(const PackArgs&);  // ceil(extent / mr) panels
  void (*pack_b)(const PackArgs&);  // ceil(extent / nr) panels, the last one padded with zeros
  void (*block)(const BlockArgs&);
  // At most kThinRows rows against a B whose k is contiguous (y = W x): turns B in registers
  // instead of packing it. A is direct, or packed (a single panel: a_row = 1, a_k = m). Null where
  // there is none.
  void (*thin)(const BlockArgs&);

  int64_t steps(int64_t kc) const { return (kc + k_step - 1) / k_step; }
  int64_t packed_a_bytes(int64_t m, int64_t kc) const {
    return m * steps(kc) * cell_bytes + kPackSlack;
  }
  int64_t packed_b_bytes(int64_t n, int64_t kc) const {
    return (n + nr - 1) / nr * nr * steps(kc) * cell_bytes;
  }
  // Can rows of `k` elements with these strides be read cell by cell where they are?
  bool is_cells(int64_t x_stride, int64_t k_stride, int64_t k) const {
    return k_step == 1 || (k_stride == 1 && x_stride % k_step == 0 && k % k_step == 0);
  }

  static constexpr int64_t kPackSlack = 64;  // bytes that pack_a may write behind its last panel
};
inline constexpr int64_t kThinRows = 4;

// By operand type; f16 is widened into f32's kernels when it is packed, i8, u8 and i16 into i32's,
// and bf16 into f32's where the ISA has no bf16 dot product.
struct KernelTable {
  TypeKernels f32, f64, i32, i64, bf16;
};

const KernelTable& avx2_kernels();
// Call these only where the host supports them.
const KernelTable& avx512_kernels();
const TypeKernels& avx512_bf16_dot();  // vdpbf16ps, a step of two k
const TypeKernels& amx_bf16_dot();     // tdpbf16ps, a step of 32 k

// The table of host_isa(); tests force another one for the calling process (null: back to
// host_isa()'s).
const KernelTable& active_kernels();
void force_kernels(const KernelTable* table);

}  // namespace nax::matmul_detail
