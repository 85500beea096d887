#include "runtime/stats.h"

namespace nax {
namespace {

constexpr const char* kCutNames[] = {
#define NAX_X(name) #name,
    NAX_CUT_REASONS(NAX_X)
#undef NAX_X
};
constexpr const char* kMissNames[] = {
#define NAX_X(name) #name,
    NAX_MISS_REASONS(NAX_X)
#undef NAX_X
};
constexpr const char* kCounterNames[] = {
#define NAX_X(name) #name,
    NAX_COUNTERS(NAX_X)
#undef NAX_X
};

void bump(std::map<std::string, uint64_t, std::less<>>& counts, std::string_view key) {
  const auto found = counts.find(key);
  if (found != counts.end())
    ++found->second;
  else
    counts.emplace(key, 1);
}

}  // namespace

std::string_view cut_reason_name(CutReason reason) { return kCutNames[static_cast<size_t>(reason)]; }
std::string_view miss_reason_name(MissReason reason) { return kMissNames[static_cast<size_t>(reason)]; }

void Stats::add_plan_rejected(std::string_view reason) {
  std::lock_guard lock(mutex_);
  bump(plans_rejected_, reason);
}

void Stats::add_fallback(std::string_view op) {
  add(Counter::k_fallback_launches);
  std::lock_guard lock(mutex_);
  bump(fallbacks_, op);
}

void Stats::visit(Visitor visit) const {
  for (size_t i = 0; i < counters_.size(); ++i) visit(kCounterNames[i], static_cast<double>(counters_[i].load()));
  visit("compile_seconds_background", static_cast<double>(background_ns_.load()) * 1e-9);
  visit("compile_seconds_foreground", static_cast<double>(foreground_ns_.load()) * 1e-9);
  for (size_t i = 0; i < cuts_.size(); ++i)
    visit((std::string("cuts.") + kCutNames[i]).c_str(), static_cast<double>(cuts_[i].load()));
  for (size_t i = 0; i < misses_.size(); ++i)
    visit((std::string("misses.") + kMissNames[i]).c_str(), static_cast<double>(misses_[i].load()));
  std::map<std::string, uint64_t, std::less<>> rejected;
  {
    std::lock_guard lock(mutex_);
    rejected = plans_rejected_;
  }
  for (const auto& [reason, count] : rejected)
    visit(("plans_rejected." + reason).c_str(), static_cast<double>(count));
}

void Stats::visit_fallbacks(Visitor visit) const {
  std::map<std::string, uint64_t, std::less<>> fallbacks;
  {
    std::lock_guard lock(mutex_);
    fallbacks = fallbacks_;
  }
  for (const auto& [op, count] : fallbacks) visit(op.c_str(), static_cast<double>(count));
}

void Stats::reset() {
  for (auto& c : counters_) c.store(0, std::memory_order_relaxed);
  for (auto& c : cuts_) c.store(0, std::memory_order_relaxed);
  for (auto& c : misses_) c.store(0, std::memory_order_relaxed);
  background_ns_.store(0);
  foreground_ns_.store(0);
  std::lock_guard lock(mutex_);
  plans_rejected_.clear();
  fallbacks_.clear();
}

}  // namespace nax
