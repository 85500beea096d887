// The text form of engine programs; its grammar is in api/docs/engine-program.md.
//
// to_text names things by number (a0, %3, t1 ...) and spells out every field, so for each program
// that passes verify()
//   parse_program(to_text(p)) equals p,  and  to_text(parse_program(text)) is a fixed point.
// parse_program accepts more than to_text writes: names of the author's choice, slot expressions,
// literals, defaults. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "device/base/status.h"
#include "device/isa/program.h"

namespace nax {

// Never fails: what is out of range is printed as `?`, so a malformed program can be looked at.
std::string to_text(const Program& program);

// One instruction (or matmul) as to_text prints it, for messages and timelines.
std::string instr_text(const Program& program, const Nest& nest, const Instr& instr);
std::string matmul_text(const Program& program, const Nest& nest);

// A constant as to_text prints it; parses back to the same bits.
std::string constant_text(const ScalarValue& value);

// Canonical axis names: i loop, p partition, f free, k contract, followed by the axis number.
std::string axis_text(const Nest& nest, AxisId axis);

// Errors are kInvalidArgument / kParseFailed and start with "line L, column C: ". The result is not
// verified.
StatusOr<Program> parse_program(std::string_view text);

}  // namespace nax
