// Inputs for the scalar tests: special values, every f16 and bf16 value, random bit patterns and random magnitudes.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace nax::test {

inline std::vector<float> special_floats() {
  using L = std::numeric_limits<float>;
  std::vector<float> out;
  for (float x : {0.0f, L::denorm_min(), 3 * L::denorm_min(), L::min() / 2, L::min(), L::epsilon(), 1e-6f, 1e-3f, 0.1f, 0.3f,
                  0.5f, 0.625f, 0.75f, 0.925f, 1.0f, 1.5f, 2.0f, 2.5f, 3.0f, 3.14159274f, 4.0f, 9.0f, 10.0f, 17.0f, 64.0f,
                  87.3f, 88.0f, 88.7f, 88.8f, 89.0f, 90.0f, 100.0f, 103.9f, 104.0f, 127.0f, 128.0f, 255.0f, 256.0f, 300.0f,
                  32767.0f, 32768.0f, 65504.0f, 65520.0f, 65536.0f, 65537.0f, 1e6f, 8388608.0f, 16777216.0f, 2147483648.0f,
                  4294967296.0f, 1e10f, 9.2e18f, 1e20f, 1e30f, L::max(), L::infinity()}) {
    out.push_back(x);
    out.push_back(-x);
    if (std::isfinite(x)) {
      out.push_back(std::nextafter(x, 1e38f));
      out.push_back(std::nextafter(x, -1.0f));
    }
  }
  out.push_back(L::quiet_NaN());
  return out;
}

inline float float_of_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Exact: the definition of the format, without hardware.
inline float float_of_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float magnitude = exponent == 31  ? (mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity())
                    : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                    : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

inline std::vector<float> many_floats(int random = 200000) {
  std::vector<float> out = special_floats();
  for (uint32_t i = 0; i < 65536; ++i) {
    out.push_back(float_of_bf16(static_cast<uint16_t>(i)));
    out.push_back(float_of_f16(static_cast<uint16_t>(i)));
  }
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<float> near(-12.0f, 12.0f), wide(-110.0f, 110.0f), one(0.5f, 2.0f);
  for (int i = 0; i < random; ++i) {
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng())));
    out.push_back(near(rng));
    out.push_back(wide(rng));
    out.push_back(one(rng));
  }
  return out;
}

template <class T>
bool same_bits_or_nan(T a, T b) {
  if (a != a && b != b) return true;
  if constexpr (sizeof(T) == 4) return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  else return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace nax::test
