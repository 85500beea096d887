#include "api/cpp/nax.hpp"

#include <doctest/doctest.h>

namespace {

TEST_CASE("the C++ layer: ownership by scope, statuses as exceptions") {
  nax_runtime_options options{};
  options.mode = NAX_MODE_ADAPTIVE;
  options.cache_dir = "";
  options.hbm_bytes = 1 << 20;
  nax::cpp::Runtime runtime(options);
  {
    const auto a = runtime.tensor({2, 2}, {1, 2, 3, 4});
    const auto b = runtime.empty({2, 2});
    runtime.record(NAX_OP_MM, {a, a}, {b});
    CHECK(runtime.read(b) == std::vector<float>{7, 10, 15, 22});
    CHECK_THROWS_AS(runtime.record(NAX_OP_MM, {a}, {b}), nax::cpp::Error);
    try {
      runtime.empty({1 << 20});
      FAIL("HBM has 1 MiB");
    } catch (const nax::cpp::Error& e) {
      CHECK(e.code() == NAX_RESOURCE_EXHAUSTED);
      CHECK(e.reason() == NAX_REASON_HBM_EXHAUSTED);
    }
  }
  runtime.synchronize();
  CHECK(runtime.stats().at("hbm_bytes") == 0);
  CHECK_THROWS_AS(nax::cpp::Program("nonsense"), nax::cpp::Error);
}

}  // namespace
