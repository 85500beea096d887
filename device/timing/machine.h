// The discrete-event model: runs an expansion's steps in order over in-order engine queues, 16 DMA
// engines, value buffers and semaphores. Time is integer picoseconds.
//
// A loop is simulated until its state repeats up to a constant shift over two periods; from there
// on every further period takes exactly that shift, so the rest is added in one step. Where no
// period shows within a bounded number of iterations the average of the last ones is used, and
// `approximate` is set. Never looks at data or at the host's clock. Thread: one per machine.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "device/isa/program.h"
#include "device/targets/target.h"
#include "device/timing/expand.h"

namespace nax {

// What the machine counted; sums over the whole run.
struct MachineCounters {
  int64_t busy_ps[kEngineCount] = {};       // kDMA: the mean of its 16 engines; kSP: triggers
  int64_t instructions[kEngineCount] = {};  // kDMA: dma_copy; kSP: triggers
  int64_t descriptors = 0;
  int64_t hbm_read = 0, hbm_written = 0;
  int64_t throttled_ps = 0;  // extra PE time while its clock was cold
  static constexpr int kCount = 2 * kEngineCount + 4;
  int64_t* data() { return busy_ps; }
  const int64_t* data() const { return busy_ps; }
};
static_assert(sizeof(MachineCounters) == MachineCounters::kCount * sizeof(int64_t));

// Receives each simulated step, for dumps.
class StepListener {
 public:
  virtual ~StepListener() = default;
  virtual void on_step(const Step& step, int64_t start_ps, int64_t end_ps) = 0;
  virtual void on_skip(const ExpandedLoop& loop, int64_t iterations, int64_t start_ps,
                       int64_t end_ps) = 0;
};

class Machine {
 public:
  Machine(const TargetInfo& target, bool extrapolate, StepListener* listener = nullptr);

  // Runs after everything that ran before: nests follow each other through HBM.
  void run(const Expansion& expansion);

  int64_t now_ps() const { return state_[kNow]; }
  const MachineCounters& counters() const { return counters_; }
  bool approximate() const { return approximate_; }
  int64_t simulated_steps() const { return simulated_; }

 private:
  // Layout of the state: fixed cells, then for each value: ready (the newest contents can be read),
  // begun (its buffer can be written), and the times at which its buffers' readers are done, oldest
  // first. Everything that decides the future stands here, in a form that a shift in time keeps.
  enum Cell : int {
    kEngines = 0,  // PE, ACT, DVE, POOL: free from
    kLoadQueue = 4,
    kStoreQueue = 5,
    kDmaEngines = 6,  // 16, ascending: which is which does not matter
    kHbm = 22,
    kOrdered = 23,
    kPeRunStart = 24,
    kPeLastEnd = 25,
    kNow = 26,  // end of everything so far
    kFixed = 27,
  };
  static constexpr int kDmaCount = 16;

  // A store waits here until every load that starts earlier has been placed on the DMA engines:
  // loads of later iterations come later in program order, but not in time.
  struct PendingStore {
    const Step* step;
    int64_t trigger;
    std::array<int64_t, 4> rotation;  // of its sources when it was issued
  };
  struct Snapshot {
    std::vector<int64_t> state, counters;
    std::vector<PendingStore> stores;
    std::vector<int64_t> rotations;
  };

  void run_loop(int32_t index);
  void run_items(const ExpandedLoop& loop);
  void issue(const Step& s);
  int64_t ready_at(const Step& s) const;
  int64_t take_buffer(const Step& s);
  void compute(const Step& s);
  void load(const Step& s);
  void store(const Step& s);
  void place_stores(int64_t before);  // those that start before a time
  void place_stores_of(
      int16_t v);  // those that read the oldest buffer of a value, and all before them
  void place_first_store();
  int64_t transfer(const Step& s, int64_t trigger);  // on the DMA engines; returns its end
  Snapshot snapshot() const;
  bool periodic(const std::vector<Snapshot>& history, size_t period) const;
  void jump(const Snapshot& from, int64_t times, int64_t divide);

  const TargetInfo& target_;
  const bool extrapolate_;
  StepListener* listener_;
  const Expansion* expansion_ = nullptr;
  std::vector<int64_t> state_;
  static constexpr int kReady = 0, kBegun = 1, kRelease = 2;
  int64_t* value(int16_t v) { return &state_[value_cell_[v]]; }
  int64_t& newest_release(int16_t v) { return value(v)[kRelease + expansion_->buffers[v] - 1]; }
  void read_sources(const Step& s, int64_t end);
  std::vector<int> value_cell_;     // of each value: its first cell
  std::vector<int64_t> rotations_;  // of each value: how often take_buffer was called
  std::deque<PendingStore> stores_;
  MachineCounters counters_;
  bool approximate_ = false;
  int64_t simulated_ = 0;
  int64_t semaphore_ps_, trigger_ps_, dma_latency_ps_, warm_ps_;
};

}  // namespace nax
