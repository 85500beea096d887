// What an entry on disk must have been written by to be read again.
#pragma once

#include <string>

namespace nax {

// ELF build id of this library, format versions, hash of the target tables. Empty build ids (an unusual link) are
// replaced by the size and time of the file.
std::string build_fingerprint();

}  // namespace nax
