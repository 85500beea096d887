// Gather, scatter, accumulation in program order, sequential loops, generators, data errors, instances, kernels.
#include "tests/device/interpreter/launch.h"

namespace nax::testing {
namespace {

const char* kEmbedding = R"(
program embedding {
  ops 2
  arg ids: view i64 rank 1 read
  arg w: view bf16 rank 2 read
  arg y: view bf16 rank 2 write
  nest {
    partition r: size(ids, 0)
    free c: size(w, 1)
    tile i: i64 [r, 1]
    tile a: bf16 [r, c]
    i = dma_copy(ids[r * stride(ids, 0)])
    a = dma_copy(w[c * stride(w, 1) + index(i, stride(w, 0), size(w, 0))]) op 1
    y[r * stride(y, 0) + c * stride(y, 1)] = dma_copy(a) op 1
  }
}
)";

const char* kGather = R"(
program gather {
  arg ids: view i32 rank 2 read
  arg x: view i16 rank 2 read
  arg y: view i16 rank 2 write
  nest {
    partition r: size(ids, 0)
    free c: size(ids, 1)
    tile i: i32 [r, c]
    tile a: i16 [r, c]
    i = dma_copy(ids[r * stride(ids, 0) + c * stride(ids, 1)])
    a = dma_copy(x[c * stride(x, 1) + index(i, stride(x, 0), size(x, 0))])
    a = tensor_scalar add(a, 1)
    y[r * stride(y, 0) + c * stride(y, 1)] = dma_copy(a)
  }
}
)";

// index_add along rows; `accumulate` or overwrite.
std::string scatter(const char* dtype, const char* op, const char* index_shape) {
  const std::string at = std::string(index_shape) == "[r, c]" ? "ids[r * stride(ids, 0) + c]" : "ids[r * stride(ids, 0)]";
  return std::string(R"(
program scatter {
  arg ids: view i64 rank 2 read
  arg x: view )") + dtype + R"( rank 2 read
  arg y: view )" + dtype + R"( rank 2 )" + (std::string(op) == "+=" ? "read write" : "write") + R"(
  nest {
    partition r: size(x, 0) sequential
    free c: size(x, 1)
    tile i: i64 )" + index_shape + R"(
    tile a: )" + dtype + R"( [r, c]
    i = dma_copy()" + at + R"()
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    y[c * stride(y, 1) + index(i, stride(y, 0), size(y, 0))] )" + op + R"( dma_copy(a)
  }
}
)";
}

// A running product down the rows, through memory: each row reads what the row above stored.
const char* kRecurrence = R"(
program recurrence {
  arg x: view f32 rank 2 read
  arg h: view f32 rank 2 read write
  nest {
    loop b: 1
    partition r: size(x, 0) sequential
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile p: f32 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    p = dma_copy(h[r * stride(h, 0) + c * stride(h, 1)])
    p = tensor_scalar multiply(p, 0.5)
    p = tensor_tensor add(p, a)
    h[stride(h, 0) + r * stride(h, 0) + c * stride(h, 1)] = dma_copy(p)
  }
}
)";

const char* kGenerators = R"(
program generators {
  arg s: seed
  arg y: view i32 rank 2 write
  arg z: view f32 rank 2 write
  arg w: view i64 rank 2 write
  nest {
    partition r: size(y, 0)
    free c: size(y, 1)
    tile b: i32 [r, c]
    tile l: i64 [r, c]
    tile i: f32 [r, c]
    tile j: i64 [r, c]
    b = x.philox(s, [r * size(y, 1) + c])
    l = x.philox(s, [7 + c])
    i = iota(c, 0.5, 0.1)
    j = iota(r, -3, 7)
    j = x.pointwise add(j, l)
    y[r * stride(y, 0) + c * stride(y, 1)] = dma_copy(b)
    z[r * stride(z, 0) + c * stride(z, 1)] = dma_copy(i)
    w[r * stride(w, 0) + c * stride(w, 1)] = dma_copy(j)
  }
}
)";

void put_ids(Launch& launch, int arg, int64_t n, int64_t size, std::mt19937_64& rng, bool bad) {
  int64_t* ids = launch.data<int64_t>(arg);
  for (int64_t i = 0; i < n; ++i) ids[i] = static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * size)) - size;
  if (bad) ids[n / 2] = size;
}

TEST_CASE("embedding: rows by index, negative ones from the end, others are errors") {
  const Program p = parse(kEmbedding);
  std::mt19937_64 rng(20);
  for (int64_t rows : {1, 3, 130, 700})
    for (int64_t width : {1, 5, 33, 600})
      for (bool bad : {false, true}) {
        Launch launch(p);
        launch.contiguous(0, {rows});
        if (rows % 2) launch.contiguous(1, {50, width});
        else launch.view(1, {50, width}, {1, 50});
        launch.contiguous(2, {rows, width});
        launch.fill(rng, 0);
        put_ids(launch, 0, rows, 50, rng, bad);
        const auto errors = check(p, launch);
        CHECK(errors[0] == 0);
        CHECK(errors[1] == (bad ? kOpIndexOutOfRange : 0));
      }
}

TEST_CASE("gather: an index for each element, into an empty range too") {
  const Program p = parse(kGather);
  std::mt19937_64 rng(21);
  for (int64_t size : {1, 9, 0}) {
    Launch launch(p);
    launch.contiguous(0, {70, 41});
    launch.contiguous(1, {size, 41});
    launch.contiguous(2, {70, 41});
    launch.fill(rng, 0);
    int32_t* ids = launch.data<int32_t>(0);
    for (int i = 0; i < 70 * 41; ++i) ids[i] = static_cast<int32_t>(rng() % 18) - 9;
    const auto errors = check(p, launch);
    CHECK(errors[0] == (size == 9 ? 0 : kOpIndexOutOfRange));
  }
}

TEST_CASE("scatter keeps program order for repeated indices") {
  std::mt19937_64 rng(22);
  for (const char* dtype : {"f32", "bf16", "i64", "u8", "f64"})
    for (const char* op : {"=", "+="})
      for (const char* shape : {"[r, 1]", "[r, c]"})
        for (int64_t width : {1, 20, 600})
          for (bool bad : {false, true}) {
            const Program p = parse(scatter(dtype, op, shape));
            Launch launch(p);
            const int64_t rows = 90;
            launch.contiguous(0, {rows, std::string(shape) == "[r, c]" ? width : 1});
            launch.contiguous(1, {rows, width});
            launch.contiguous(2, {7, width});
            launch.fill(rng, 0);
            put_ids(launch, 0, rows * (std::string(shape) == "[r, c]" ? width : 1), 7, rng, bad);
            const auto errors = check(p, launch);
            CHECK(errors[0] == (bad ? kOpIndexOutOfRange : 0));
          }
}

TEST_CASE("a sequential axis sees what it stored before") {
  const Program p = parse(kRecurrence);
  std::mt19937_64 rng(23);
  for (int64_t rows : {1, 2, 200})
    for (int64_t width : {1, 33, 1500}) {
      Launch launch(p);
      launch.contiguous(0, {rows, width});
      launch.contiguous(1, {rows + 1, width});
      launch.fill(rng, 0);
      check(p, launch);
    }
}

TEST_CASE("random bits and ranges") {
  const Program p = parse(kGenerators);
  std::mt19937_64 rng(24);
  for (auto [r, c] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {130, 33}, {40, 3000}}) {
    Launch launch(p);
    launch.seed(0, 0x123456789ABCDEFull, 77);
    launch.contiguous(1, {r, c});
    launch.view(2, {r, c}, {1, r});
    launch.contiguous(3, {r, c});
    launch.fill(rng, 0);
    check(p, launch);
  }
  // Known answer of the Random123 distribution: counter 0, key 0.
  CHECK(reference::philox(0, 0, 0) == 0x6627e8d5u);
  CHECK(reference::philox(0, 0, 1) == 0xe169c58du);
  CHECK(reference::philox(0, 0, 2) == 0xbc57ac4cu);
  CHECK(reference::philox(0, 0, 3) == 0x9b00dbd8u);
}

TEST_CASE("integer division by zero names its op") {
  const Program p = parse(R"(
program divide {
  ops 3
  arg x: view i64 rank 1 read
  arg y: view i64 rank 1 read
  arg z: view i64 rank 1 write
  nest {
    free c: size(x, 0)
    tile a: i64 [p, c]
    tile b: i64 [p, c]
    a = dma_copy(x[c])
    b = dma_copy(y[c])
    a = x.pointwise x.floor_divide(a, b) op 1
    a = x.pointwise x.remainder(a, 3) op 2
    z[c] = dma_copy(a) op 2
  }
})");
  std::mt19937_64 rng(25);
  for (int64_t n : {1, 100, 5000, 300000}) {
    Launch launch(p);
    for (int a : {0, 1, 2}) launch.contiguous(a, {n});
    launch.fill(rng, 0);
    for (int64_t i = 0; i < n; ++i) launch.data<int64_t>(1)[i] |= 1;
    CHECK(check(p, launch) == std::vector<uint8_t>{0, 0, 0});
    launch.data<int64_t>(1)[n - 1] = 0;
    CHECK(check(p, launch) == std::vector<uint8_t>{0, kOpIntegerDivideByZero, 0});
  }
}

TEST_CASE("instances are independent, whatever their sizes") {
  const Program p = parse(R"(
program sgd {
  arg x: view f32 rank 1 read write
  arg g: view f32 rank 1 read
  arg lr: scalar f32
  arg t: scratch f32 elements size(x, 0)
  nest {
    free c: size(x, 0)
    tile a: f32 [p, c]
    a = dma_copy(g[c * stride(g, 0)])
    a = tensor_scalar multiply(a, lr)
    t[c] = dma_copy(a)
  }
  nest {
    free c: size(x, 0)
    tile a: f32 [p, c]
    tile b: f32 [p, c]
    a = dma_copy(x[c])
    b = dma_copy(t[c])
    a = tensor_tensor subtract(a, b)
    x[c] = dma_copy(a)
  }
})");
  REQUIRE_MESSAGE(verify(p).ok(), std::string(verify(p).message()));
  auto prepared = PreparedProgram::prepare(std::make_shared<const Program>(p));
  REQUIRE(prepared.ok());
  std::mt19937_64 rng(26);
  std::vector<Launch> launches;
  for (int64_t n : {1, 5000, 0, 70000, 700000, 3, 30000, 30000, 30000, 1000}) {
    Launch launch(p);
    launch.contiguous(0, {n});
    launch.view(1, {n}, {n % 3 == 0 ? 2 : 1});
    launch.scalar(2, 0.125 * static_cast<double>(n % 7));
    launch.fill(rng, 0);
    launches.push_back(launch);
  }
  for (int threads : {1, 2}) {
    std::vector<Launch> got = launches, expected = launches;
    std::vector<ArgValue> rows;
    for (Launch& l : got)
      for (const ArgValue& v : l.bound()) rows.push_back(v);
    uint8_t errors = 0;
    ThreadPool pool(threads);
    REQUIRE((*prepared)->run(rows.data(), static_cast<int64_t>(got.size()), pool, &errors).ok());
    for (size_t i = 0; i < got.size(); ++i) {
      reference::Evaluator(p, expected[i].bound().data(), &errors).run();
      CHECK(got[i].difference(expected[i]) == "");
    }
  }
}

// Stands for compiled code: doubles what it finds, so that a test can tell which tier ran.
void doubling(const RowRunArgs* args, int64_t p0, int64_t p1, int64_t f0, int64_t f1) {
  for (int64_t p = p0; p < p1; ++p)
    for (int64_t f = f0; f < f1; ++f) {
      const AccessRun &x = args->accesses[0], &y = args->accesses[1];
      reinterpret_cast<float*>(y.base)[p * y.row_stride + f * y.free_stride[0]] =
          2 * reinterpret_cast<const float*>(x.base)[p * x.row_stride + f * x.free_stride[0]];
    }
}

TEST_CASE("an attached kernel runs where its conditions hold, and strips elsewhere") {
  const Program p = parse(R"(
program copy {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: f32 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])
    y[r * stride(y, 0) + c * stride(y, 1)] = dma_copy(a)
  }
})");
  auto prepared = PreparedProgram::prepare(std::make_shared<const Program>(p));
  REQUIRE(prepared.ok());
  auto kernel = std::make_shared<CompiledKernel>();
  kernel->run = doubling;
  kernel->inner = {InnerStride::kUnit, InnerStride::kAny};
  (*prepared)->attach_kernel(0, kernel);
  ThreadPool pool(2);
  std::mt19937_64 rng(27);
  uint8_t errors = 0;
  const auto factor = [&](int64_t stride) {
    Launch launch(p);
    launch.view(0, {600, 200}, {600, stride});
    launch.contiguous(1, {600, 200});
    launch.fill(rng, 0);
    launch.data<float>(0)[600 * 599 + 199 * stride] = 3;
    REQUIRE((*prepared)->run(launch.bound().data(), 1, pool, &errors).ok());
    return launch.data<float>(1)[600 * 200 - 1] / 3;
  };
  CHECK(factor(1) == 2);
  CHECK(factor(3) == 1);
  CHECK((*prepared)->stats(0).compiled == 1);
  CHECK((*prepared)->stats(0).interpreted == 1);
  (*prepared)->attach_kernel(0, nullptr);
  CHECK(factor(1) == 1);
}

TEST_CASE("what cannot run is refused with a reason") {
  Program p = parse(R"(
program bad {
  arg x: view c64 rank 1 read
  arg y: view f32 rank 1 write
  nest {
    free c: size(x, 0)
    tile a: f32 [p, c]
    a = dma_copy(x[c])
    y[c] = dma_copy(a)
  }
})");
  auto prepared = PreparedProgram::prepare(std::make_shared<const Program>(p));
  REQUIRE(!prepared.ok());
  CHECK(prepared.status().code() == StatusCode::kUnimplemented);
  CHECK(prepared.status().message() ==
        "program bad, nest 0: dma_copy of c64: allowed are bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64");
}

}  // namespace
}  // namespace nax::testing
