// Compiled with AVX-512's flags and -mavx512bf16; runs only where host_has_avx512_bf16().
//
// A step is vdpbf16ps: acc = fma(a[1], b[1], acc), then acc = fma(a[0], b[0], acc), each rounded to
// nearest even, subnormal operands and results taken as zero.
#include <immintrin.h>

#include <cstdint>

#include "device/matmul/kernel_table.h"

namespace nax::matmul_detail {
namespace {

#include "device/matmul/kernel_sources.h"
#include "device/matmul/lanes_avx512.h"

struct BF16Dot : BF16Pairs {
  static V fma(V a, V b, V acc) {
    return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

#include "device/matmul/kernel_impl.h"

}  // namespace

const TypeKernels& avx512_bf16_dot() {
  static constexpr TypeKernels kernels = make_kernels<BF16Dot>(DType::kBF16);
  return kernels;
}

}  // namespace nax::matmul_detail
