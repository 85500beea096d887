// Engine programs as bytes, for the disk store and for keys. Little-endian, versioned; equal
// programs give equal bytes and, for programs that pass verify(), equal bytes mean equal programs.
//
// Decoding takes any bytes: it never reads outside of them, never allocates more than they can
// hold, and returns only programs that pass verify(). Damage that leaves a valid program is not
// noticed here: stores keep a checksum. Thread: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/base/status.h"
#include "device/isa/program.h"

namespace nax {

inline constexpr uint32_t kProgramFormatVersion =
    1;  // raise with any change of the layout or of a field's meaning

// Appends; fields that the verifier wants at their defaults are left out.
void serialize_program(const Program& program, std::string* out);
std::string serialize_program(const Program& program);

// kDataLoss with the reason and the offset, or kFailedPrecondition for another format version.
StatusOr<Program> deserialize_program(std::string_view bytes);

}  // namespace nax
