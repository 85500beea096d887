#include "device/isa/near_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace nax {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = std::exchange(row[j], next);
    }
  }
  return row[b.size()];
}

std::string join(const std::vector<std::string_view>& names) {
  std::string out;
  for (std::string_view n : names) {
    if (!out.empty()) out += ", ";
    out += n;
  }
  return out;
}

// Sorted by distance; only those within half of the name's length.
std::vector<std::string_view> nearest(std::string_view name,
                                      const std::vector<std::string_view>& candidates) {
  std::vector<std::pair<size_t, std::string_view>> scored;
  if (name.size() <= 64) {
    for (std::string_view c : candidates) {
      size_t d = edit_distance(name, c);
      if (c.size() > name.size() && name.size() >= 3 && c.find(name) != std::string_view::npos)
        d = 1;
      if (d <= std::max<size_t>(1, name.size() / 2)) scored.emplace_back(d, c);
    }
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<std::string_view> out;
  for (const auto& [distance, candidate] : scored) {
    if (out.size() == 3) break;
    if (std::find(out.begin(), out.end(), candidate) == out.end()) out.push_back(candidate);
  }
  return out;
}

}  // namespace

std::string near_names(std::string_view name, const std::vector<std::string_view>& candidates) {
  const std::vector<std::string_view> near = nearest(name, candidates);
  if (!near.empty()) return join(near);
  return candidates.size() <= 16 ? join(candidates) : std::string();
}

std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& candidates) {
  const std::vector<std::string_view> near = nearest(name, candidates);
  if (!near.empty()) return "; did you mean " + join(near) + "?";
  if (!candidates.empty() && candidates.size() <= 16) return "; allowed: " + join(candidates);
  return "";
}

}  // namespace nax
