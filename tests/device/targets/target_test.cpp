#include "device/targets/target.h"

#include <doctest/doctest.h>

#include <clocale>

namespace nax {
namespace {

TEST_CASE("three targets, and a clear error for any other name") {
  for (const char* name : {"trn1", "trn2", "trn3"}) {
    REQUIRE(find_target(name) != nullptr);
    CHECK(find_target(name)->name == name);
  }
  REQUIRE(find_target(kDefaultTarget) != nullptr);
  CHECK(find_target("trn4") == nullptr);
  const auto bad = target_or_error("trn4");
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.status().message() == "unknown target 'trn4'; allowed: trn1, trn2, trn3");
}

TEST_CASE("capacities are the documented ones") {
  const TargetInfo& t = *find_target("trn2");
  CHECK(t.sbuf_partition_bytes * 128 == int64_t{28} << 20);
  CHECK(t.sbuf_usable_partition_bytes == t.sbuf_partition_bytes - 16384 - 8);
  CHECK(t.psum_banks * t.psum_bank_bytes * 128 == int64_t{2} << 20);
  // 128x128 multiply-adds a cycle are the dense bf16 rate, within the rounding of the data sheet.
  for (const char* name : {"trn1", "trn2", "trn3"}) {
    const TargetInfo& c = *find_target(name);
    CHECK(2.0 * c.pe_rows * c.pe_columns * c.pe_ghz / 1000 ==
          doctest::Approx(c.pe_bf16_tflops).epsilon(0.01));
  }
}

TEST_CASE("the hash is stable and independent of the locale, the description names sources") {
  const Hash128 h = target_tables_hash();
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  CHECK(target_tables_hash() == h);
  std::setlocale(LC_ALL, "C");
  const std::string text = describe_target(*find_target("trn1"));
  CHECK(text.find("sbuf_usable_partition_bytes = 180224  [S13]") != std::string::npos);
  CHECK(text.find("pe_ghz = 2.8  [S1]") != std::string::npos);
}

}  // namespace
}  // namespace nax
