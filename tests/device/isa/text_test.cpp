#include "device/isa/text.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>

#include "device/isa/equal.h"
#include "tests/device/isa/random_program.h"

namespace nax {
namespace {

constexpr const char* kScaleRows = R"(
program scale_rows {      # y = relu(x) * s
  ops 2
  arg x: view f32 rank 2 read
  arg s: scalar f32
  arg y: view f32 rank 2 write
  %rows = size(x, 0)
  %tiles = ceil_div(size(x, 1), 512) * 512
  guard %tiles <= 65536
  nest {
    partition r: %rows
    free c: size(x, 1) tile 512
    tile a: f32 [r, c]
    tile b: f32 [p, f]
    a = dma_copy(x[r * stride(x, 0) + c])
    b = activation relu(a)
    b = tensor_scalar multiply(b, s) op 1
    y[r * stride(y, 0)
      + c * stride(y, 1)] = dma_copy(b) op 1
  }
}
)";

std::string error_of(std::string_view text) {
  const auto p = parse_program(text);
  REQUIRE_FALSE(p.ok());
  CHECK(p.status().code() == StatusCode::kInvalidArgument);
  CHECK(p.status().reason() == ErrorReason::kParseFailed);
  return std::string(p.status().message());
}

// The example with one passage replaced.
std::string edited(std::string from, std::string to) {
  std::string text = kScaleRows;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void check_error(std::string_view text, std::string_view part) {
  const std::string message = error_of(text);
  CAPTURE(message);
  CHECK(message.find(part) != std::string::npos);
}

TEST_CASE("names, expressions, literals and defaults of a hand-written program") {
  const auto parsed = parse_program(kScaleRows);
  REQUIRE_MESSAGE(parsed.ok(), parsed.status().message());
  const Program& p = *parsed;
  CHECK(p.name == "scale_rows");
  CHECK(p.target == "trn2");
  CHECK(p.op_count == 2);
  REQUIRE(p.args.size() == 3);
  CHECK(p.args[0].read);
  CHECK(p.args[2].written);
  CHECK(p.args[1].kind == ArgKind::kScalar);
  REQUIRE(p.nests.size() == 1);
  const Nest& n = p.nests[0];
  REQUIRE(n.axes.size() == 2);
  CHECK(n.axes[0].role == AxisRole::kPartition);
  CHECK(p.slots[n.axes[1].tile].imm == 512);
  REQUIRE(n.body.size() == 4);
  CHECK(n.body[0].opcode == Opcode::kDmaLoad);
  CHECK(n.body[0].engine == Engine::kDMA);
  CHECK(n.body[1].engine == Engine::kACT);
  CHECK(n.body[2].engine == Engine::kDVE);
  CHECK(n.body[2].op == 1);
  CHECK(n.body[2].src[1].kind == OperandKind::kScalarArg);
  const SlotId unit = n.body[0].hbm.strides[1];
  REQUIRE(unit != kNoSlot);
  CHECK(p.slots[unit].imm == 1);
  // size(x, 1) is written three times and interned once outside of named slots.
  int count = 0;
  for (const Slot& s : p.slots) count += s.op == SlotOp::kArgSize && s.b == 1;
  CHECK(count == 1);

  const std::string text = to_text(p);
  const auto again = parse_program(text);
  REQUIRE_MESSAGE(again.ok(), again.status().message());
  CHECK(*again == p);
  CHECK(to_text(*again) == text);
}

TEST_CASE("random programs keep every field through their text") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const Program p = RandomProgram(seed).make();
    const std::string text = to_text(p);
    const auto parsed = parse_program(text);
    REQUIRE_MESSAGE(parsed.ok(), (parsed.status().message()));
    REQUIRE(to_text(*parsed) == text);
    REQUIRE(parsed->args == p.args);
    REQUIRE(parsed->slots == p.slots);
    REQUIRE(parsed->constants == p.constants);
    REQUIRE(parsed->guards == p.guards);
    REQUIRE(*parsed == p);
    REQUIRE(to_text(*parsed) == text);
  }
}

TEST_CASE("constants read back bit for bit") {
  for (const double d : {0.0, -0.0, 1.0, 0.1, 1e22, 5e-324, 1.7976931348623157e308, 1.0 / 3}) {
    CHECK(constant_text(ScalarValue::from_f64(d)).find_first_of(".e") != std::string::npos);
  }
  CHECK(constant_text(ScalarValue::from_f64(std::nan(""))) == "nan");
  CHECK(constant_text(ScalarValue::from_f64(-std::nan(""))) == "nan(0xfff8000000000000)");
  CHECK(constant_text(ScalarValue::from_i64(std::numeric_limits<int64_t>::min())) ==
        "-9223372036854775808");
}

TEST_CASE("a scratch argument may name slots of later lines") {
  const auto p = parse_program(R"(program p {
    arg w: scratch f32 elements %n * 2
    arg x: view f32 rank 1
    %n = size(x, 0)
  })");
  REQUIRE_MESSAGE(p.ok(), p.status().message());
  CHECK(p->slots[p->args[0].scratch_elements].op == SlotOp::kMul);
  check_error("program p {\n arg w: scratch f32 elements %m\n}",
              "line 2, column 30: unknown slot '%m'");
}

TEST_CASE("errors carry line and column and say what is allowed") {
  check_error("", "line 1, column 1: expected 'program', found the end of the text");
  check_error("program P {}", "program's name");
  check_error(edited("activation relu(a)", "activatoin relu(a)"),
              "line 16, column 9: unknown opcode 'activatoin'; did you mean activation?");
  check_error(edited("activation relu(a)", "activation reluu(a)"),
              "unknown function 'reluu'; did you mean relu");
  check_error(edited("activation relu(a)", "activation relu(z)"),
              "'z' is not a tile, a scalar argument or a constant");
  check_error(edited("activation relu(a)", "activation relu(r)"), "it is the axis of line 11");
  check_error(edited("tile a: f32", "tile a: float"), "'float' is not a dtype; allowed: bool, u8");
  check_error(edited("guard %tiles", "guard %tile"), "unknown slot '%tile'; did you mean %tiles?");
  check_error(edited("c * stride(y, 1)", "d * stride(y, 1)"), "'d' is not an axis of this nest");
  check_error(edited("c * stride(y, 1)", "r * stride(y, 1)"),
              "the axis 'r' already has a stride in this access");
  check_error(edited("size(x, 0)", "size(q, 0)"), "'q' is not an argument");
  check_error(edited("size(x, 0)", "size(x, 6)"), "a dimension is 6, allowed are 0 to 5");
  check_error(edited("%tiles = ceil_div(", "%rows = ceil_div("),
              "duplicate slot '%rows': already in line 7");
  check_error(edited("tile b:", "tile a:"), "duplicate name 'a': already the tile of line 13");
  check_error(edited("tile b:", "tile x:"), "duplicate name 'x': already the argument of line 4");
  check_error(edited("tile b:", "tile free:"), "'free' is a reserved word");
  check_error(edited("op 1\n    y", "opp 1\n    y"),
              "expected on, op, order, continue or the end of the line");
  check_error(edited("on", "$"), "");
  check_error(edited("rank 2 read", "rank 9 read"), "a view's rank is 9, allowed are 0 to 6");
  check_error(edited("relu(a)\n", "relu(a) on gpu\n"),
              "expected an engine (pe, act, dve, pool, sp or dma), found 'gpu'");
  check_error(edited("ceil_div(size", "cel_div(size"),
              "unknown slot function 'cel_div'; did you mean ceil_div?");
  check_error(edited("= dma_copy(b) op 1", "= tensor_copy(b)"), "only it writes to HBM");
  check_error(edited("nest {", "nest {\n arg q: seed"), "");
  check_error(edited("    tile b: f32 [p, f]\n", "    tile b: f32 [f, p]\n"),
              "expected p, a partition axis or 1, found 'f'");
  check_error(edited("512) * 512", "99999999999999999999) * 512"), "is not an integer of 64 bits");
  check_error(std::string(kScaleRows) + "nest {", "the end of the text after the program's '}'");
  check_error("program p {\n %x = " + std::string(100, '(') + "1" + std::string(100, ')') + "\n}",
              "nested too deeply");
  check_error(
      "program p {\n  \xff\n}",
      "line 2, column 3: expected target, ops, arg, %slot, const, guard or nest, found '\\xff'");
}

TEST_CASE("mutated text never crashes the parser, and what it accepts round-trips") {
  const char* env = std::getenv("NAX_FUZZ_SEED");
  const uint64_t seed = env ? std::strtoull(env, nullptr, 10) : std::random_device()();
  MESSAGE("NAX_FUZZ_SEED=" << seed);
  std::mt19937_64 rng(seed);
  auto below = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  static constexpr const char* kWords[] = {
      "nest",  "{", "}", "(", ")", "[",  "]",  "%",      "%0",   "a0",
      "t0",    "*", "+", "-", "=", "op", "on", "finish", "tile", "-9223372036854775808",
      "1e400", "\n"};
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    std::string text =
        round % 3 == 0 ? std::string(kScaleRows) : to_text(RandomProgram(rng()).make());
    for (size_t k = 1 + below(4); k > 0 && !text.empty(); --k) {
      const size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(rng());
          break;
        case 1:
          text.erase(at, 1 + below(8));
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), below(30)));
          break;
        case 3:
          text.insert(at, kWords[below(std::size(kWords))]);
          break;
        default:
          text.resize(at);
          break;
      }
    }
    const auto p = parse_program(text);
    if (!p.ok()) {
      REQUIRE(p.status().message().substr(0, 5) == "line ");
      continue;
    }
    ++accepted;
    const std::string printed = to_text(*p);
    const auto again = parse_program(printed);
    REQUIRE_MESSAGE(again.ok(), again.status().message());
    REQUIRE(*again == *p);
  }
  CHECK(accepted > 0);
}

TEST_CASE("a malformed program can still be printed") {
  Program p = RandomProgram(3).make();
  p.nests[0].tiles.clear();
  p.slots.resize(1);
  p.constants.clear();
  p.args[1].dtype = static_cast<DType>(200);
  p.nests[0].body.emplace_back();
  p.nests[0].body.back().opcode = static_cast<Opcode>(99);
  p.nests[0].body.back().dst = -7;
  CHECK(to_text(p).find('?') != std::string::npos);
}

}  // namespace
}  // namespace nax
