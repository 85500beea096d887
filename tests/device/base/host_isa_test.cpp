#include "device/base/host_isa.h"

#include <doctest/doctest.h>

#include <string>

using nax::ErrorReason;
using nax::HostIsa;

TEST_CASE("host_isa: the baseline holds where tests run") {
  CHECK(nax::check_baseline().ok());
  CHECK(nax::host_supports(HostIsa::kAvx2));
}

TEST_CASE("host_isa: levels contain the ones before") {
  if (nax::host_supports(HostIsa::kAmx)) CHECK(nax::host_supports(HostIsa::kAvx512));
  if (nax::host_has_avx512_bf16()) CHECK(nax::host_supports(HostIsa::kAvx512));
  const bool compiler_says_avx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  CHECK(nax::host_supports(HostIsa::kAvx512) == compiler_says_avx512);
}

TEST_CASE("host_isa: parsing") {
  CHECK(nax::parse_host_isa("auto").value() == nax::detect_host_isa());
  CHECK(nax::parse_host_isa("avx2").value() == HostIsa::kAvx2);
  for (const char* bad : {"", "AVX2", "avx1024", "avx2 ", "sse"}) {
    auto r = nax::parse_host_isa(bad);
    REQUIRE_FALSE(r.ok());
    CHECK(r.status().code() == nax::StatusCode::kInvalidArgument);
    CHECK(r.status().reason() == ErrorReason::kBadEnvironment);
    CHECK(std::string(r.status().message()).find("auto, avx2, avx512, amx") != std::string::npos);
  }
  for (HostIsa isa : {HostIsa::kAvx512, HostIsa::kAmx}) {
    auto r = nax::parse_host_isa(nax::host_isa_name(isa));
    CHECK(r.ok() == nax::host_supports(isa));
    if (!r.ok())
      CHECK(std::string(r.status().message()).find("not supported") != std::string::npos);
  }
}

TEST_CASE("host_isa: chosen once") {
  const HostIsa chosen = nax::host_isa();
  CHECK(nax::set_host_isa(chosen).ok());
  const HostIsa other = chosen == HostIsa::kAvx2 ? HostIsa::kAvx512 : HostIsa::kAvx2;
  CHECK_FALSE(nax::set_host_isa(other).ok());
  CHECK(nax::host_isa() == chosen);
}
