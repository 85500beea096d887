#include "device/interpreter/overlap.h"

#include <doctest/doctest.h>

namespace nax {
namespace {

char memory[100000];

struct View {
  ArgDecl decl;
  ArgValue value;
};
View view(int64_t offset, std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides) {
  View v;
  v.decl.dtype = DType::kF32;
  v.decl.rank = static_cast<uint8_t>(sizes.size());
  v.value.data = memory;
  v.value.offset_bytes = offset * 4;
  std::copy(sizes.begin(), sizes.end(), v.value.sizes.begin());
  std::copy(strides.begin(), strides.end(), v.value.strides.begin());
  return v;
}
bool overlap(const View& a, const View& b) {
  const bool forth = views_overlap(a.decl, a.value, b.decl, b.value);
  CHECK(forth == views_overlap(b.decl, b.value, a.decl, a.value));
  return forth;
}

TEST_CASE("views apart, touching, interleaved, reversed and empty") {
  CHECK(overlap(view(0, {10}, {1}), view(9, {10}, {1})));
  CHECK_FALSE(overlap(view(0, {10}, {1}), view(10, {10}, {1})));
  // Column halves of a 20 x 10 matrix, and a column range that reaches into the other half.
  CHECK_FALSE(overlap(view(0, {20, 5}, {10, 1}), view(5, {20, 5}, {10, 1})));
  CHECK(overlap(view(0, {20, 6}, {10, 1}), view(5, {20, 5}, {10, 1})));
  CHECK_FALSE(overlap(view(5, {10, 5}, {10, 1}), view(10, {10, 5}, {10, 1})));
  CHECK(overlap(view(8, {10, 5}, {10, 1}), view(10, {10, 5}, {10, 1})));
  // Odd and even elements.
  CHECK_FALSE(overlap(view(0, {50}, {2}), view(1, {50}, {2})));
  CHECK(overlap(view(0, {50}, {2}), view(2, {50}, {2})));
  CHECK(overlap(view(49, {50}, {-1}), view(0, {3}, {1})));
  CHECK_FALSE(overlap(view(0, {0}, {1}), view(0, {10}, {1})));
  CHECK(overlap(view(3, {}, {}), view(0, {10}, {1})));
}

// Exhaustive: the answer may say too much, never too little.
TEST_CASE("no overlap is missed") {
  int told_apart = 0;
  for (int64_t offset = 0; offset < 14; ++offset)
    for (int64_t s0 : {1, 2, 3, 6, 7})
      for (int64_t s1 : {1, 2, -1})
        for (int64_t t0 : {1, 3, 6, 7})
          for (int64_t n : {1, 2, 3}) {
            const View a = view(20, {4, n}, {s0, s1}), b = view(20 + offset, {3, 2}, {t0, 1});
            bool share = false;
            for (int64_t i = 0; i < 4; ++i)
              for (int64_t j = 0; j < n; ++j)
                for (int64_t k = 0; k < 3; ++k)
                  for (int64_t l = 0; l < 2; ++l) share |= 20 + i * s0 + j * s1 == 20 + offset + k * t0 + l;
            const bool told = overlap(a, b);
            CHECK((told || !share));
            told_apart += !told;
          }
  CHECK(told_apart > 100);
}

}  // namespace
}  // namespace nax
