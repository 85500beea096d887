// Do views of one launch share memory? Conservative: an answer of "yes" costs speed, never correctness.
#pragma once

#include "device/interpreter/lane_program.h"

namespace nax {

// May two views touch the same byte? Views that interleave row by row (halves of a matrix) are told apart.
bool views_overlap(const ArgDecl& a_decl, const ArgValue& a, const ArgDecl& b_decl, const ArgValue& b);

// Does a written view of the program overlap another one?
bool any_overlap(const Program& program, const ArgValue* args);

// Does a store of this nest overlap an access of another argument in it?
bool nest_overlaps(const Program& program, const LaneProgram& lanes, const ArgValue* args);

}  // namespace nax
