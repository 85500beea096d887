// Equality of programs, field by field: what a key hit is verified with (DESIGN I5) and what the
// text form must keep. Constants compare by kind and bits, so a NaN equals itself and 0.0 differs
// from -0.0.
#pragma once

#include "device/isa/program.h"

namespace nax {

bool operator==(const ScalarValue& x, const ScalarValue& y);
bool operator==(const ArgDecl& x, const ArgDecl& y);
bool operator==(const Slot& x, const Slot& y);
bool operator==(const Axis& x, const Axis& y);
bool operator==(const Tile& x, const Tile& y);
bool operator==(const HbmAccess& x, const HbmAccess& y);
bool operator==(const Operand& x, const Operand& y);
bool operator==(const Instr& x, const Instr& y);
bool operator==(const Matmul& x, const Matmul& y);
bool operator==(const Nest& x, const Nest& y);
bool operator==(const Guard& x, const Guard& y);
bool operator==(const Program& x, const Program& y);

}  // namespace nax
