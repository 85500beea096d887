// What is known about each opcode apart from its execution: text name, engines that may run it,
// whether nki.isa has it, which fields of Instr it uses. Printer, parser and verifier are driven by
// this table; lowering asks engine_for(). Thread: constant data, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/isa/program.h"

namespace nax {

constexpr uint8_t engine_bit(Engine e) { return static_cast<uint8_t>(1u << static_cast<int>(e)); }

// Which function table the opcode's function name comes from.
// kSelect: the one function is implied by the opcode (Instr::fn is ScalarOp::kSelect, the text does
// not name it).
enum class OpcodeFn : uint8_t { kNone = 0, kScalar = 1, kReduce = 2, kSelect = 3 };

struct OpcodeInfo {
  std::string_view name;  // text form; "x." marks extensions
  OpcodeFn fn = OpcodeFn::kNone;
  uint8_t min_src = 0,
          max_src =
              0;  // operands; with OpcodeFn::kScalar the function's arity decides within these
  uint8_t engines =
      0;  // engine_bit()s; the first one in enum order is not the default, see engine_for
  std::string_view operands;  // rule, for people
  std::string_view
      reason;  // extensions: why nki.isa's instructions are not enough; empty otherwise
  bool extension() const { return !reason.empty(); }
  bool allows(Engine e) const { return (engines & engine_bit(e)) != 0; }
};

// `opcode` must be below kOpcodeCount. Loads and stores share the name dma_copy.
const OpcodeInfo& opcode_info(Opcode opcode);

// False where no opcode has the name. dma_copy yields kDmaLoad.
bool opcode_from_name(std::string_view name, Opcode* out_opcode);

std::string_view engine_name(Engine e);  // pe act dve pool sp dma
bool engine_from_name(std::string_view name, Engine* out_engine);
std::string_view reduce_fn_name(ReduceFn f);
bool reduce_fn_from_name(std::string_view name, ReduceFn* out_fn);
std::string_view reduce_order_name(ReduceOrder o);

// The engine on which an instruction belongs by default, and which verify() accepts. `fn` matters
// for opcodes with a scalar function, `lane` (of the operands) for all: 64-bit lanes are software
// on POOL.
Engine engine_for(Opcode opcode, ScalarOp fn, Lane lane);

// Whether `engine` may run the instruction; where not, *out_why says what is allowed.
bool engine_allowed(Opcode opcode, ScalarOp fn, Lane lane, Engine engine, std::string* out_why);

// The names that are nearest to `name` among all opcodes (or functions), for messages:
// "tensor_scalar, tensor_tensor".
std::string near_opcode_names(std::string_view name);
std::string near_scalar_op_names(std::string_view name);

}  // namespace nax
