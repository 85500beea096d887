// What one ISA's translation unit offers to the ISA-neutral driver. Everything else in those units
// has internal linkage, so that the linker can never pick wide code for a narrow machine (no comdat
// mixing).
#pragma once

#include <cstdint>

#include "device/base/dtype.h"

namespace nax::matmul_detail {

// C[m x n] (+)= A[m x kc] * B[kc x n] in the accumulator type. Strides and ld count elements.
struct BlockArgs {
  int64_t m, n, kc;
  // Packed (pack_a of the same m): panels one after the other. Otherwise element (i, k) at a[i *
  // a_row + k * a_k].
  const void* a;
  bool a_packed;
  int64_t a_row, a_k;
  // block: element (k, j) at b[j / nr * b_panel + k * b_k + j % nr]; whole panels of nr are read.
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

// Kernels of one accumulator type.
struct TypeKernels {
  int mr, nr;  // register block
  void (*pack_a)(
      const PackArgs&);  // ceil(extent / mr) panels of nearly equal width, [k][width]; + kPackSlack
  void (*pack_b)(
      const PackArgs&);  // ceil(extent / nr) panels, [k][nr], the last one padded with zeros
  void (*block)(const BlockArgs&);
  // At most kThinRows rows against a B whose k is contiguous (y = W x): turns B in registers
  // instead of packing it. Null where there is none.
  void (*thin)(const BlockArgs&);
};
inline constexpr int64_t kThinRows = 4;
inline constexpr int64_t kPackSlack = 16;  // elements that pack_a may write behind its last panel

// A dot-product kernel for bf16 (AVX512-BF16, AMX) would be one more entry here, with its own
// packing by pairs.
struct KernelTable {
  TypeKernels f32, f64, i32, i64;
};

const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();  // call only where the host supports it

// The table of host_isa(); tests force another one for the calling process (null: back to
// host_isa()'s).
const KernelTable& active_kernels();
void force_kernels(const KernelTable* table);

}  // namespace nax::matmul_detail
