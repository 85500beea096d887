// The identity of a program across windows, processes and policies: all of its content but the
// name, as canonical bytes. Equal layers lower to equal programs, so they share one key. Pure
// function.
#pragma once

#include <string>

#include "device/isa/program.h"

namespace nax {

void append_program_key(const Program& program, std::string* out);

}  // namespace nax
