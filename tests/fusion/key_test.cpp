// What is in a window's key, and what must not be.
#include "tests/fusion/window_maker.h"

namespace nax::test {
namespace {

using M = WindowMaker;
constexpr DType kF32 = DType::kF32;

struct Variation {
  std::vector<int64_t> shape = {6, 10};
  double scalar = 0.5;
  int64_t offset = 0;
  bool transposed = false, live = true, born = false, in_place = false, same_inputs = false,
       absent_alpha = false;
  DType dtype = kF32;
  int64_t pitch = 0;
  OpId second = OpId::k_exp;
  int64_t mask = 2;
  std::string_view policy = "greedy";
  const char* target = "trn2";
};

std::string key_of(const Variation& v) {
  WindowMaker m;
  const auto make = [&](bool live, bool born) {
    const int64_t pitch = v.pitch ? v.pitch : v.shape[1];
    View x = M::contiguous(m.buffer((v.shape[0] * pitch + v.offset) * 8, live, born), v.dtype,
                           v.shape, v.offset);
    x.strides[0] = pitch;
    if (v.transposed) {
      x.strides[0] = 1;
      x.strides[1] = v.shape[0];
    }
    return x;
  };
  const View a = make(true, false), b = v.same_inputs ? a : make(true, false),
             t = v.in_place ? a : make(v.live, v.born), u = make(true, true);
  m.op(OpId::k_add,
       {M::operand(a), M::operand(b), v.absent_alpha ? M::absent() : M::scalar(v.scalar)}, {t}, {},
       v.dtype);
  m.op(v.second, {M::operand(t)}, {u}, {}, v.dtype);
  const View s = m.result(v.dtype, {v.mask == 2 ? v.shape[0] : v.shape[1]});
  m.op(OpId::k_sum, {M::operand(u)}, {s}, {v.mask, 0}, v.dtype);
  std::string key;
  append_window_key(m.w, v.policy, *find_target(v.target), &key);
  return key;
}

TEST_CASE("scalars, sizes, offsets and pitches are not in the key") {
  const std::string base = key_of({});
  CHECK(key_of({.scalar = 3}) == base);
  CHECK(key_of({.shape = {7, 11}}) == base);
  CHECK(key_of({.shape = {400, 3}}) == base);
  CHECK(key_of({.offset = 8}) == base);
  CHECK(key_of({.pitch = 12}) == key_of({.pitch = 40}));
  CHECK(key_of({.shape = {9, 8}, .pitch = 12}) == key_of({.pitch = 40}));
}

TEST_CASE("everything that changes a plan is in the key") {
  const Variation variations[] = {{},
                                  {.shape = {6, 6}},
                                  {.shape = {1, 10}},
                                  {.shape = {6, 1}},
                                  {.shape = {0, 10}},
                                  {.transposed = true},
                                  {.live = false, .born = true},
                                  {.live = false},
                                  {.born = true},
                                  {.in_place = true},
                                  {.same_inputs = true},
                                  {.absent_alpha = true},
                                  {.dtype = DType::kBF16},
                                  {.dtype = DType::kF64},
                                  {.pitch = 12},
                                  {.second = OpId::k_log},
                                  {.mask = 1},
                                  {.policy = "strict"},
                                  {.target = "trn1"}};
  std::vector<std::string> keys;
  for (const Variation& v : variations) keys.push_back(key_of(v));
  for (size_t i = 0; i < keys.size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK_MESSAGE(keys[i] != keys[j], i << " and " << j);
}

TEST_CASE("how views of one buffer lie to each other is in the key") {
  // Two windows of one shape: x[:, :n] += x[:, m:m + n], disjoint or touching rows.
  const auto key = [](int64_t first, int64_t second, int64_t width) {
    WindowMaker m;
    const BufferIndex b = m.buffer(10 * 40 * 4);
    View x = M::contiguous(b, kF32, {10, width}, first),
         y = M::contiguous(b, kF32, {10, width}, second);
    x.strides[0] = y.strides[0] = 40;
    const View z = m.result(kF32, {10, width});
    m.op(OpId::k_neg, {M::operand(x)}, {x}, {}, kF32);
    m.op(OpId::k_neg, {M::operand(y)}, {z}, {}, kF32);
    std::string k;
    append_window_key(m.w, "greedy", *find_target("trn2"), &k);
    return std::pair{k, plan_or_fail(m.w, "greedy")->launches.size()};
  };
  const auto disjoint = key(0, 20, 20), other = key(3, 25, 12), overlapping = key(0, 10, 20),
             same = key(5, 5, 20);
  CHECK(disjoint.first == other.first);
  CHECK(disjoint.first != overlapping.first);
  CHECK(disjoint.first != same.first);
  CHECK(overlapping.second == 2);
  CHECK(same.second == 1);
}

TEST_CASE("interleaved views: the overlap test against every element") {
  std::mt19937_64 rng(5);
  int disjoint = 0;
  for (int i = 0; i < 20000; ++i) {
    View v[2];
    std::vector<bool> hit(4000, false);
    bool really = false;
    for (int k = 0; k < 2; ++k) {
      v[k].buffer = 0;
      v[k].dtype = kF32;
      v[k].rank = static_cast<uint8_t>(1 + rng() % 3);
      const int64_t pitches[] = {1, 2, 6, 12, 24, 5};
      for (int d = 0; d < v[k].rank; ++d) {
        v[k].sizes[d] = static_cast<int64_t>(1 + rng() % 5);
        v[k].strides[d] = pitches[rng() % 6];
      }
      v[k].offset_bytes = static_cast<int64_t>(rng() % 40) * 4;
      for (int64_t e = 0; e < numel(v[k]); ++e) {
        const auto at = static_cast<size_t>(element_offset(v[k], e) / 4);
        if (k == 0)
          hit[at] = true;
        else
          really |= hit[at];
      }
    }
    const bool may = may_overlap(v[0], v[1]);
    disjoint += !may;
    if (really) REQUIRE(may);
  }
  CHECK(disjoint > 500);
}

}  // namespace
}  // namespace nax::test
