#include "device/isa/serialize.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "device/isa/equal.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"
#include "tests/device/isa/sample_programs.h"

namespace nax {
namespace {

Program sample(const char* text) {
  auto p = parse_program(text);
  REQUIRE_MESSAGE(p.ok(), p.status().message());
  return *std::move(p);
}

TEST_CASE("programs keep every field through their bytes") {
  for (const char* text : samples::kAll) {
    const Program p = sample(text);
    const std::string bytes = serialize_program(p);
    const auto again = deserialize_program(bytes);
    REQUIRE_MESSAGE(again.ok(), again.status().message());
    CHECK(*again == p);
    CHECK(serialize_program(*again) == bytes);
  }
}

TEST_CASE("every cut and every flipped byte is an error or a program that passes the verifier") {
  int accepted = 0;
  for (const char* text : samples::kAll) {
    const std::string bytes = serialize_program(sample(text));
    for (size_t n = 0; n < bytes.size(); ++n) {
      const auto cut = deserialize_program(std::string_view(bytes).substr(0, n));
      REQUIRE_FALSE(cut.ok());
      CHECK(cut.status().code() == StatusCode::kDataLoss);
    }
    CHECK_FALSE(deserialize_program(bytes + "x").ok());
    for (size_t at = 0; at < bytes.size(); ++at) {
      for (const int mask : {0x01, 0x02, 0x10, 0x80, 0xff}) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ mask);
        const auto p = deserialize_program(damaged);
        if (!p.ok()) continue;
        ++accepted;
        REQUIRE(verify(*p).ok());
        REQUIRE(serialize_program(*p) == damaged);
      }
    }
  }
  CHECK(accepted > 0);  // a constant's bits, for one
}

TEST_CASE("random damage and random bytes never crash the reader") {
  std::mt19937_64 rng(5);
  std::vector<std::string> bases;
  for (const char* text : samples::kAll) bases.push_back(serialize_program(sample(text)));
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = bases[rng() % bases.size()];
    for (int k = 1 + static_cast<int>(rng() % 6); k > 0; --k)
      bytes[8 + rng() % (bytes.size() - 8)] = static_cast<char>(rng());
    if (rng() % 8 == 0) {
      bytes.resize(8);
      for (size_t k = rng() % 200; k > 0; --k) bytes.push_back(static_cast<char>(rng()));
    }
    const auto p = deserialize_program(bytes);
    if (p.ok()) REQUIRE(verify(*p).ok());
  }
}

TEST_CASE("another version or other bytes are named") {
  std::string bytes = serialize_program(sample(samples::kChain));
  bytes[4] = 9;
  CHECK(deserialize_program(bytes).status().message() ==
        "engine program of format version 9; this build reads version 1");
  CHECK(deserialize_program(bytes).status().code() == StatusCode::kFailedPrecondition);
  CHECK(deserialize_program("hello, world").status().message() ==
        "these bytes are no engine program");
  CHECK(deserialize_program("").status().code() == StatusCode::kDataLoss);
}

TEST_CASE("the layout does not depend on the host: first bytes of a small program") {
  Program p;
  p.name = "p";
  CHECK(serialize_program(p).substr(0, 8) == std::string("NAXP\1\0\0\0", 8));
  CHECK(serialize_program(p).substr(8, 5) == std::string("\1\0\0\0p", 5));
}

}  // namespace
}  // namespace nax
