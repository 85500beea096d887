#include "device/timing/machine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/isa/slots.h"
#include "device/timing/cost.h"

namespace nax {
namespace {

constexpr int64_t kMaxIterations = 64;  // simulated of one loop before the average is taken
constexpr int64_t kStepBudget =
    400'000;  // simulated steps of one machine; beyond, loops are averaged at once
constexpr size_t kPeriods[] = {1, 2, 3, 4, 8};

int64_t ns_to_ps(double ns) { return static_cast<int64_t>(std::llround(ns * 1000)); }

// No time or count gets beyond it by extrapolation; what steps add on top cannot overflow.
constexpr int64_t kForever = std::numeric_limits<int64_t>::max() / 4;

int64_t saturating(double v) {
  return static_cast<int64_t>(std::min(v, static_cast<double>(kForever)));
}

}  // namespace

Machine::Machine(const TargetInfo& target, bool extrapolate, StepListener* listener)
    : target_(target), extrapolate_(extrapolate), listener_(listener), state_(kFixed, 0) {
  semaphore_ps_ = ns_to_ps(target.semaphore_ns);
  trigger_ps_ = cycles_to_ps(target.min_interval, target.act_ghz);
  dma_latency_ps_ = ns_to_ps(target.dma_start_ns + target.dma_dge_ns);
  warm_ps_ = target.pe_throttle < 1 ? ns_to_ps(target.pe_warm_ns) : 0;
  state_[kPeRunStart] = -ns_to_ps(1e6);
  state_[kPeLastEnd] = -ns_to_ps(1e6);
}

void Machine::run(const Expansion& expansion) {
  expansion_ = &expansion;
  const int64_t now = state_[kNow];
  for (int i = 0; i <= kOrdered; ++i) state_[i] = now;
  value_cell_.clear();
  size_t cells = kFixed;
  for (const uint8_t buffers : expansion.buffers) {
    value_cell_.push_back(static_cast<int>(cells));
    cells += kRelease + buffers;
  }
  state_.resize(kFixed);
  state_.resize(cells, now);
  rotations_.assign(expansion.buffers.size(), 0);
  run_items(expansion.loops[0]);
  while (!stores_.empty()) place_first_store();
  counters_.hbm_read -= expansion.hbm_read_excess;
  counters_.hbm_written -= expansion.hbm_written_excess;
}

void Machine::run_items(const ExpandedLoop& loop) {
  for (const LoopItem& item : loop.items) {
    if (item.is_loop) {
      run_loop(item.index);
    } else {
      issue(expansion_->steps[item.index]);
    }
  }
}

void Machine::run_loop(int32_t index) {
  const ExpandedLoop& loop = expansion_->loops[index];
  if (loop.items.empty()) return;
  std::vector<Snapshot> history;
  const bool may_skip = extrapolate_ && loop.count > 3;
  if (may_skip) history.push_back(snapshot());
  for (int64_t done = 0; done < loop.count;) {
    run_items(loop);
    ++done;
    const int64_t left = loop.count - done;
    if (!may_skip || history.empty() || left < 2) continue;
    history.push_back(snapshot());
    for (const size_t period : kPeriods) {
      if (left < static_cast<int64_t>(period) || !periodic(history, period)) continue;
      const int64_t times = left / static_cast<int64_t>(period), before = state_[kNow];
      jump(history[history.size() - 1 - period], times, 1);
      if (listener_)
        listener_->on_skip(loop, times * static_cast<int64_t>(period), before, state_[kNow]);
      done += times * static_cast<int64_t>(period);
      history.clear();  // the remainder of a period is simulated
      break;
    }
    if (history.empty()) continue;
    const bool enough = done >= kMaxIterations || (simulated_ > kStepBudget && done >= 3);
    if (!enough) continue;
    approximate_ = true;
    const size_t then = history.size() / 2;
    const int64_t over = static_cast<int64_t>(history.size() - 1 - then), before = state_[kNow];
    jump(history[then], loop.count - done, over);
    if (listener_) listener_->on_skip(loop, loop.count - done, before, state_[kNow]);
    return;
  }
}

Machine::Snapshot Machine::snapshot() const {
  return {state_,
          {counters_.data(), counters_.data() + MachineCounters::kCount},
          {stores_.begin(), stores_.end()},
          rotations_};
}

bool Machine::periodic(const std::vector<Snapshot>& history, size_t period) const {
  const size_t n = history.size();
  if (n < 2 * period + 1) return false;
  const Snapshot &c = history[n - 1], &b = history[n - 1 - period],
                 &a = history[n - 1 - 2 * period];
  const int64_t shift = c.state[kNow] - b.state[kNow];
  for (size_t i = 0; i < c.state.size(); ++i) {
    const int64_t d = c.state[i] - b.state[i];
    if (d != b.state[i] - a.state[i] || (d != shift && d != 0)) return false;
  }
  if (c.stores.size() != b.stores.size() || b.stores.size() != a.stores.size()) return false;
  for (size_t i = 0; i < c.stores.size(); ++i) {
    const PendingStore &x = c.stores[i], &y = b.stores[i], &z = a.stores[i];
    if (x.step != y.step || y.step != z.step || x.trigger - y.trigger != shift ||
        y.trigger - z.trigger != shift)
      return false;
    for (size_t k = 0; k < x.step->src.size(); ++k) {
      const int16_t v = x.step->src[k];
      if (v >= 0 && (c.rotations[v] - x.rotation[k] != b.rotations[v] - y.rotation[k]))
        return false;
    }
  }
  // While the clock of PE warms up, equal steps say nothing about later ones.
  if (warm_ps_ > 0 && c.state[kPeLastEnd] != b.state[kPeLastEnd] &&
      c.state[kPeRunStart] == b.state[kPeRunStart]) {
    return b.state[kPeLastEnd] - c.state[kPeRunStart] >= warm_ps_;
  }
  return true;
}

void Machine::jump(const Snapshot& from, int64_t times, int64_t divide) {
  auto added = [&](int64_t delta) {
    if (divide == 1) return slot_arithmetic(SlotOp::kMul, delta, times);
    return saturating(static_cast<double>(delta) / static_cast<double>(divide) *
                      static_cast<double>(times));
  };
  auto later = [](int64_t cell, int64_t by) {
    return std::min(slot_arithmetic(SlotOp::kAdd, cell, by), kForever);
  };
  auto advance = [&](int64_t& cell, int64_t then) { cell = later(cell, added(cell - then)); };
  const int64_t shift = added(state_[kNow] - from.state[kNow]);
  for (PendingStore& p : stores_) p.trigger = later(p.trigger, shift);
  for (size_t i = 0; i < state_.size(); ++i) advance(state_[i], from.state[i]);
  for (int i = 0; i < MachineCounters::kCount; ++i) advance(counters_.data()[i], from.counters[i]);
}

void Machine::issue(const Step& s) {
  ++simulated_;
  switch (s.kind) {
    case StepKind::kBegin:
      take_buffer(s);
      return;
    case StepKind::kCompute:
      compute(s);
      return;
    case StepKind::kDma:
      s.store ? store(s) : load(s);
      return;
  }
}

int64_t Machine::ready_at(const Step& s) const {
  int64_t t = 0;
  for (size_t k = 0; k < s.src.size(); ++k) {
    if (s.src[k] < 0) continue;
    t = std::max(t, state_[value_cell_[s.src[k]]] + (s.wait[k] ? semaphore_ps_ : 0));
  }
  return t;
}

// Rotates to the oldest buffer of dst; returns from when on it may be written.
int64_t Machine::take_buffer(const Step& s) {
  place_stores_of(s.dst);
  int64_t* cells = value(s.dst);
  const int depth = expansion_->buffers[s.dst];
  ++rotations_[s.dst];
  const int64_t free = cells[kRelease] + (s.release_wait ? semaphore_ps_ : 0);
  for (int i = 0; i + 1 < depth; ++i) cells[kRelease + i] = cells[kRelease + i + 1];
  cells[kRelease + depth - 1] = cells[kReady] = cells[kBegun] = free;
  return free;
}

void Machine::read_sources(const Step& s, int64_t end) {
  for (const int16_t v : s.src)
    if (v >= 0) newest_release(v) = std::max(newest_release(v), end);
}

void Machine::compute(const Step& s) {
  int64_t start = std::max(state_[kEngines + static_cast<int>(s.engine)], ready_at(s));
  if (s.dst >= 0) start = std::max(start, s.merge ? value(s.dst)[kBegun] : take_buffer(s));
  int64_t busy = s.busy_ps;
  if (s.engine == Engine::kPE && warm_ps_ > 0) {
    // A gap of half a window means that less than half of it was used: the clock is throttled
    // again.
    if (start - state_[kPeLastEnd] > warm_ps_ / 2) state_[kPeRunStart] = start;
    if (start - state_[kPeRunStart] < warm_ps_) {
      busy = static_cast<int64_t>(static_cast<double>(busy) / target_.pe_throttle);
      counters_.throttled_ps += busy - s.busy_ps;
    }
    state_[kPeLastEnd] = start + busy;
  }
  const int64_t end = start + busy, result = end + s.latency_ps;
  state_[kEngines + static_cast<int>(s.engine)] = end;
  counters_.busy_ps[static_cast<int>(s.engine)] += busy;
  counters_.instructions[static_cast<int>(s.engine)] += 1;
  read_sources(s, end);
  if (s.dst >= 0) {
    value(s.dst)[kReady] = s.merge ? std::max(value(s.dst)[kReady], result) : result;
    newest_release(s.dst) = std::max(newest_release(s.dst), result);
  }
  state_[kNow] = std::max(state_[kNow], result);
  if (listener_) listener_->on_step(s, start, end);
}

void Machine::load(const Step& s) {
  int64_t trigger = std::max(state_[kLoadQueue], ready_at(s));
  if (s.dst >= 0) trigger = std::max(trigger, s.merge ? value(s.dst)[kBegun] : take_buffer(s));
  state_[kLoadQueue] = trigger + trigger_ps_;
  place_stores(trigger);
  const int64_t end = transfer(s, trigger);
  read_sources(s, end);
  value(s.dst)[kReady] = s.merge ? std::max(value(s.dst)[kReady], end) : end;
  newest_release(s.dst) = std::max(newest_release(s.dst), end);
}

void Machine::store(const Step& s) {
  const int64_t trigger = std::max(state_[kStoreQueue], ready_at(s));
  state_[kStoreQueue] = trigger + trigger_ps_;
  PendingStore p{&s, trigger, {}};
  for (size_t k = 0; k < s.src.size(); ++k)
    if (s.src[k] >= 0) p.rotation[k] = rotations_[s.src[k]];
  stores_.push_back(p);
}

void Machine::place_stores(int64_t before) {
  while (!stores_.empty() && stores_.front().trigger < before) place_first_store();
}

void Machine::place_stores_of(int16_t v) {
  size_t count = 0;  // stores up to the last one that reads the buffer which is about to be taken
  for (size_t i = 0; i < stores_.size(); ++i)
    for (size_t k = 0; k < stores_[i].step->src.size(); ++k)
      if (stores_[i].step->src[k] == v &&
          rotations_[v] - stores_[i].rotation[k] >= expansion_->buffers[v] - 1)
        count = i + 1;
  for (; count > 0; --count) place_first_store();
}

void Machine::place_first_store() {
  const PendingStore p = stores_.front();
  stores_.pop_front();
  const int64_t end = transfer(*p.step, p.trigger);
  for (size_t k = 0; k < p.step->src.size(); ++k) {
    const int16_t v = p.step->src[k];
    if (v < 0) continue;
    const int64_t age = rotations_[v] - p.rotation[k];
    if (age >= expansion_->buffers[v]) continue;
    int64_t& release = value(v)[kRelease + expansion_->buffers[v] - 1 - age];
    release = std::max(release, end);
  }
}

int64_t Machine::transfer(const Step& s, int64_t trigger) {
  int64_t start = trigger + dma_latency_ps_;
  if (s.ordered) start = std::max(start, state_[kOrdered]);
  // The descriptors go to the engines that are free first.
  int64_t* engines = &state_[kDmaEngines];
  const int used = static_cast<int>(std::min<int64_t>(kDmaCount, s.descriptors));
  int64_t end = start;
  for (int e = 0; e < used; ++e) {
    const int64_t share = s.descriptors / used + (e < s.descriptors % used ? 1 : 0);
    engines[e] = std::max(engines[e], start) + share * s.descriptor_ps;
    end = std::max(end, engines[e]);
  }
  std::sort(engines, engines + kDmaCount);
  const auto bytes = static_cast<double>(s.hbm_read + s.hbm_written);
  state_[kHbm] =
      std::max(state_[kHbm], start) + ns_to_ps(std::min(bytes / target_.hbm_bytes_per_ns, 1e9));
  end = std::max(end, state_[kHbm]);
  if (s.ordered) state_[kOrdered] = end;
  counters_.busy_ps[static_cast<int>(Engine::kDMA)] += s.descriptors * s.descriptor_ps / kDmaCount;
  counters_.busy_ps[static_cast<int>(Engine::kSP)] += trigger_ps_;
  counters_.instructions[static_cast<int>(Engine::kDMA)] += 1;
  counters_.instructions[static_cast<int>(Engine::kSP)] += 1;
  counters_.descriptors += s.descriptors;
  counters_.hbm_read += s.hbm_read;
  counters_.hbm_written += s.hbm_written;
  state_[kNow] = std::max(state_[kNow], end);
  if (listener_) listener_->on_step(s, trigger, end);
  return end;
}

}  // namespace nax
