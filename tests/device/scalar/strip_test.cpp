// Properties of every strip function: same bits on every ISA, in every operand form, at every length, in place.
#include <doctest/doctest.h>

#include <array>
#include <cstring>

#include "device/scalar/strip.h"
#include "tests/device/scalar/inputs.h"

namespace nax {
namespace {

constexpr DType kAllDtypes[] = {DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
                                DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

struct Case {
  ScalarOp op;
  Lane lane;
  DType out;
  unsigned form;
  int arity;
};

// Every combination the contract promises.
std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (int number = 0; number < kScalarOpLimit; ++number) {
    const auto op = static_cast<ScalarOp>(number);
    const ScalarOpInfo& info = scalar_op_info(op);
    for (int k = 0; k < kLaneCount; ++k) {
      const auto lane = static_cast<Lane>(k);
      if (info.name.empty() || !info.allows(lane)) continue;
      for (DType dtype : kAllDtypes) {
        if (info.result == ScalarResult::kBool ? dtype != DType::kBool : lane_of(dtype) != lane) continue;
        const unsigned all_scalars = (1u << info.arity) - 1;
        for (unsigned form = 0; form < (info.arity == 1 ? 1 : all_scalars); ++form)
          out.push_back({op, lane, dtype, form, info.arity});
      }
    }
  }
  return out;
}

// Lane values as raw bytes, of a mixture of magnitudes; integers include the extremes.
std::vector<char> random_lanes(Lane lane, int64_t n, uint64_t seed) {
  std::mt19937_64 rng(seed);
  static const std::vector<float> special = test::special_floats();
  std::normal_distribution<double> normal(0, 3);
  std::vector<char> out(static_cast<size_t>(n) * lane_size(lane));
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t pick = rng() % 4;
    double d = pick == 0   ? special[rng() % special.size()]
               : pick == 1 ? std::bit_cast<float>(static_cast<uint32_t>(rng()))
                           : normal(rng);
    int64_t v = pick == 0 ? std::array<int64_t, 6>{0, 1, -1, INT64_MIN, INT64_MAX, 31}[rng() % 6]
                : pick == 1 ? static_cast<int64_t>(rng())
                            : static_cast<int64_t>(rng() % 40) - 20;
    char* p = out.data() + i * static_cast<int64_t>(lane_size(lane));
    if (lane == Lane::kF32) {
      const float f = static_cast<float>(d);
      std::memcpy(p, &f, 4);
    } else if (lane == Lane::kF64) {
      std::memcpy(p, &d, 8);
    } else if (lane == Lane::kI64) {
      std::memcpy(p, &v, 8);
    } else {
      const int32_t w = v == INT64_MIN ? INT32_MIN : v == INT64_MAX ? INT32_MAX : static_cast<int32_t>(v);
      std::memcpy(p, &w, 4);
    }
  }
  return out;
}

bool equal_lanes(Lane lane, const char* a, const char* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (lane == Lane::kF32) {
      float x, y;
      std::memcpy(&x, a + 4 * i, 4), std::memcpy(&y, b + 4 * i, 4);
      if (!test::same_bits_or_nan(x, y)) return false;
    } else if (lane == Lane::kF64) {
      double x, y;
      std::memcpy(&x, a + 8 * i, 8), std::memcpy(&y, b + 8 * i, 8);
      if (!test::same_bits_or_nan(x, y)) return false;
    } else if (std::memcmp(a + i * static_cast<int64_t>(lane_size(lane)), b + i * static_cast<int64_t>(lane_size(lane)),
                           lane_size(lane)) != 0) {
      return false;
    }
  }
  return true;
}

struct Operands {
  std::vector<char> data[3];
  const void* at(int i, int64_t element, Lane lane) const {
    return data[i].data() + element * static_cast<int64_t>(lane_size(lane));
  }
};
Lane operand_lane(const Case& c, int i) { return c.op == ScalarOp::kSelect && i == 0 ? Lane::kI32 : c.lane; }

Operands operands_for(const Case& c, int64_t n) {
  Operands o;
  for (int i = 0; i < c.arity; ++i) o.data[i] = random_lanes(operand_lane(c, i), n, 11 + static_cast<uint64_t>(i));
  return o;
}

void describe(const Case& c) {
  FAIL(scalar_op_name(c.op) << " lane " << static_cast<int>(c.lane) << " out " << dtype_name(c.out) << " form " << c.form);
}

TEST_CASE("every promised function exists") {
  const auto cases = all_cases();
  CHECK(cases.size() > 1000);
  for (const Case& c : cases)
    for (HostIsa isa : {HostIsa::kAvx2, HostIsa::kAvx512, HostIsa::kAmx})
      if (strip_fn(isa, c.op, c.lane, c.form, c.out) == nullptr) describe(c);
}

TEST_CASE("what the contract rules out is null") {
  CHECK((strip_fn(HostIsa::kAvx2, ScalarOp::kAdd, Lane::kF32, kStripAll, DType::kF64) == nullptr));
  CHECK((strip_fn(HostIsa::kAvx2, ScalarOp::kLess, Lane::kF32, kStripAll, DType::kF32) == nullptr));
  CHECK((strip_fn(HostIsa::kAvx2, ScalarOp::kExp, Lane::kI32, kStripAll, DType::kI32) == nullptr));
  CHECK((strip_fn(HostIsa::kAvx2, ScalarOp::kAdd, Lane::kF32, kScalarA | kScalarB, DType::kF32) == nullptr));
  CHECK((strip_fn(HostIsa::kAvx2, static_cast<ScalarOp>(60), Lane::kF32, kStripAll, DType::kF32) == nullptr));
  CHECK((strip_fn(HostIsa::kAvx2, static_cast<ScalarOp>(9999), Lane::kF32, kStripAll, DType::kF32) == nullptr));
  CHECK((load_fn(HostIsa::kAvx2, DType::kC64) == nullptr));
}

TEST_CASE("forms, lengths, in place and the ISA never change bits") {
  constexpr int64_t n = 531;
  const bool has_avx512 = host_supports(HostIsa::kAvx512);
  for (const Case& c : all_cases()) {
    const Operands o = operands_for(c, n);
    const Lane result = c.out == DType::kBool ? Lane::kI32 : lane_of(c.out);
    const auto bytes = static_cast<int64_t>(lane_size(result));
    // Reference: the baseline, one element at a time, all operands strips.
    const StripFn reference = strip_fn(HostIsa::kAvx2, c.op, c.lane, kStripAll, c.out);
    std::vector<char> want(static_cast<size_t>(n * bytes));
    uint8_t want_errors = 0;
    for (int64_t i = 0; i < n; ++i) {
      const void* p[3] = {};
      for (int k = 0; k < c.arity; ++k) p[k] = o.at(k, c.form >> k & 1 ? 5 : i, operand_lane(c, k));
      reference(want.data() + i * bytes, p[0], p[1], p[2], 1, &want_errors);
    }
    for (HostIsa isa : {HostIsa::kAvx2, HostIsa::kAvx512}) {
      if (isa == HostIsa::kAvx512 && !has_avx512) continue;
      const StripFn fn = strip_fn(isa, c.op, c.lane, c.form, c.out);
      for (int64_t length : {n, int64_t{0}, int64_t{1}, int64_t{7}, int64_t{16}, int64_t{33}}) {
        std::vector<char> got(static_cast<size_t>(n * bytes + 64), '\x55');
        uint8_t errors = 0;
        const void* p[3] = {};
        for (int k = 0; k < c.arity; ++k) p[k] = o.at(k, c.form >> k & 1 ? 5 : 0, operand_lane(c, k));
        fn(got.data(), p[0], p[1], p[2], length, &errors);
        if (!equal_lanes(result, got.data(), want.data(), length)) describe(c);
        for (size_t i = static_cast<size_t>(length * bytes); i < got.size(); ++i)
          if (got[i] != '\x55') describe(c);
        if (length == n && errors != want_errors) describe(c);
      }
      for (int k = 0; k < c.arity; ++k) {  // in place of operand k
        if (c.form >> k & 1 || lane_size(operand_lane(c, k)) != static_cast<size_t>(bytes)) continue;
        std::vector<char> inout = o.data[k];
        const void* p[3] = {};
        for (int j = 0; j < c.arity; ++j) p[j] = o.at(j, c.form >> j & 1 ? 5 : 0, operand_lane(c, j));
        p[k] = inout.data();
        uint8_t errors = 0;
        fn(inout.data(), p[0], p[1], p[2], n, &errors);
        if (!equal_lanes(result, inout.data(), want.data(), n)) describe(c);
      }
    }
  }
}

TEST_CASE("a function with a narrow result is the wide function, rounded") {
  constexpr int64_t n = 300;
  for (const Case& c : all_cases()) {
    const Lane result = lane_of(c.out);
    if (c.form != kStripAll || scalar_op_info(c.op).result == ScalarResult::kBool) continue;
    const RoundFn round = round_fn(HostIsa::kAvx2, c.out);
    if (round == nullptr) continue;
    const Operands o = operands_for(c, n);
    std::vector<char> got(static_cast<size_t>(n) * lane_size(result)), want = got;
    uint8_t errors = 0;
    auto pointer = [&](int k) { return k < c.arity ? o.at(k, 0, c.lane) : nullptr; };
    strip_fn(HostIsa::kAvx2, c.op, c.lane, kStripAll, c.out)(got.data(), pointer(0), pointer(1), pointer(2), n, &errors);
    const DType wide = result == Lane::kF32 ? DType::kF32 : DType::kI32;
    strip_fn(HostIsa::kAvx2, c.op, c.lane, kStripAll, wide)(want.data(), pointer(0), pointer(1), pointer(2), n, &errors);
    round(want.data(), n);
    if (!equal_lanes(result, got.data(), want.data(), n)) describe(c);
  }
}

}  // namespace
}  // namespace nax
