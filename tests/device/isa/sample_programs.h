// Hand-written programs that pass the verifier, for tests of several folders.
#pragma once

namespace nax::samples {

inline constexpr const char* kChain = R"(
program chain {
  ops 3
  arg x: view f32 rank 2 read
  arg w: view bf16 rank 1 read
  arg s: scalar f32
  arg y: view bf16 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1) tile 2048
    tile a: f32 [r, c]
    tile b: bf16 [r, c]
    tile m: bool [r, c]
    tile o: bf16 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    b = dma_copy(w[c * stride(w, 0)])
    a = tensor_tensor multiply(a, b)
    m = tensor_scalar greater(a, s) op 1
    a = activation exp(a) op 1
    o = x.select(m, a, 0.0) op 2
    y[r * stride(y, 0) + c * stride(y, 1)] = dma_copy(o) op 2
  }
}
)";

inline constexpr const char* kSoftmax = R"(
program softmax {
  ops 4
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 write
  guard size(x, 1) <= 16384
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile m: f32 [r, 1]
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    m = tensor_reduce max(a)
    a = tensor_scalar subtract(a, m) op 1
    a = activation exp(a) op 1
    m = tensor_reduce sum(a) op 2
    a = x.pointwise x.divide(a, m) op 3
    y[r * stride(y, 0) + c * stride(y, 1)] = dma_copy(a) op 3
  }
}
)";

inline constexpr const char* kRowSum = R"(
program row_mean {
  arg x: view bf16 rank 2 read
  arg y: view bf16 rank 1 write
  arg inv: scalar f32
  nest {
    partition r: size(x, 0)
    free c: size(x, 1) tile 2048
    tile a: bf16 [r, c]
    tile s: f32 [r, 1]
    tile o: bf16 [r, 1]
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    s = tensor_reduce sum(a)
    finish {
      o = tensor_scalar multiply(s, inv)
      y[r * stride(y, 0)] = dma_copy(o)
    }
  }
}
)";

inline constexpr const char* kColumnSum = R"(
program column_sum {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 1 write
  nest {
    partition r: size(x, 0) carried
    free c: size(x, 1) tile 2048
    tile a: f32 [r, c]
    tile s: f32 [1, c]
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    s = tensor_partition_reduce sum(a)
    finish {
      y[c * stride(y, 0)] = dma_copy(s)
    }
  }
}
)";

// Rows longer than 65536 elements: blocks, then a tree over their sums.
inline constexpr const char* kLongSum = R"(
program long_sum {
  arg x: view f32 rank 1 read
  arg y: view f32 rank 1 write
  arg w: scratch f32 elements %blocks
  %n = size(x, 0)
  %blocks = ceil_div(%n, 65536)
  nest {
    partition b: %blocks
    free c: 65536 split b of %n tile 2048
    tile a: f32 [b, c]
    tile s: f32 [b, 1]
    a = dma_copy(x[b * (65536 * stride(x, 0)) + c * stride(x, 0)])
    s = tensor_reduce sum(a)
    finish {
      w[b] = dma_copy(s)
    }
  }
  nest {
    partition r: 1
    free b: %blocks
    tile a: f32 [r, b]
    tile s: f32 [r, 1]
    a = dma_copy(w[b])
    s = tensor_reduce sum(a) order tree
    y[] = dma_copy(s)
  }
}
)";

inline constexpr const char* kMatmulRelu = R"(
program matmul_relu {
  ops 2
  arg a: view bf16 rank 2 read
  arg b: view bf16 rank 2 read
  arg y: view bf16 rank 2 write
  nest {
    partition m: size(a, 0)
    free n: size(b, 1) tile 512
    contract k: size(a, 1)
    tile acc: psum f32 [m, n]
    tile o: bf16 [m, n]
    acc = matmul(a[m * stride(a, 0) + k * stride(a, 1)], b[k * stride(b, 0) + n * stride(b, 1)])
    o = tensor_copy(acc)
    o = activation relu(o) op 1
    y[m * stride(y, 0) + n * stride(y, 1)] = dma_copy(o) op 1
  }
}
)";

inline constexpr const char* kGather = R"(
program gather_rows {
  arg table: view f32 rank 2 read
  arg ids: view i64 rank 1 read
  arg y: view f32 rank 2 read write
  nest {
    partition r: size(ids, 0) sequential
    free c: size(table, 1)
    tile i: i64 [r, 1]
    tile v: f32 [r, c]
    i = dma_copy(ids[r * stride(ids, 0)])
    v = dma_copy(table[c * stride(table, 1) + index(i, stride(table, 0), size(table, 0))])
    y[r * stride(y, 0) + c * stride(y, 1)] += dma_copy(v)
  }
}
)";

inline constexpr const char* kRandom = R"(
program random_bits {
  arg s: seed
  arg y: view i32 rank 1 write
  arg z: view i64 rank 1 write
  %n = size(y, 0)
  nest {
    partition r: ceil_div(%n, 512)
    free c: 512 split r of %n
    tile t: i32 [r, c]
    tile u: i64 [r, c]
    t = x.philox(s, [r * 512 + c])
    u = iota(c, 0, 3)
    y[r * (512 * stride(y, 0)) + c * stride(y, 0)] = dma_copy(t)
    z[r * (512 * stride(z, 0)) + c * stride(z, 0)] = dma_copy(u)
  }
}
)";

// C[m, n] += A[m, k] B[k, n] in fp32, evicted to f32.
inline constexpr const char* kMatmulF32 = R"(
program matmul_f32 {
  arg a: view f32 rank 2 read
  arg b: view f32 rank 2 read
  arg y: view f32 rank 2 write
  nest {
    partition m: size(a, 0)
    free n: size(b, 1) tile 512
    contract k: size(a, 1)
    tile acc: psum f32 [m, n]
    tile o: f32 [m, n]
    acc = matmul(a[m * stride(a, 0) + k * stride(a, 1)], b[k * stride(b, 0) + n * stride(b, 1)])
    o = tensor_copy(acc)
    y[m * stride(y, 0) + n * stride(y, 1)] = dma_copy(o)
  }
}
)";

inline constexpr const char* kAll[] = {kChain,      kSoftmax, kRowSum, kColumnSum, kLongSum,
                                       kMatmulRelu, kGather,  kRandom, kMatmulF32};

}  // namespace nax::samples
