// The expansion of a nest into tile-level instructions: a tree of loops over steps for engines and
// DMA queues, a pure function of nest, slots and target. Timing and dumps read it; values never
// depend on it.
//
// Loops: without a carried partition axis  loops > partition tiles > free tiles, with one  loops >
// free tiles > partition tiles. Steps that do not depend on a loop stand outside of it (broadcast
// operands are loaded once). A matmul becomes blocks of up to 8 psum banks: m block > n block > k
// tiles of 128, A kept in SBUF over all n, B streamed.
//
// Values: every write of a tile is a value with as many buffers as SBUF has room for (at most 4,
// after a matmul 16). A step may start when its sources are ready and, if it makes a new value,
// when the readers of the buffer's last contents are done.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device/isa/program.h"
#include "device/targets/target.h"

namespace nax {

enum class StepKind : uint8_t {
  kBegin = 0,    // no engine: takes a free buffer for a value that later steps merge into
  kCompute = 1,  // on PE, ACT, DVE or POOL
  kDma = 2,      // on the 16 DMA engines, triggered by a load or a store queue
};

struct Step {
  StepKind kind = StepKind::kCompute;
  Engine engine = Engine::kDVE;  // kDMA for DMA
  bool store = false;            // DMA: which trigger queue
  bool merge = false;            // writes into dst's current buffer
  bool ordered = false;  // DMA: waits for the previous ordered one to end (accumulating stores)
  int16_t dst = -1;      // value
  std::array<int16_t, 4> src = {-1, -1, -1, -1};
  std::array<bool, 4> wait = {};  // the source comes from another engine: a semaphore
  bool release_wait =
      false;            // some reader of dst runs on another engine: a semaphore guards its buffer
  int64_t busy_ps = 0;  // compute: issue interval
  int64_t latency_ps = 0;  // compute: from the end of the interval until readers may start
  int64_t descriptors = 0, descriptor_ps = 0;  // DMA
  int64_t hbm_read = 0, hbm_written = 0;       // bytes
  std::string text;                            // for dumps
};

struct LoopItem {
  bool is_loop = false;
  int32_t index = 0;  // into loops or steps
};
struct ExpandedLoop {
  int64_t count = 1;
  std::vector<LoopItem> items;
  std::string text;  // "partition tile", "k tile" ...
};

struct SemaphoreEdge {
  int16_t value = -1;
  Engine from = Engine::kDVE, to = Engine::kDVE;
};

struct Expansion {
  std::vector<Step> steps;
  std::vector<ExpandedLoop> loops;        // loops[0] is the root
  std::vector<uint8_t> buffers;           // of each value
  std::vector<SemaphoreEdge> semaphores;  // one an edge between engines
  int64_t hbm_read_excess = 0,
          hbm_written_excess = 0;  // bytes counted above for elements that a split leaves out
};

// `nest` belongs to a verified program. Sizes may be anything; the texts are filled if `with_text`.
Expansion expand_nest(const Program& program, const Nest& nest, const int64_t* slots,
                      const TargetInfo& target, bool with_text = false);

// Marks in each step which of its sources come from another engine, and lists the edges.
// Deterministic; expand_nest calls it last.
void derive_semaphores(Expansion* expansion);

}  // namespace nax
