#include "runtime/plan_entry.h"

#include <algorithm>

namespace nax {
namespace {

bool meet(const std::vector<BufferIndex>& a, const std::vector<BufferIndex>& b) {
  return std::any_of(a.begin(), a.end(), [&](BufferIndex x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

bool independent(const PlannedLaunch& a, const PlannedLaunch& b) {
  return !meet(a.writes, b.reads) && !meet(a.writes, b.writes) && !meet(a.reads, b.writes) && !meet(a.release_after, b.reads) &&
         !meet(a.release_after, b.writes);
}

}  // namespace

std::vector<LaunchStep> gather_launches(const WindowPlan& plan,
                                        std::vector<std::vector<std::shared_ptr<ProgramEntry>>> programs) {
  constexpr size_t kMaxInstances = 256;  // bounds the quadratic check and the argument table
  std::vector<LaunchStep> steps;
  for (uint32_t i = 0; i < plan.launches.size(); ++i) {
    auto& variants = programs[i];
    const bool plain = variants.size() == 1 && !variants[0]->may_fail && plan.launches[i].programs[0]->guards.empty();
    if (plain && !steps.empty()) {
      LaunchStep& last = steps.back();
      const bool joins = last.variants.size() == 1 && last.variants[0] == variants[0] && last.launches.size() < kMaxInstances &&
                         std::all_of(last.launches.begin(), last.launches.end(), [&](uint32_t other) {
                           return independent(plan.launches[other], plan.launches[i]);
                         });
      if (joins) {
        last.launches.push_back(i);
        continue;
      }
    }
    steps.push_back({std::move(variants), {i}});
  }
  return steps;
}

}  // namespace nax
