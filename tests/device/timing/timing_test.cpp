#include "device/timing/timing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/device/isa/bind_program.h"
#include "tests/device/isa/sample_programs.h"

namespace nax {
namespace {

TimingResult time_on(const Bound& b, const char* target, bool extrapolate = true) {
  return time_program(b.program, b.slots.data(), *find_target(target), {extrapolate});
}

double busy(const TimingResult& r, Engine e) { return r.busy_ns[static_cast<size_t>(e)]; }
int64_t count(const TimingResult& r, Engine e) { return r.instructions[static_cast<size_t>(e)]; }

// C = A^T B with A stored as [k, m], as the NKI tutorials have it: no transposes.
std::string tutorial_matmul(const char* dtype) {
  const std::string t = dtype;
  return "program tutorial {\n arg a: view " + t + " rank 2 read\n arg b: view " + t +
         " rank 2 read\n arg y: view " + t +
         " rank 2 write\n nest {\n partition m: size(a, 1)\n free n: size(b, 1) tile 512\n "
         "contract k: size(a, 0)\n"
         " tile acc: psum f32 [m, n]\n tile o: " +
         t +
         " [m, n]\n acc = matmul(a[m + k * stride(a, 0)], b[k * stride(b, 0) + n])\n"
         " o = tensor_copy(acc)\n y[m * stride(y, 0) + n] = dma_copy(o)\n }\n}\n";
}

Bound tutorial(const char* dtype, int64_t m, int64_t k, int64_t n) {
  return bind(tutorial_matmul(dtype).c_str(), {{k, m}, {k, n}, {m, n}});
}

// ---- Fidelity: published measurements (facts 5.x). The schedule is ours, so only what both share
// is compared. ----------

TEST_CASE(
    "trn2, fp32 4096 x 8192 x 8192: PE-active within 3% of the tutorial's 28.16 ms (S5, versions 3 "
    "to 5)") {
  const TimingResult r = time_on(tutorial("f32", 4096, 8192, 8192), "trn2");
  // Both schedules are PE-bound and issue the same 32768 matmuls of 128 x 128 x 512; theirs blocks
  // n, m and k, ours keeps an m block of A in SBUF.
  CHECK(count(r, Engine::kPE) == 32768);
  CHECK(busy(r, Engine::kPE) / 1e6 == doctest::Approx(28.16).epsilon(0.03));
  CHECK(r.total_ns / 1e6 == doctest::Approx(28.30).epsilon(0.03));  // version 5, whole kernel
  CHECK_FALSE(r.approximate);
}

TEST_CASE("trn1, bf16 4096 x 8192 x 8192: within 3% of the optimised tutorial's 6.97 ms (S5)") {
  const TimingResult r = time_on(tutorial("bf16", 4096, 8192, 8192), "trn1");
  CHECK(r.total_ns / 1e6 == doctest::Approx(6.97).epsilon(0.03));  // 85 cycles of overhead a pass
}

TEST_CASE(
    "trn1, fp32 2048 x 4096 x 10944: within 5% of the best measured 9.356 ms (S14, "
    "transpose_matmul)") {
  // Theirs transposes its result or an operand on PE as well; ours transposes A once.
  Bound b = bind(samples::kMatmulF32, {{4096, 2048}, {2048, 10944}, {4096, 10944}});
  const TimingResult r = time_on(b, "trn1");
  CHECK(r.total_ns / 1e6 == doctest::Approx(9.356).epsilon(0.05));
}

constexpr const char* kSilu = R"(
program silu {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1) tile 512
    tile a: f32 [r, c]
    tile e: f32 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c])
    e = tensor_scalar multiply(a, -1.0) on act
    e = activation exp(e)
    e = tensor_scalar add(e, 1.0) on act
    e = x.pointwise reciprocal(e) on dve
    a = tensor_tensor multiply(a, e)
    y[r * stride(y, 0) + c] = dma_copy(a)
  }
})";

TEST_CASE(
    "trn1, silu 4096 x 7168 (S14): bytes exact, DVE-active within 10%, time between the best and "
    "the baseline") {
  // The same instructions as the baseline kernel on the same 448 tiles of 512 elements, but for the
  // negation, which ACT does for free there. Measured: 117.4 MB each way, DVE active 73.9% of 1.333
  // ms (2462 cycles a tile), best version 0.798 ms.
  const TimingResult r = time_on(bind(kSilu, {{4096, 7168}, {4096, 7168}}), "trn1");
  CHECK(r.hbm_read_bytes == 4096 * 7168 * 4);
  CHECK(r.hbm_written_bytes == 4096 * 7168 * 4);
  CHECK(count(r, Engine::kDVE) == 2 * 448);
  const double static_ns =
      2 * 108 / 1.12;  // the profiler counts the static part of each instruction as active
  CHECK(busy(r, Engine::kDVE) + 448 * static_ns == doctest::Approx(0.739 * 1.333e6).epsilon(0.10));
  CHECK(r.total_ns > 0.798e6);
  CHECK(r.total_ns < 1.333e6);
}

TEST_CASE(
    "a dependent chain of one-element activations has a period of 264 cycles on trn1 (S1: 189 "
    "ns)") {
  std::string text =
      "program chain {\n arg y: view f32 rank 1 write\n nest {\n partition r: 1\n tile a: f32 [r, "
      "1]\n a = memset(0.5)\n";
  for (int i = 0; i < 100; ++i) text += " a = activation exp(a)\n";
  text += " y[r] = dma_copy(a)\n }\n}\n";
  std::string longer = text;
  for (int i = 0; i < 100; ++i) longer.insert(longer.find(" y[r]"), " a = activation exp(a)\n");
  const double short_ns = time_on(bind(text.c_str(), {{1}}), "trn1").total_ns;
  const double long_ns = time_on(bind(longer.c_str(), {{1}}), "trn1").total_ns;
  CHECK((long_ns - short_ns) / 100 == doctest::Approx(264 / 1.4).epsilon(0.01));
}

TEST_CASE("a copy saturates DMA: bytes over the practical rate") {
  const char* copy = R"(
program copy {
  arg x: view f32 rank 2 read
  arg y: view f32 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1) tile 4096
    tile a: f32 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c])
    y[r * stride(y, 0) + c] = dma_copy(a)
  }
})";
  const double bytes = 2.0 * 8192 * 16384 * 4;
  for (const char* target : {"trn1", "trn2", "trn3"}) {
    const TargetInfo& t = *find_target(target);
    const double rate = std::min(t.hbm_bytes_per_ns, t.dma_engines * t.dma_bytes_per_ns);
    const TimingResult r = time_on(bind(copy, {{8192, 16384}, {8192, 16384}}), target);
    CAPTURE(target);
    CHECK(r.total_ns == doctest::Approx(bytes / rate).epsilon(0.02));
  }
}

TEST_CASE("PE starts at half its clock and warms up within 3 us of activity (S8)") {
  const TimingResult small = time_on(tutorial("f32", 128, 128, 512), "trn2");
  CHECK(small.pe_throttled_ns ==
        doctest::Approx(4 * 516 / 2.4).epsilon(0.01));  // one site, twice as long
  const TimingResult large = time_on(tutorial("f32", 4096, 8192, 8192), "trn2");
  CHECK(large.pe_throttled_ns < 0.001 * large.total_ns);  // only where a new block of A comes in
  CHECK(time_on(tutorial("f32", 128, 128, 512), "trn1").pe_throttled_ns == 0);
}

// ---- The model itself
// ----------------------------------------------------------------------------------------------

TEST_CASE("extrapolation gives what simulating every iteration gives") {
  struct Case {
    const char* text;
    std::vector<std::vector<int64_t>> sizes;
  };
  const std::string mm = tutorial_matmul("bf16");
  const Case cases[] = {
      {samples::kChain, {{4000, 9000}, {9000}, {4000, 9000}}},
      {samples::kSoftmax, {{5000, 300}, {5000, 300}}},
      {samples::kRowSum, {{3000, 20000}, {3000}}},
      {samples::kColumnSum, {{10000, 9000}, {9000}}},
      {samples::kLongSum, {{100000000}, {1}}},
      {samples::kGather, {{5000, 64}, {9000}, {9000, 64}}},
      {samples::kRandom, {{3000000}, {3000000}}},
      {samples::kMatmulRelu, {{1000, 3000}, {3000, 5000}, {1000, 5000}}},
      {samples::kMatmulF32, {{3000, 1000}, {1000, 1300}, {3000, 1300}}},
      {mm.c_str(), {{2048, 2000}, {2048, 4000}, {2000, 4000}}},
  };
  for (const Case& c : cases) {
    for (const char* target : {"trn1", "trn2"}) {
      const Bound b = bind(c.text, c.sizes);
      const TimingResult fast = time_on(b, target), full = time_on(b, target, false);
      CAPTURE(c.text);
      CAPTURE(target);
      CHECK(fast.total_ns == doctest::Approx(full.total_ns).epsilon(0.002));
      CHECK(fast.hbm_read_bytes == full.hbm_read_bytes);
      CHECK(fast.hbm_written_bytes == full.hbm_written_bytes);
      CHECK(fast.instructions == full.instructions);
      CHECK(fast.dma_descriptors == full.dma_descriptors);
      CHECK(busy(fast, Engine::kPE) == doctest::Approx(busy(full, Engine::kPE)).epsilon(0.002));
      CHECK(fast.simulated_steps < 20000);
    }
  }
}

TEST_CASE("HBM bytes are those of the elements, tails and splits included") {
  auto bytes = [](const Bound& b) {
    const TimingResult r = time_on(b, "trn2");
    return std::pair<int64_t, int64_t>(r.hbm_read_bytes, r.hbm_written_bytes);
  };
  using Pair = std::pair<int64_t, int64_t>;
  CHECK(bytes(bind(samples::kSoftmax, {{301, 77}, {301, 77}})) == Pair{301 * 77 * 4, 301 * 77 * 4});
  CHECK(bytes(bind(samples::kRowSum, {{301, 5000}, {301}})) == Pair{301 * 5000 * 2, 301 * 2});
  CHECK(bytes(bind(samples::kColumnSum, {{301, 5000}, {5000}})) == Pair{301 * 5000 * 4, 5000 * 4});
  CHECK(bytes(bind(samples::kRandom, {{1000001}, {1000001}})) == Pair{0, 1000001 * 12});
  // 200001 elements: 4 blocks; partial sums go to scratch and come back.
  CHECK(bytes(bind(samples::kLongSum, {{200001}, {1}})) == Pair{200001 * 4 + 16, 16 + 4});
  // One row of weights for all partitions is read once for each partition, and once for all
  // partition tiles.
  const TimingResult chain =
      time_on(bind(samples::kChain, {{1280, 1000}, {1000}, {1280, 1000}}), "trn2");
  CHECK(chain.hbm_read_bytes == 1280 * 1000 * 4 + 10 * 128 * 1000 * 2);
}

TEST_CASE("operands that no loop moves are loaded once") {
  const char* text = R"(
program scale {
  arg x: view f32 rank 2 read
  arg w: view f32 rank 1 read
  arg y: view f32 rank 2 write
  nest {
    partition r: size(x, 0)
    free c: size(x, 1)
    tile a: f32 [r, c]
    tile b: f32 [r, c]
    a = dma_copy(x[r * stride(x, 0) + c])
    b = dma_copy(w[c])
    a = tensor_tensor multiply(a, b)
    y[r * stride(y, 0) + c] = dma_copy(a)
  }
})";
  const TimingResult r = time_on(bind(text, {{12800, 1000}, {1000}, {12800, 1000}}), "trn2");
  CHECK(r.hbm_read_bytes == 12800 * 1000 * 4 + 128 * 1000 * 4);
  CHECK(count(r, Engine::kDMA) == 1 + 200);
}

TEST_CASE("nothing to do takes no time; more work never takes less") {
  CHECK(time_on(bind(samples::kSoftmax, {{0, 100}, {0, 100}}), "trn2").total_ns == 0);
  CHECK(time_on(bind(samples::kMatmulF32, {{0, 64}, {64, 64}, {0, 64}}), "trn2").total_ns == 0);
  CHECK(time_on(bind(samples::kMatmulF32, {{64, 0}, {0, 64}, {64, 64}}), "trn2").total_ns >
        0);  // writes zeros
  double before = 0;
  for (const int64_t rows : {1, 64, 128, 129, 1000, 10000, 100000, 10000000}) {
    const TimingResult r = time_on(bind(samples::kSoftmax, {{rows, 1000}, {rows, 1000}}), "trn2");
    CHECK(r.total_ns >= before);
    before = r.total_ns;
  }
}

TEST_CASE("huge and odd sizes end quickly, without overflow") {
  const TimingResult r = time_on(bind(samples::kChain, {{int64_t{1} << 40, int64_t{1} << 20},
                                                        {int64_t{1} << 20},
                                                        {int64_t{1} << 40, int64_t{1} << 20}}),
                                 "trn2");
  CHECK(r.total_ns > 1e12);
  CHECK(r.simulated_steps < 20000);
  // Sizes that fit nowhere: the answer is large, and no sum overflows (a sanitizer would say so).
  std::string whole = samples::kMatmulF32;
  whole.erase(whole.find(" tile 512"), 9);
  for (const int64_t n : {int64_t{1} << 30, int64_t{1} << 50, int64_t{1} << 62}) {
    CHECK(time_on(bind(samples::kSoftmax, {{n, 1}, {n, 1}}), "trn2").total_ns > 1e6);
    CHECK(time_on(bind(samples::kSoftmax, {{1, n}, {1, n}}), "trn2").total_ns > 1e6);
    CHECK(time_on(bind(samples::kMatmulF32, {{n, 64}, {64, 64}, {n, 64}}), "trn2").total_ns > 1e6);
    CHECK(time_on(bind(samples::kMatmulF32, {{64, n}, {n, 64}, {64, 64}}), "trn1").total_ns > 1e6);
    CHECK(time_on(bind(whole.c_str(), {{64, 64}, {64, n}, {64, n}}), "trn2").total_ns > 1e6);
    CHECK(time_on(bind(samples::kLongSum, {{n}, {1}}), "trn2").total_ns > 1e6);
    CHECK(time_on(bind(samples::kRandom, {{n}, {n}}), "trn2").total_ns > 1e6);
  }
  std::mt19937_64 rng(9);
  for (int round = 0; round < 60; ++round) {
    auto size = [&] { return static_cast<int64_t>(1 + rng() % (uint64_t{1} << (rng() % 20))); };
    const int64_t m = size(), k = size(), n = size();
    CAPTURE(m);
    CAPTURE(k);
    CAPTURE(n);
    for (const TimingResult& t :
         {time_on(bind(samples::kMatmulRelu, {{m, k}, {k, n}, {m, n}}), "trn2"),
          time_on(bind(samples::kChain, {{m, n}, {n}, {m, n}}), "trn1"),
          time_on(bind(samples::kRowSum, {{m, n}, {m}}), "trn3")}) {
      CHECK(t.total_ns > 0);
      CHECK(t.simulated_steps < 500000);
      for (int e = 0; e < kEngineCount; ++e) CHECK(t.busy_ns[e] <= t.total_ns * 1.0001);
    }
  }
}

TEST_CASE("the same program and sizes give the same time, and a better target less") {
  const Bound b = bind(samples::kSoftmax, {{4096, 1024}, {4096, 1024}});
  CHECK(time_on(b, "trn2").total_ns == time_on(b, "trn2").total_ns);
  CHECK(time_on(b, "trn3").total_ns < time_on(b, "trn2").total_ns);
}

TEST_CASE("the timeline names steps, engines and what was skipped") {
  const Bound b = bind(samples::kSoftmax, {{40960, 1024}, {40960, 1024}});
  const std::string text = timeline_text(b.program, b.slots.data(), *find_target("trn2"), 1000);
  CHECK(text.find("act  t0 = activation exp(t0)") != std::string::npos);
  CHECK(text.find("dma< t0 = dma_copy(a0[") != std::string::npos);
  CHECK(text.find("more of each partition tile") != std::string::npos);
  CHECK(text.find("hbm: 167772160 bytes read") != std::string::npos);
  const std::string cut = timeline_text(b.program, b.slots.data(), *find_target("trn2"), 3);
  CHECK(std::count(cut.begin(), cut.end(), '\n') < 15);
}

}  // namespace
}  // namespace nax
