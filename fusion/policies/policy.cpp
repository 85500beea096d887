#include "fusion/policies/policy.h"

#include "fusion/plan.h"

namespace nax {
namespace {

struct Row {
  const char* name;
  ProposeFn propose;
};
constexpr Row kPolicies[] = {
    {"strict", propose_strict}, {"greedy", propose_greedy}, {"adaptive", propose_adaptive}};
constexpr const char* kNames[] = {kPolicies[0].name, kPolicies[1].name, kPolicies[2].name, nullptr};

}  // namespace

ProposeFn find_policy(std::string_view name) {
  for (const Row& row : kPolicies)
    if (name == row.name) return row.propose;
  return nullptr;
}

const char* const* fusion_policy_names() { return kNames; }

}  // namespace nax
