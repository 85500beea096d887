#include <array>

#include "tests/device/interpreter/launch.h"

namespace nax::testing {
namespace {

const char* kSoftmax = R"(
program softmax {
  ops 4
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 write
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

// Layer norm in bf16 with weight and bias along the row.
const char* kLayerNorm = R"(
program layer_norm {
  arg x: view bf16 rank 2 read
  arg w: view bf16 rank 1 read
  arg y: view bf16 rank 2 write
  arg rstd: view f32 rank 1 write
  arg inv: scalar f32
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile q: f32 [r, c]
    tile g: f32 [r, c]
    tile m: f32 [r, 1]
    tile v: f32 [r, 1]
    tile o: bf16 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    m = tensor_reduce sum(a)
    m = tensor_scalar multiply(m, inv)
    a = tensor_scalar subtract(a, m)
    q = tensor_scalar square(a)
    v = tensor_reduce sum(q)
    v = tensor_scalar multiply(v, inv)
    v = tensor_scalar add(v, 1e-5)
    v = activation rsqrt(v)
    rstd[r * stride(rstd, 0)] = dma_copy(v)
    a = tensor_scalar multiply(a, v)
    g = dma_copy(w[c * stride(w, 0)])
    a = tensor_tensor multiply(a, g)
    o = tensor_copy(a)
    y[r * stride(y, 0) + c * stride(y, 1)] = dma_copy(o)
  }
}
)";

const char* kColumnSum = R"(
program column_sum {
  arg x: view f32 rank 2 read
  arg y: view bf16 rank 1 write
  arg z: view f32 rank 1 write
  nest {
    partition r: size(x, 0) carried
    free c: size(x, 1) tile 512
    tile a: f32 [r, c]
    tile b: f32 [r, c]
    tile s: f32 [1, c]
    tile t: f32 [1, c]
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    s = tensor_partition_reduce sum(a)
    b = tensor_scalar square(a)
    t = tensor_partition_reduce max(b)
    finish {
      s = tensor_scalar multiply(s, 0.5)
      y[c * stride(y, 0)] = dma_copy(s)
      z[c * stride(z, 0)] = dma_copy(t)
    }
  }
}
)";

const char* kLongSum = R"(
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

// Long columns: blocks of 300 rows stand for the 65536 of a lowering, and a tree over them.
const char* kLongColumns = R"(
program long_columns {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 1 write
  arg w: scratch f32 elements %all
  %n = size(x, 0)
  %blocks = ceil_div(%n, 300)
  %all = %blocks * size(x, 1)
  nest {
    loop b: %blocks
    partition r: 300 split b of %n carried
    free c: size(x, 1) tile 512
    tile a: f32 [r, c]
    tile s: f32 [1, c]
    a = dma_copy(x[b * (300 * stride(x, 0)) + r * stride(x, 0) + c * stride(x, 1)])
    s = tensor_partition_reduce sum(a)
    finish {
      w[b * size(x, 1) + c] = dma_copy(s)
    }
  }
  nest {
    partition b: %blocks carried
    free c: size(x, 1) tile 512
    tile a: f32 [b, c]
    tile s: f32 [1, c]
    a = dma_copy(w[b * size(x, 1) + c])
    s = tensor_partition_reduce sum(a) order tree
    finish {
      y[c * stride(y, 0)] = dma_copy(s)
    }
  }
}
)";

// Both directions at once, as in a norm's backward: row sums, column sums, and a sum of all.
const char* kBoth = R"(
program both {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 1 write
  arg z: view f32 rank 1 write
  arg o: view f32 rank 1 write
  nest {
    partition r: size(x, 0) carried
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile m: f32 [r, 1]
    tile s: f32 [1, c]
    tile t: f32 [1, 1]
    tile u: f32 [1, 1]
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    m = tensor_reduce sum(a)
    y[r * stride(y, 0)] = dma_copy(m)
    a = tensor_scalar multiply(a, m)
    s = tensor_partition_reduce sum(a)
    t = tensor_partition_reduce sum(m)
    finish {
      z[c * stride(z, 0)] = dma_copy(s)
      u = tensor_reduce sum(s)
      t = tensor_tensor add(t, u)
      o[] = dma_copy(t)
    }
  }
}
)";

const char* kScan = R"(
program scan {
  arg x: view bf16 rank 2 read
  arg y: view bf16 rank 2 write
  arg z: view f32 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: bf16 [r, c]
    tile b: bf16 [r, c]
    tile d: f32 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    b = tensor_tensor_scan sum(a)
    d = tensor_tensor_scan max(a)
    d = tensor_tensor multiply(d, a)
    y[r * stride(y, 0) + c * stride(y, 1)] = dma_copy(b)
    z[r * stride(z, 0) + c * stride(z, 1)] = dma_copy(d)
  }
}
)";

constexpr int64_t kRows[] = {1, 2, 5, 127, 128, 129, 300};
constexpr int64_t kColumns[] = {1, 2, 15, 16, 17, 33, 511, 512, 513, 1025, 2049, 5000};

template <class F>
void each_size(int64_t most, F&& f) {
  for (int64_t r : kRows)
    for (int64_t c : kColumns)
      if (r * c <= most) f(r, c);
}

TEST_CASE("softmax") {
  const Program p = parse(kSoftmax);
  std::mt19937_64 rng(3);
  each_size(40000, [&](int64_t r, int64_t c) {
    CAPTURE(r);
    CAPTURE(c);
    Launch launch(p);
    launch.contiguous(0, {r, c});
    launch.contiguous(1, {r, c});
    launch.fill(rng, r % 2 ? 0.0 : 0.001);
    check(p, launch);
    // Transposed in, in place.
    Launch other(p);
    other.view(0, {r, c}, {1, r});
    other.same_as(1, 0);
    other.fill(rng, 0.0);
    check(p, other);
  });
}

TEST_CASE("softmax and layer norm on many rows use the threads") {
  std::mt19937_64 rng(4);
  for (const char* text : {kSoftmax, kLayerNorm}) {
    const Program p = parse(text);
    Launch launch(p);
    launch.contiguous(0, {400, 1000});
    if (text == kSoftmax) {
      launch.contiguous(1, {400, 1000});
    } else {
      launch.contiguous(1, {1000});
      launch.contiguous(2, {400, 1000});
      launch.contiguous(3, {400});
      launch.scalar(4, 1e-3);
    }
    launch.fill(rng, 0);
    check(p, launch);
  }
}

TEST_CASE("layer norm in bf16") {
  const Program p = parse(kLayerNorm);
  std::mt19937_64 rng(5);
  each_size(20000, [&](int64_t r, int64_t c) {
    CAPTURE(r);
    CAPTURE(c);
    Launch launch(p);
    launch.contiguous(0, {r, c});
    launch.view(1, {c}, {c % 2 ? 1 : 2});
    launch.view(2, {r, c}, {c + 3, 1});
    launch.contiguous(3, {r});
    launch.scalar(4, 1.0 / static_cast<double>(c));
    launch.fill(rng, 0);
    check(p, launch);
  });
}

TEST_CASE("reductions of nothing") {
  std::mt19937_64 rng(6);
  const Program rows = parse(kSoftmax);
  for (auto [r, c] : {std::pair<int64_t, int64_t>{0, 5}, {5, 0}, {0, 0}}) {
    Launch launch(rows);
    launch.contiguous(0, {r, c});
    launch.contiguous(1, {r, c});
    launch.fill(rng, 0);
    check(rows, launch);
  }
  const Program norm = parse(kLayerNorm);
  Launch launch(norm);
  launch.contiguous(0, {5, 0});
  launch.contiguous(1, {0});
  launch.contiguous(2, {5, 0});
  launch.contiguous(3, {5});
  launch.scalar(4, 1);
  launch.fill(rng, 0);
  check(norm, launch);
  const Program columns = parse(kColumnSum);
  for (auto [r, c] : {std::pair<int64_t, int64_t>{0, 5}, {5, 0}}) {
    Launch l(columns);
    l.contiguous(0, {r, c});
    l.contiguous(1, {c});
    l.contiguous(2, {c});
    l.fill(rng, 0);
    check(columns, l);
  }
}

TEST_CASE("column sums") {
  const Program p = parse(kColumnSum);
  std::mt19937_64 rng(7);
  const auto run = [&](int64_t r, int64_t c, int64_t rs, int64_t cs) {
    CAPTURE(r);
    CAPTURE(c);
    Launch launch(p);
    launch.view(0, {r, c}, {rs, cs});
    launch.contiguous(1, {c});
    launch.contiguous(2, {c});
    launch.fill(rng, 0.001);
    check(p, launch);
  };
  each_size(40000, [&](int64_t r, int64_t c) {
    run(r, c, c, 1);
    run(r, c, 1, r);
  });
  run(4096, 33, 33, 1);
  run(5000, 80, 160, 1);
  run(1000, 500, 500, 1);
}

// The middle dimension, for each of many outer points.
TEST_CASE("column sums under parallel loops with few columns") {
  const Program p = parse(R"(
program middle_sum {
  arg x: view bf16 rank 4 read
  arg w: view f32 rank 1 read
  arg y: view bf16 rank 3 write
  nest {
    loop i: size(x, 0)
    loop j: size(x, 1)
    partition r: size(x, 2) carried
    free c: size(x, 3) tile 512
    tile a: f32 [r, c]
    tile s: f32 [1, c]
    tile v: f32 [1, c]
    a = dma_copy(x[i * stride(x, 0) + j * stride(x, 1) + r * stride(x, 2) + c * stride(x, 3)])
    s = tensor_partition_reduce sum(a)
    finish {
      v = dma_copy(w[c * stride(w, 0)])
      s = tensor_tensor multiply(s, v)
      y[i * stride(y, 0) + j * stride(y, 1) + c * stride(y, 2)] = dma_copy(s)
    }
  }
})");
  std::mt19937_64 rng(12);
  for (auto [i, j, r, c] : {std::array<int64_t, 4>{40, 3, 5, 7}, {1, 1, 300, 3}, {7, 1, 1, 9}, {200, 9, 4, 1}, {3, 2, 150, 700}, {300, 4, 20, 33}, {5, 0, 3, 2}, {4, 3, 0, 2}}) {
    CAPTURE(i);
    for (bool permuted : {false, true}) {
      Launch launch(p);
      if (permuted) launch.view(0, {i, j, r, c}, {j * r * c, 1, j * c, j});
      else launch.contiguous(0, {i, j, r, c});
      launch.contiguous(1, {c});
      if (permuted) launch.view(2, {i, j, c}, {1, i * c, i});
      else launch.contiguous(2, {i, j, c});
      launch.fill(rng, 0);
      check(p, launch);
    }
  }
}

TEST_CASE("long rows and long columns go through a tree") {
  std::mt19937_64 rng(8);
  const Program rows = parse(kLongSum);
  for (int64_t n : {1, 65535, 65536, 65537, 200001, 330000}) {
    CAPTURE(n);
    Launch launch(rows);
    launch.contiguous(0, {n});
    launch.contiguous(1, {1});
    launch.fill(rng, 0);
    check(rows, launch);
  }
  const Program columns = parse(kLongColumns);
  for (int64_t n : {1, 299, 300, 301, 1000, 2100})
    for (int64_t c : {1, 20, 300}) {
      CAPTURE(n);
      CAPTURE(c);
      Launch launch(columns);
      launch.contiguous(0, {n, c});
      launch.contiguous(1, {c});
      launch.fill(rng, 0);
      check(columns, launch);
    }
}

TEST_CASE("row and column reductions in one nest") {
  const Program p = parse(kBoth);
  std::mt19937_64 rng(9);
  each_size(40000, [&](int64_t r, int64_t c) {
    CAPTURE(r);
    CAPTURE(c);
    Launch launch(p);
    launch.contiguous(0, {r, c});
    launch.contiguous(1, {r});
    launch.contiguous(2, {c});
    launch.contiguous(3, {1});
    launch.fill(rng, 0);
    check(p, launch);
  });
  Launch launch(p);
  launch.contiguous(0, {2000, 150});
  launch.contiguous(1, {2000});
  launch.contiguous(2, {150});
  launch.contiguous(3, {1});
  launch.fill(rng, 0);
  check(p, launch);
}

TEST_CASE("scans") {
  const Program p = parse(kScan);
  std::mt19937_64 rng(10);
  each_size(20000, [&](int64_t r, int64_t c) {
    CAPTURE(r);
    CAPTURE(c);
    Launch launch(p);
    launch.contiguous(0, {r, c});
    launch.view(1, {r, c}, {1, r});
    launch.contiguous(2, {r, c});
    launch.fill(rng, 0.0);
    check(p, launch);
  });
}

}  // namespace
}  // namespace nax::testing
