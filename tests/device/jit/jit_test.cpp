// The tier as other folders use it: whole programs with kernels attached, what is not covered, code that is really freed,
// compiles on several threads.
#include <atomic>
#include <fstream>
#include <thread>

#include "device/interpreter/build_lanes.h"
#include "device/jit/jit.h"
#include "tests/device/interpreter/launch.h"

namespace nax {
namespace {

using testing::Launch;
using testing::parse;

const char* kChain = R"(
program chain {
  arg x: view f32 rank 1 read
  arg y: view bf16 rank 1 read
  arg z: view bf16 rank 1 write
  arg s: scalar f32
  nest {
    partition r: ceil_div(size(x, 0), 2048)
    free c: 2048 split r of size(x, 0)
    tile a: f32 [r, c]
    tile b: f32 [r, c]
    tile t: f32 [r, c]
    tile u: bf16 [r, c]
    a = dma_copy(x[r * 2048 + c * 1])
    b = dma_copy(y[r * 2048 + c * 1])
    t = tensor_tensor multiply(a, b)
    t = tensor_scalar subtract(t, s)
    t = activation silu(t)
    u = tensor_tensor add(t, a)
    z[r * 2048 + c * 1] = dma_copy(u)
  }
}
)";

const char* kSoftmax = R"(
program softmax {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile m: f32 [r, 1]
    tile e: f32 [r, c]
    tile s: f32 [r, 1]
    tile o: f32 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c * 1])
    m = tensor_reduce max(a)
    a = tensor_scalar subtract(a, m)
    e = activation exp(a)
    s = tensor_reduce sum(e)
    o = x.pointwise x.divide(e, s)
    y[r * stride(y, 0) + c * 1] = dma_copy(o)
  }
}
)";

const char* kCumulative = R"(
program cumulative {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile b: f32 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c * 1])
    b = tensor_tensor_scan sum(a)
    y[r * stride(y, 0) + c * 1] = dma_copy(b)
  }
}
)";

std::shared_ptr<PreparedProgram> prepare(const Program& program) {
  auto prepared = PreparedProgram::prepare(std::make_shared<const Program>(program));
  REQUIRE_MESSAGE(prepared.ok(), std::string(prepared.ok() ? std::string_view() : prepared.status().message()));
  return std::move(prepared).value();
}

// Runs without and with kernels, on one and two threads; all results are equal and kernels did run.
void check_tiers(const Program& program, const Launch& launch, bool must_compile = true) {
  const auto plain = prepare(program), fast = prepare(program);
  int kernels = 0;
  const Status status = compile_program(*fast, &kernels);
  REQUIRE_MESSAGE(status.ok(), std::string(status.message()));
  CHECK(kernels == program.nests.size());
  std::vector<uint8_t> want_errors(program.op_count, 0);
  Launch want = launch;
  ThreadPool one(1);
  REQUIRE(plain->run(want.bound().data(), 1, one, want_errors.data()).ok());
  for (int threads : {1, 2}) {
    ThreadPool pool(threads);
    Launch got = launch;
    std::vector<uint8_t> errors(program.op_count, 0);
    REQUIRE(fast->run(got.bound().data(), 1, pool, errors.data()).ok());
    CHECK(got.difference(want) == "");
    CHECK(errors == want_errors);
  }
  CHECK(plain->stats(0).compiled == 0);
  if (must_compile) CHECK(fast->stats(0).compiled > 0);
}

TEST_CASE("whole programs give the same bytes with kernels attached") {
  std::mt19937_64 rng(5);
  const Program chain = parse(kChain);
  for (int64_t n : {0, 1, 15, 16, 17, 2047, 2048, 2049, 5000, 300000}) {
    Launch launch(chain);
    for (int a : {0, 1, 2}) launch.contiguous(a, {n});
    launch.scalar(3, 0.5);
    launch.fill(rng, 0.05);
    check_tiers(chain, launch, n >= 2048);
  }
  const Program softmax = parse(kSoftmax);
  for (int64_t width : {1, 16, 17, 511, 512, 1000, 5000}) {
    Launch launch(softmax);
    launch.view(0, {67, width}, {width + 5, 1});
    launch.contiguous(1, {67, width});
    launch.fill(rng, 0.001);
    check_tiers(softmax, launch, width >= 16);
  }
}

TEST_CASE("launches a kernel does not accept are interpreted") {
  const Program softmax = parse(kSoftmax);
  const auto prepared = prepare(softmax);
  int kernels = 0;
  REQUIRE(compile_program(*prepared, &kernels).ok());
  std::mt19937_64 rng(6);
  Launch launch(softmax);
  launch.contiguous(0, {9, 3});
  launch.contiguous(1, {9, 3});
  launch.fill(rng, 0);
  ThreadPool one(1);
  uint8_t errors = 0;
  REQUIRE(prepared->run(launch.bound().data(), 1, one, &errors).ok());
  CHECK(prepared->stats(0).compiled == 0);
  CHECK(prepared->stats(0).interpreted > 0);
}

TEST_CASE("quick code first where it gains, better code on request, kept once made") {
  Program p = parse(kChain);
  p.args[1].dtype = DType::kF32;  // all fp32, five functions
  p.args[2].dtype = DType::kF32;
  for (Tile& t : p.nests[0].tiles) t.dtype = DType::kF32;
  Instr more = p.nests[0].body[2];
  more.src[0].id = more.src[1].id = more.dst;
  p.nests[0].body.insert(p.nests[0].body.begin() + 3, more);
  const auto chain = prepare(p), softmax = prepare(parse(kSoftmax));
  const int64_t before = jit_stats().compiled;
  int kernels = 0;
  for (int level : {0, 0, 1, 1, 0}) {
    REQUIRE(compile_program(*chain, level, &kernels).ok());
    CHECK(kernels == 1);
  }
  CHECK(chain->kernel(0)->level == 1);
  CHECK(jit_stats().compiled == before + 2);
  for (int level : {0, 1}) {
    REQUIRE(compile_program(*softmax, level, &kernels).ok());
    CHECK(kernels == 1);
    CHECK(softmax->kernel(0)->level == 1);
  }
  CHECK(jit_stats().compiled == before + 3);
}

TEST_CASE("what is not covered says so and stays with the interpreter") {
  const Program scan = parse(kCumulative);
  const auto lanes = build_lanes(scan, scan.nests[0], AliasRule::kDistinctArgs);
  REQUIRE(lanes.ok());
  const JitStats before = jit_stats();
  const auto kernel = compile_lanes(*lanes, {host_isa(), 1});
  REQUIRE(!kernel.ok());
  CHECK(kernel.status().code() == StatusCode::kUnimplemented);
  CHECK(kernel.status().message().find("scans") != std::string_view::npos);
  CHECK(jit_stats().uncovered == before.uncovered + 1);
  int kernels = -1;
  CHECK(compile_program(*prepare(scan), &kernels).ok());
  CHECK(kernels == 0);
}

size_t executable_mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find(" r-xp ") != std::string::npos) ++count;
  return count;
}

TEST_CASE("code is unmapped when its last user lets go") {
  const Program chain = parse(kChain);
  const auto lanes = build_lanes(chain, chain.nests[0], AliasRule::kDistinctArgs);
  REQUIRE(lanes.ok());
  const auto compile = [&] {
    auto kernel = compile_lanes(*lanes, {host_isa(), 0});
    REQUIRE(kernel.ok());
    return std::move(kernel).value();
  };
  auto kept = compile();
  const int64_t live = jit_stats().live;
  const size_t mapped = executable_mappings();
  {
    std::vector<std::shared_ptr<const CompiledKernel>> many;
    for (int i = 0; i < 20; ++i) many.push_back(compile());
    CHECK(jit_stats().live == live + 20);
    CHECK(executable_mappings() > mapped);
  }
  CHECK(jit_stats().live == live);
  for (int i = 0; i < 20; ++i) compile();
  CHECK(executable_mappings() <= mapped);
}

TEST_CASE("threads compile, run and drop kernels at the same time") {
  const Program program = parse(kSoftmax);
  std::mt19937_64 rng(8);
  Launch launch(program);
  launch.contiguous(0, {20, 333});
  launch.contiguous(1, {20, 333});
  launch.fill(rng, 0);
  Launch want = launch;
  ThreadPool one(1);
  uint8_t ignored = 0;
  REQUIRE(prepare(program)->run(want.bound().data(), 1, one, &ignored).ok());
  const auto shared = prepare(program);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      ThreadPool inline_pool(1);
      for (int i = 0; i < 4; ++i) {
        int kernels = 0;
        if (!compile_program(*shared, i % 2, &kernels).ok() || kernels != 1) ++wrong;
        Launch got = launch;
        uint8_t errors = 0;
        if (!shared->run(got.bound().data(), 1, inline_pool, &errors).ok() || !got.difference(want).empty()) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace nax
