// The examples of api/docs/engine-program.md: they parse, pass every check, run, and give what the
// page says.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "device/interpreter/interpreter.h"
#include "device/isa/equal.h"
#include "device/isa/serialize.h"
#include "device/isa/slots.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"
#include "device/pool/pool.h"
#include "device/targets/fit.h"
#include "device/timing/timing.h"

namespace nax {
namespace {

// The page's ```nax blocks, in order.
std::vector<std::string> examples() {
  const std::filesystem::path path = NAX_DOCS_DIR "/engine-program.md";
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path.string());
  std::vector<std::string> blocks;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("```", 0) == 0) {
      inside = line == "```nax";
      if (inside) blocks.emplace_back();
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

Program checked(const std::string& text) {
  auto p = parse_program(text);
  REQUIRE_MESSAGE(p.ok(), p.status().message());
  const Status s = verify(*p);
  REQUIRE_MESSAGE(s.ok(), s.message());
  CHECK(*parse_program(to_text(*p)) == *p);
  CHECK(*deserialize_program(serialize_program(*p)) == *p);
  return *std::move(p);
}

ArgValue view(std::vector<float>& data, std::vector<int64_t> sizes) {
  ArgValue v;
  v.data = data.data();
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    v.sizes[d] = sizes[d];
    v.strides[d] = stride;
    stride *= sizes[d];
  }
  return v;
}

void run(const Program& p, std::vector<ArgValue> row, const std::vector<ArgBounds>& bounds) {
  std::vector<int64_t> slots(p.slots.size());
  evaluate_slots(p, row.data(), slots.data());
  const TargetInfo& target = *find_target(p.target);
  const Status fit = check_fit(p, slots.data(), target);
  REQUIRE_MESSAGE(fit.ok(), fit.message());
  const Status inside = check_bounds(p, slots.data(), bounds.data());
  REQUIRE_MESSAGE(inside.ok(), inside.message());
  CHECK(time_program(p, slots.data(), target).total_ns > 0);
  auto prepared = PreparedProgram::prepare(std::make_shared<Program>(p));
  REQUIRE_MESSAGE(prepared.ok(), prepared.status().message());
  std::vector<uint8_t> errors(p.op_count, 0);
  ThreadPool pool(1);
  const Status ran = (*prepared)->run(row.data(), 1, pool, errors.data());
  REQUIRE_MESSAGE(ran.ok(), ran.message());
  CHECK(std::all_of(errors.begin(), errors.end(), [](uint8_t e) { return e == 0; }));
}

int64_t bytes(const std::vector<float>& v) {
  return static_cast<int64_t>(v.size() * sizeof(float));
}

TEST_CASE("example 1: scaled relu") {
  const std::vector<std::string> blocks = examples();
  REQUIRE(blocks.size() == 2);
  const Program p = checked(blocks[0]);
  const int64_t rows = 131, columns = 2500;
  std::vector<float> x(rows * columns), y(rows * columns, -1);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int64_t>(i * 37 % 201) - 100);
  ArgValue s;
  s.scalar = ScalarValue::from_f64(0.5);
  run(p, {view(x, {rows, columns}), s, view(y, {rows, columns})},
      {{0, bytes(x)}, {}, {0, bytes(y)}});
  for (size_t i = 0; i < x.size(); ++i) REQUIRE(y[i] == (x[i] > 0 ? x[i] * 0.5f : 0.0f));
}

TEST_CASE("example 2: a linear layer") {
  const Program p = checked(examples().at(1));
  const int64_t rows = 130, in = 70, out = 600;
  std::vector<float> x(rows * in), w(out * in), b(out), y(rows * out, -1);
  // Small integers: every order of summation is exact.
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int64_t>(i * 7 % 11) - 5);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = static_cast<float>(static_cast<int64_t>(i * 5 % 13) - 6);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(static_cast<int64_t>(i % 9) - 4);
  run(p, {view(x, {rows, in}), view(w, {out, in}), view(b, {out}), view(y, {rows, out})},
      {{0, bytes(x)}, {0, bytes(w)}, {0, bytes(b)}, {0, bytes(y)}});
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < out; ++n) {
      int64_t sum = static_cast<int64_t>(b[n]);
      for (int64_t k = 0; k < in; ++k)
        sum += static_cast<int64_t>(x[m * in + k]) * static_cast<int64_t>(w[n * in + k]);
      REQUIRE(y[m * out + n] == static_cast<float>(std::max<int64_t>(sum, 0)));
    }
  }
}

}  // namespace
}  // namespace nax
