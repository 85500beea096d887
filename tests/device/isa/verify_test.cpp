#include "device/isa/verify.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "device/isa/equal.h"
#include "device/isa/text.h"
#include "tests/device/isa/random_program.h"
#include "tests/device/isa/sample_programs.h"

namespace nax {
namespace {

Program parse(std::string_view text) {
  auto p = parse_program(text);
  REQUIRE_MESSAGE(p.ok(), p.status().message());
  return *std::move(p);
}

// `text` with one passage replaced must parse and must be refused with a message that has `part`.
void refuse(std::string text, std::string_view from, std::string_view to, std::string_view part) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  CAPTURE(std::string(to));
  const Status s = verify(parse(text));
  REQUIRE_FALSE(s.ok());
  CHECK(s.code() == StatusCode::kInvalidArgument);
  CHECK(s.reason() == ErrorReason::kVerifyFailed);
  const std::string message(s.message());
  CAPTURE(message);
  CHECK(message.find(part) != std::string::npos);
}

TEST_CASE("the samples pass, and so do their printed forms") {
  for (const char* text : samples::kAll) {
    const Program p = parse(text);
    const Status s = verify(p);
    CHECK_MESSAGE(s.ok(), s.message());
    CHECK(parse(to_text(p)) == p);
  }
}

TEST_CASE("arguments are used as declared") {
  using namespace samples;
  refuse(kChain, "rank 2 read", "rank 2", "argument a0: is read, but not declared 'read'");
  refuse(kChain, "rank 2 write", "rank 2 read write",
         "argument a3: is declared 'read', but nothing reads it");
  refuse(kRowSum, "rank 1 write", "rank 1", "argument a1: is written, but not declared 'write'");
  refuse(kChain, "view f32", "view c64", "argument a0: dtype c64 is not computable; allowed: bool");
  refuse(kChain, "greater(a, s)", "greater(a, w)", "a1 is not a scalar argument");
  refuse(kChain, "x[r * stride(x, 0)", "s[r * stride(x, 0)", "a2 is not in HBM");
  refuse(kLongSum, "w[b] = dma_copy(s)", "y[b] = dma_copy(s)",
         "a2: scratch is read before it is written");
  refuse(kChain, "size(x, 1) tile", "size(x, 2) tile", "a0 has rank 2, there is no dimension 2");
  refuse(kChain, "size(x, 1) tile", "size(s, 0) tile", "a2 is not a view: it has no sizes");
}

TEST_CASE("axes") {
  using namespace samples;
  refuse(kChain, "free c: size(x, 1) tile 2048", "free c: size(x, 1) tile 0",
         "tile size 0, at least 1");
  refuse(kChain, "partition r: size(x, 0)", "partition r: size(x, 0) tile 4",
         "only a free axis has a tile size");
  refuse(kChain, "free c: size(x, 1) tile 2048", "free c: size(x, 1) tile 2048\n loop i: 4",
         "a loop axis after a free axis");
  refuse(kChain, "free c: size(x, 1) tile 2048", "free c: size(x, 1) tile 2048\n contract k: 4",
         "has a contract axis, but no matmul");
  refuse(kChain, "free c: size(x, 1) tile 2048", "free c: size(x, 1) tile 2048 carried",
         "only the partition axis can be carried");
  refuse(kChain, "partition r: size(x, 0)", "partition r: size(x, 0)\n partition q: 4",
         "has 2 partition axes");
  refuse(kChain, "partition r: size(x, 0)", "partition r: size(x, 0)\n free d: 4 tile 8",
         "two free axes have a tile size");
  refuse(kMatmulRelu, "contract k: size(a, 1)", "contract k: size(a, 1)\n contract l: 3",
         "found 1, 1 and 2");
  refuse(kMatmulRelu, "partition m: size(a, 0)", "partition m: size(a, 0) carried",
         "of a matmul cannot be carried");
}

TEST_CASE("splits") {
  using namespace samples;
  refuse(kRandom, "free c: 512 split r", "free d: 4\n free c: 512 split r",
         "a split free axis must be the only free axis");
  refuse(kRandom, "partition r: ceil_div(%n, 512)",
         "loop q: 4\n partition r: ceil_div(%n, 512) split q of %n",
         "the outer axis of a split is itself split");
}

TEST_CASE("tiles are written before they are read, with shapes that agree") {
  using namespace samples;
  refuse(kChain, "    b = dma_copy(w[c * stride(w, 0)])\n", "    b = tensor_copy(o)\n",
         "t3 is read before it is written");
  refuse(kChain, "tile b: bf16 [r, c]", "tile b: bf16 [r, 1]",
         "a stride along axis f1, which its tile does not span");
  refuse(kSoftmax, "a = tensor_scalar subtract(a, m)", "a = tensor_tensor subtract(a, m)",
         "t1 is [p, 1], dst is [p, f]; tensor_scalar broadcasts, this opcode does not");
  refuse(kSoftmax, "m = tensor_reduce max(a)", "a = tensor_reduce max(a)",
         "found [p, f] to [p, f]");
  refuse(kSoftmax, "tile a: f32 [r, c]", "tile a: psum f32 [r, c]",
         "tile t0: a psum tile is the result of its nest's matmul");
  refuse(kMatmulRelu, "o = tensor_copy(acc)", "acc = tensor_copy(acc)",
         "t0 is psum: only the matmul writes it");
  refuse(kChain, "m = tensor_scalar greater(a, s)", "m = tensor_scalar greater(1.0, s)",
         "one operand must be a tile of dst's shape");
  refuse(kChain, "a = tensor_tensor multiply(a, b)", "a = tensor_tensor multiply(a, 2.0)",
         "operand 1 must be a tile");
  refuse(kChain, "tensor_tensor multiply(a, b)", "tensor_tensor multiply(a)",
         "takes 2 operands, found 1");
  refuse(kChain, "tensor_tensor multiply(a, b)", "tensor_tensor exp(a)",
         "exp takes 1 operands; tensor_tensor takes 2 to 2");
}

TEST_CASE("lanes and engines") {
  using namespace samples;
  refuse(kChain, "tile b: bf16", "tile b: i32", "operands of f32 (f32, bf16, f16) and i32");
  refuse(kChain, "tile m: bool", "tile m: f32",
         "the result is i32 (bool, u8, i8, i16, i32), dst is f32");
  refuse(kChain, "x.select(m, a, 0.0)", "x.select(a, a, 0.0)",
         "the condition t0 is f32; allowed: bool");
  refuse(kChain, "activation exp(a)", "activation exp(a) on dve",
         "cannot run on dve; allowed: act");
  refuse(kChain, "activation exp(a)", "activation x.lgamma(a)",
         "x.lgamma is not a function of act");
  refuse(kChain, "activation exp(a)", "x.pointwise invert(a)",
         "invert is not defined for operands of f32");
  refuse(kChain, "activation exp(a)", "x.pointwise x.lgamma(a) on dve",
         "allowed: pool (for this function)");
  refuse(kRandom, "iota(c, 0, 3)", "iota(c, 0, 3) on dve", "cannot run on dve; allowed: pool");
  refuse(kMatmulRelu, "o = tensor_copy(acc)", "o = tensor_copy(acc) on pool",
         "pool cannot read psum");
  refuse(kMatmulF32, "o = tensor_copy(acc)", "o = tensor_tensor multiply(acc, acc)",
         "both operands are in psum");
  refuse(kMatmulF32, "arg b: view f32", "arg b: view bf16",
         "operands of f32 and bf16; both must have the same dtype");
  refuse(kMatmulF32, "psum f32", "psum f64", "operands of f32 accumulate in f32, the tile is f64");
  refuse(kGather, "tile i: i64", "tile i: f32", "the index tile is f32; allowed: i32, i64");
}

TEST_CASE("reductions stand only where their value does not depend on tiles") {
  using namespace samples;
  refuse(kRowSum, "tile 2048", "tile 2000",
         "tiles of 2000 elements; a reduction needs multiples of 512");
  refuse(kRowSum, "    finish {\n      o = tensor_scalar multiply(s, inv)",
         "    o = tensor_scalar multiply(s, inv)\n    finish {",
         "t1 is the result of a reduction over several tiles: it is complete only in 'finish'");
  refuse(kRowSum, "y[r * stride(y, 0)] = dma_copy(o)", "y[r * stride(y, 0)] = dma_copy(a)",
         "t0 [p, f] of the body does not outlive its free tile");
  refuse(kRowSum, "sum(a)", "sum(a) order tree", "order tree needs a free axis of one tile");
  refuse(kRowSum, "sum(a)", "sum(a) order column",
         "order column belongs to tensor_partition_reduce");
  refuse(kRowSum, "sum(a)", "any(a)", "any and all take bool");
  refuse(kRowSum, "sum(a)", "sum(a) continue", "'continue' is for a tensor_reduce");
  refuse(kRowSum, "s = tensor_reduce sum(a)", "s = tensor_reduce sum(a)\n s = memset(0.0)",
         "cannot be written again in the body");
  refuse(kColumnSum, " carried", "", "needs a carried partition axis");
  refuse(kColumnSum, "sum(a)", "sum(a) order row", "order row belongs to tensor_reduce");
  refuse(kColumnSum, "    finish {\n",
         "    a = tensor_copy(a)\n    finish {\n  s = tensor_copy(a)\n",
         "does not outlive its partition tile");
  refuse(kSoftmax, "m = tensor_reduce max(a)", "m = tensor_reduce max(a) continue",
         "t1 is read before it is written");
}

TEST_CASE("ops and unused fields") {
  using namespace samples;
  refuse(kChain, "ops 3", "ops 2", "op 2, the program has 2");
  refuse(kChain, "ops 3", "ops 0", "at least one op");
  Program p = parse(kChain);
  p.nests[0].body[2].hbm.arg = 0;
  CHECK(verify(p).message().find("does not use has not its default") != std::string_view::npos);
  p = parse(kChain);
  p.slots[0].imm = p.slots[0].op == SlotOp::kConst ? p.slots[0].imm : 5;
  p.slots.push_back({SlotOp::kAdd, 0, static_cast<int16_t>(p.slots.size()), 0});
  CHECK_FALSE(verify(p).ok());
}

TEST_CASE("no program crashes the verifier, and what passes prints and reads back") {
  std::mt19937_64 rng(11);
  std::vector<Program> bases;
  for (const char* text : samples::kAll) bases.push_back(parse(text));
  int passed = 0;
  for (int round = 0; round < 20000; ++round) {
    Program p = round % 4 == 0 ? RandomProgram(rng()).make() : bases[rng() % bases.size()];
    Nest& n = p.nests[rng() % p.nests.size()];
    auto any16 = [&] {
      return static_cast<int16_t>(rng() % 2 ? static_cast<int>(rng() % 12) - 2
                                            : static_cast<int>(rng()));
    };
    auto any8 = [&] { return static_cast<uint8_t>(rng() % 2 ? rng() % 12 : rng()); };
    switch (rng() % 14) {
      case 0:
        p.slots[rng() % p.slots.size()].a = any16();
        break;
      case 1:
        p.slots[rng() % p.slots.size()].op = static_cast<SlotOp>(any8());
        break;
      case 2:
        p.args[rng() % p.args.size()].dtype = static_cast<DType>(any8());
        break;
      case 3:
        p.args[rng() % p.args.size()].kind = static_cast<ArgKind>(any8());
        break;
      case 4:
        n.axes[rng() % n.axes.size()].extent = any16();
        break;
      case 5:
        n.axes[rng() % n.axes.size()].role = static_cast<AxisRole>(any8());
        break;
      case 6:
        n.axes[rng() % n.axes.size()].split_outer = static_cast<AxisId>(any16());
        break;
      case 7:
        n.tiles[rng() % n.tiles.size()].shape = static_cast<TileShape>(any8());
        break;
      case 8:
        n.tiles[rng() % n.tiles.size()].dtype = static_cast<DType>(any8());
        break;
      case 9:
        n.matmul.psum = any16();
        n.has_matmul = rng() % 2;
        break;
      case 10:
        n.tiles.resize(rng() % (n.tiles.size() + 1));
        break;
      default: {
        if (n.body.empty()) break;
        Instr& i = n.body[rng() % n.body.size()];
        switch (rng() % 8) {
          case 0:
            i.opcode = static_cast<Opcode>(any8());
            break;
          case 1:
            i.dst = any16();
            break;
          case 2:
            i.src[rng() % 3].id = any16();
            break;
          case 3:
            i.src[rng() % 3].kind = static_cast<OperandKind>(any8());
            break;
          case 4:
            i.hbm.arg = any16();
            break;
          case 5:
            i.hbm.strides[rng() % 8] = any16();
            break;
          case 6:
            i.fn = static_cast<ScalarOp>(any8());
            break;
          default:
            i.engine = static_cast<Engine>(any8());
            break;
        }
      }
    }
    const Status s = verify(p);
    if (!s.ok()) continue;
    ++passed;
    const auto again = parse_program(to_text(p));
    REQUIRE_MESSAGE(again.ok(), again.status().message());
    REQUIRE(*again == p);
  }
  CHECK(passed > 100);
}

}  // namespace
}  // namespace nax
