#include "device/isa/opcode_info.h"

#include <array>

#include "device/isa/near_names.h"

namespace nax {
namespace {

constexpr uint8_t kACT = engine_bit(Engine::kACT), kDVE = engine_bit(Engine::kDVE),
                  kPOOL = engine_bit(Engine::kPOOL), kDMA = engine_bit(Engine::kDMA);
constexpr auto kNoFn = OpcodeFn::kNone;
constexpr auto kScalarFn = OpcodeFn::kScalar;
constexpr auto kReduceFn = OpcodeFn::kReduce;

// Indexed by Opcode. Engines: NKI API reference, nki.isa (facts S2); POOL also for 64-bit lanes, as
// software.
constexpr std::array<OpcodeInfo, kOpcodeCount> kOpcodes = {{
    {"dma_copy", kNoFn, 0, 0, kDMA, "tile = dma_copy(arg[...]): converts to the tile's dtype", ""},
    {"dma_copy", kNoFn, 1, 1, kDMA, "arg[...] = dma_copy(tile): converts to the argument's dtype",
     ""},
    {"tensor_tensor", kScalarFn, 2, 2, kDVE | kPOOL, "two tiles of dst's shape; not both in psum",
     ""},
    {"tensor_scalar", kScalarFn, 1, 3, kACT | kDVE | kPOOL,
     "a tile of dst's shape and scalars, [p, 1] or [1, 1] tiles, in any order", ""},
    {"activation", kScalarFn, 1, 1, kACT, "one tile of dst's shape", ""},
    {"tensor_copy", kNoFn, 1, 1, kACT | kDVE | kPOOL,
     "one tile; converts to dst's dtype; [p, 1] broadcasts", ""},
    {"memset", kNoFn, 1, 1, kACT | kDVE | kPOOL, "one scalar", ""},
    {"x.select", OpcodeFn::kSelect, 3, 3, kDVE | kPOOL, "condition tile, then tiles or scalars",
     "nki's predicated copy has one source tile; ATen's where has two, of any layout"},
    {"x.pointwise", kScalarFn, 1, 3, kDVE | kPOOL, "tiles or scalars, broadcast to dst's shape",
     "ATen functions that no engine has as one instruction: divide, 64-bit types, logarithms and "
     "angles of full range"},
    {"tensor_reduce", kReduceFn, 1, 1, kDVE | kPOOL,
     "[p, f] to [p, 1] or [1, f] to [1, 1], along free", ""},
    {"tensor_partition_reduce", kReduceFn, 1, 1, kPOOL,
     "[p, f] to [1, f] or [p, 1] to [1, 1], along partitions", ""},
    {"iota", kNoFn, 2, 2, kPOOL, "iota(axis, start, step): dst = start + coordinate * step", ""},
    {"tensor_tensor_scan", kReduceFn, 1, 1, kDVE | kPOOL, "[p, f] to [p, f], running along free",
     ""},
    {"x.philox", kNoFn, 1, 1, kPOOL, "x.philox(seed, [index]): 32 random bits of element `index`",
     "nki's rng has its own stream per engine; PyTorch's generators are counter based and "
     "reproducible"},
}};

constexpr std::array<std::string_view, kEngineCount> kEngines = {"pe",   "act", "dve",
                                                                 "pool", "sp",  "dma"};
constexpr std::array<std::string_view, 6> kReduceFns = {"sum", "prod", "max", "min", "any", "all"};
constexpr std::array<std::string_view, 3> kReduceOrders = {"row", "column", "tree"};

template <size_t N>
int find_name(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<int>(i);
  return -1;
}

bool is_wide(Lane lane) { return lane == Lane::kF64 || lane == Lane::kI64; }

// Engines on which the pair of opcode and function may run.
uint8_t engines_of(Opcode opcode, ScalarOp fn, Lane lane) {
  const uint8_t engines = opcode_info(opcode).engines;
  if (opcode == Opcode::kDmaLoad || opcode == Opcode::kDmaStore) return engines;
  // Bytes move on every engine, whatever they mean.
  if (opcode == Opcode::kTensorCopy || opcode == Opcode::kMemset) return engines;
  if (is_wide(lane)) return engines & kPOOL ? kPOOL : engines;
  if (opcode_info(opcode).fn != OpcodeFn::kScalar) return engines;
  const ScalarOpInfo& info = scalar_op_info(fn);
  switch (opcode) {
    case Opcode::kTensorTensor:
      // Powers and everything that is a sequence of instructions run on POOL only.
      return info.cost == ScalarCost::kSoftware ? kPOOL : engines;
    case Opcode::kTensorScalar:
      if (info.cost == ScalarCost::kSoftware) return kPOOL;
      // ACT's tensor_scalar knows mul, add and mul+add only (facts 1.3).
      if (fn == ScalarOp::kMultiply || fn == ScalarOp::kAdd || fn == ScalarOp::kCopy)
        return engines;
      return kDVE | kPOOL;
    case Opcode::kPointwise:
      return info.cost == ScalarCost::kSoftware ? kPOOL : kDVE | kPOOL;
    default:
      return engines;
  }
}

}  // namespace

const OpcodeInfo& opcode_info(Opcode opcode) { return kOpcodes[static_cast<size_t>(opcode)]; }

bool opcode_from_name(std::string_view name, Opcode* out_opcode) {
  for (int i = 0; i < kOpcodeCount; ++i) {
    if (kOpcodes[i].name != name) continue;
    *out_opcode = static_cast<Opcode>(i);
    return true;
  }
  return false;
}

std::string_view engine_name(Engine e) { return kEngines[static_cast<size_t>(e)]; }

bool engine_from_name(std::string_view name, Engine* out_engine) {
  const int i = find_name(kEngines, name);
  if (i >= 0) *out_engine = static_cast<Engine>(i);
  return i >= 0;
}

std::string_view reduce_fn_name(ReduceFn f) { return kReduceFns[static_cast<size_t>(f)]; }

bool reduce_fn_from_name(std::string_view name, ReduceFn* out_fn) {
  const int i = find_name(kReduceFns, name);
  if (i >= 0) *out_fn = static_cast<ReduceFn>(i);
  return i >= 0;
}

std::string_view reduce_order_name(ReduceOrder o) { return kReduceOrders[static_cast<size_t>(o)]; }

Engine engine_for(Opcode opcode, ScalarOp fn, Lane lane) {
  const uint8_t engines = engines_of(opcode, fn, lane);
  if (opcode_info(opcode).fn == OpcodeFn::kScalar) {
    const ScalarEngine wanted = scalar_op_info(fn).engine;
    if (wanted == ScalarEngine::kACT && (engines & kACT) && opcode == Opcode::kActivation)
      return Engine::kACT;
    if (wanted == ScalarEngine::kPOOL && (engines & kPOOL)) return Engine::kPOOL;
  }
  for (Engine e : {Engine::kDVE, Engine::kPOOL, Engine::kACT, Engine::kDMA, Engine::kPE})
    if (engines & engine_bit(e)) return e;
  return Engine::kDVE;
}

bool engine_allowed(Opcode opcode, ScalarOp fn, Lane lane, Engine engine, std::string* out_why) {
  const uint8_t engines = engines_of(opcode, fn, lane);
  if (engines & engine_bit(engine)) return true;
  std::string why = "cannot run on " + std::string(engine_name(engine)) + "; allowed: ";
  bool first = true;
  for (int e = 0; e < kEngineCount; ++e) {
    if (!(engines & engine_bit(static_cast<Engine>(e)))) continue;
    if (!first) why += ", ";
    why += kEngines[e];
    first = false;
  }
  if (engines != opcode_info(opcode).engines) {
    if (is_wide(lane)) {
      why += " (64-bit types are software)";
    } else {
      why += " (for this function)";
    }
  }
  *out_why = std::move(why);
  return false;
}

std::string near_opcode_names(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OpcodeInfo& info : kOpcodes)
    if (names.empty() || names.back() != info.name) names.push_back(info.name);
  names.push_back("matmul");
  return did_you_mean(name, names);
}

std::string near_scalar_op_names(std::string_view name) {
  std::vector<std::string_view> names;
  for (int i = 0; i < kScalarOpLimit; ++i) {
    const std::string_view n = scalar_op_name(static_cast<ScalarOp>(i));
    if (!n.empty()) names.push_back(n);
  }
  return did_you_mean(name, names);
}

}  // namespace nax
