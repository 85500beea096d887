// make_plan with any proposal: what policies' authors and tests use. See fusion/plan.h for the
// contract.
#pragma once

#include "fusion/plan.h"
#include "fusion/policies/policy.h"

namespace nax {

// Lowers a window grouped as proposed. A proposal that fails the legality check is replaced by
// unfused order and its reason is in WindowPlan::rejected; a region that cannot be one loop runs op
// by op.
StatusOr<std::shared_ptr<const WindowPlan>> plan_with(const Window& window, ProposeFn propose,
                                                      std::string_view policy,
                                                      const TargetInfo& target);

}  // namespace nax
