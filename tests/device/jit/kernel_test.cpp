// Compiled kernels against the interpreter's strips, bit for bit, on random nests.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

#include "device/interpreter/build_lanes.h"
#include "device/interpreter/strip_code.h"
#include "device/jit/jit.h"
#include "tests/device/jit/random_nest.h"
#include "tests/device/scalar/inputs.h"

namespace nax {
namespace {

std::vector<HostIsa> isas() {
  if (host_supports(HostIsa::kAvx512)) return {HostIsa::kAvx2, HostIsa::kAvx512};
  return {HostIsa::kAvx2};
}

// Memory of one access: rows x width elements with a row stride, in a guarded buffer.
struct Memory {
  std::vector<char> bytes;
  int64_t row_stride = 0;
};

void random_elements(DType dtype, char* p, int64_t n, std::mt19937_64& rng) {
  static const std::vector<float> special = test::special_floats();
  std::normal_distribution<double> normal(0, 2);
  for (int64_t i = 0; i < n; ++i) {
    const double x = rng() % 8 == 0 ? special[rng() % special.size()] : normal(rng);
    const int64_t v = rng() % 8 == 0 ? static_cast<int64_t>(rng()) : static_cast<int64_t>(rng() % 40) - 20;
    if (is_floating(dtype)) {
      if (dtype == DType::kF64) {
        std::memcpy(p + 8 * i, &x, 8);
      } else {
        const float f = static_cast<float>(x);
        store_fn(HostIsa::kAvx2, dtype)(p + i * static_cast<int64_t>(dtype_size(dtype)), &f, 1, 1);
      }
    } else if (dtype == DType::kBool) {
      p[i] = static_cast<char>(rng() & 1);
    } else {
      std::memcpy(p + i * static_cast<int64_t>(dtype_size(dtype)), &v, dtype_size(dtype));
    }
  }
}

bool same_elements(DType dtype, const char* a, const char* b, int64_t n) {
  if (!is_floating(dtype)) return std::memcmp(a, b, static_cast<size_t>(n) * dtype_size(dtype)) == 0;
  const auto size = static_cast<int64_t>(dtype_size(dtype));
  for (int64_t i = 0; i < n; ++i) {
    if (std::memcmp(a + i * size, b + i * size, static_cast<size_t>(size)) == 0) continue;
    double x = 0, y = 0;
    float fx = 0, fy = 0;
    if (dtype == DType::kF64) {
      std::memcpy(&x, a + i * size, 8), std::memcpy(&y, b + i * size, 8);
    } else {
      load_fn(HostIsa::kAvx2, dtype)(&fx, a + i * size, 1, 1), load_fn(HostIsa::kAvx2, dtype)(&fy, b + i * size, 1, 1);
      x = fx, y = fy;
    }
    if (!(x != x && y != y)) return false;
  }
  return true;
}

struct Outcome {
  std::vector<Memory> memory;
  std::vector<std::vector<char>> accumulators;
  std::vector<uint8_t> errors;
};

// One run of rows [p0, p1) x [f0, f1) on copies of `memory`.
template <class Execute>
Outcome run(const LaneProgram& lanes, std::vector<Memory> memory, int64_t p0, int64_t p1, int64_t f0, int64_t f1, int64_t width,
            Execute execute) {
  Outcome out;
  out.memory = std::move(memory);
  std::vector<AccessRun> accesses(lanes.accesses.size());
  for (size_t i = 0; i < accesses.size(); ++i) {
    const LaneAccess& a = lanes.accesses[i];
    accesses[i].row_stride = out.memory[i].row_stride;
    accesses[i].free_stride[0] = a.inner == InnerStride::kUnit ? 1 : 0;
    if (a.source == AccessSource::kIndex) {
      accesses[i].row_stride = a.id == 0 ? 1 : 0;
      accesses[i].free_stride[0] = a.id == 1 ? 1 : 0;
    } else {
      accesses[i].base = out.memory[i].bytes.data() + 64;
    }
  }
  std::vector<LaneCell> cells(std::max<size_t>(1, lanes.scalars.size()));
  const auto value_of = [&](const LaneScalar& s) { return s.source.id; };
  (void)value_of;
  RowRunArgs args;
  args.accesses = accesses.data();
  args.free_extent[0] = width;
  args.row_length = width;
  out.errors.assign(4, 0);
  args.op_errors = out.errors.data();
  args.row_buffer_bytes = (width * 8 + 127) / 64 * 64;
  std::unique_ptr<char[]> buffers(new char[static_cast<size_t>(args.row_buffer_bytes * std::max(1, lanes.row_buffers)) + 64]);
  args.row_buffers = buffers.get() + (64 - reinterpret_cast<uintptr_t>(buffers.get()) % 64) % 64;
  std::vector<char*> pointers;
  for (const ColumnAccumulator& acc : lanes.accumulators) {
    out.accumulators.emplace_back(static_cast<size_t>(width) * lane_size(acc.lane));
    for (int64_t i = 0; i < width; ++i)
      reduce_identity(acc.reduce, acc.lane, out.accumulators.back().data() + i * static_cast<int64_t>(lane_size(acc.lane)));
  }
  for (auto& a : out.accumulators) pointers.push_back(a.data());
  args.column_accumulators = pointers.data();
  execute(args, p0, p1, f0, f1, cells);
  return out;
}

struct Comparison {
  Program program;
  LaneProgram lanes;
  StripCode code;
};

// False where the generator made something outside of the interpreter's range.
bool prepare(uint64_t seed, bool reductions, bool columns, bool floats_only, Comparison& c) {
  c.program = test::RandomNest(seed, floats_only).make(reductions, columns);
  auto lanes = build_lanes(c.program, c.program.nests[0], AliasRule::kDistinctArgs);
  if (!lanes.ok()) return false;
  c.lanes = std::move(lanes).value();
  auto code = make_strip_code(c.lanes, HostIsa::kAvx2);
  if (!code.ok()) return false;
  c.code = std::move(code).value();
  return true;
}

void compare(uint64_t seed, const Comparison& c, int level, HostIsa isa) {
  const LaneProgram& lanes = c.lanes;
  auto kernel = compile_lanes(lanes, {isa, level});
  if (!kernel.ok()) FAIL("seed " << seed << ": " << std::string(kernel.status().message()));
  std::mt19937_64 rng(seed * 31 + 7);
  const int64_t widths[] = {1, 7, 15, 16, 17, 33, 64, 511, 512, 513, 1040};
  for (int trial = 0; trial < 3; ++trial) {
    const int64_t width = widths[rng() % std::size(widths)], rows = 1 + static_cast<int64_t>(rng() % 4);
    const bool whole = lanes.has_row_reduction || lanes.stages.size() > 1 || !lanes.accumulators.empty();
    const int64_t f0 = whole ? 0 : static_cast<int64_t>(rng() % static_cast<uint64_t>(width)), f1 = width;
    const int64_t p0 = static_cast<int64_t>(rng() % static_cast<uint64_t>(rows));
    std::vector<Memory> memory(lanes.accesses.size());
    for (size_t i = 0; i < memory.size(); ++i) {
      const LaneAccess& a = lanes.accesses[i];
      const int64_t row = a.shape == TileShape::kFull && a.inner == InnerStride::kUnit ? width : 1;
      memory[i].row_stride = row + static_cast<int64_t>(rng() % 3);
      const int64_t n = (rows - 1) * memory[i].row_stride + row;
      memory[i].bytes.assign(static_cast<size_t>(n) * dtype_size(a.dtype) + 128, '\x5a');
      random_elements(a.dtype, memory[i].bytes.data() + 64, n, rng);
    }
    const auto fill_cells = [&](std::vector<LaneCell>& cells) {
      for (size_t i = 0; i < lanes.scalars.size(); ++i) {
        const ScalarValue& v = c.program.constants[static_cast<size_t>(lanes.scalars[i].source.id)];
        constexpr DType kNatural[] = {DType::kF32, DType::kF64, DType::kI64, DType::kI32};
        scalar_to_lane(v, kNatural[static_cast<int>(lanes.scalars[i].lane)], &cells[i]);
      }
    };
    const Outcome want = run(lanes, memory, p0, rows, f0, f1, width, [&](RowRunArgs& args, int64_t a, int64_t b, int64_t x, int64_t y, std::vector<LaneCell>& cells) {
      fill_cells(cells);
      args.scalars = cells.data();
      run_strips(c.code, args, a, b, x, y);
    });
    const Outcome got = run(lanes, memory, p0, rows, f0, f1, width, [&](RowRunArgs& args, int64_t a, int64_t b, int64_t x, int64_t y, std::vector<LaneCell>& cells) {
      fill_cells(cells);
      args.scalars = cells.data();
      (*kernel)->run(&args, a, b, x, y);
    });
    for (size_t i = 0; i < memory.size(); ++i) {
      const DType dtype = lanes.accesses[i].dtype;
      const auto n = static_cast<int64_t>((memory[i].bytes.size() - 128) / dtype_size(dtype));
      const bool guards = std::memcmp(want.memory[i].bytes.data(), got.memory[i].bytes.data(), 64) == 0 &&
                          std::memcmp(want.memory[i].bytes.data() + want.memory[i].bytes.size() - 64,
                                      got.memory[i].bytes.data() + got.memory[i].bytes.size() - 64, 64) == 0;
      if (!guards || !same_elements(dtype, want.memory[i].bytes.data() + 64, got.memory[i].bytes.data() + 64, n))
        FAIL("seed " << seed << " isa " << static_cast<int>(isa) << " level " << level << ": access " << i << " of "
                     << std::string(dtype_name(dtype)) << " differs, width " << width << " rows " << rows);
    }
    for (size_t i = 0; i < want.accumulators.size(); ++i) {
      const Lane lane = lanes.accumulators[i].lane;
      constexpr DType kNatural[] = {DType::kF32, DType::kF64, DType::kI64, DType::kI32};
      if (!same_elements(kNatural[static_cast<int>(lane)], want.accumulators[i].data(), got.accumulators[i].data(), width))
        FAIL("seed " << seed << ": accumulator " << i << " differs");
    }
    if (want.errors != got.errors) FAIL("seed " << seed << ": error bits differ");
  }
}

void sweep(uint64_t first, int count, bool reductions, bool columns, bool floats_only, int level) {
  int compared = 0;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
    Comparison c;
    if (!prepare(seed, reductions, columns, floats_only, c)) continue;
    for (HostIsa isa : isas()) compare(seed, c, level, isa);
    ++compared;
  }
  CHECK(compared > count / 2);
}

TEST_CASE("random pointwise nests: the kernel has the interpreter's bits") { sweep(1000, 60, false, false, false, 0); }
TEST_CASE("random nests with row reductions") { sweep(2000, 60, true, false, false, 0); }
TEST_CASE("random nests with column reductions") { sweep(3000, 30, false, true, false, 0); }
TEST_CASE("random fp32 and bf16 nests, row and column reductions together") { sweep(4000, 40, true, true, true, 0); }
TEST_CASE("the higher code generation level has the same bits") {
  sweep(1000, 15, false, false, false, 1);
  sweep(2000, 15, true, false, false, 1);
  sweep(4000, 15, true, true, true, 2);
}

}  // namespace
}  // namespace nax
