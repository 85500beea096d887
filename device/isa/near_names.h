// Suggestions for a misspelt name, for messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nax {

// The up to three candidates with the smallest edit distance (at most half of the name's length),
// best first, joined by
// ", "; where none is near, all of up to 16 candidates; empty otherwise.
std::string near_names(std::string_view name, const std::vector<std::string_view>& candidates);

// "; did you mean a, b" or "; allowed: a, b, c" or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace nax
