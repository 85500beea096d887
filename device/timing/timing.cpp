#include "device/timing/timing.h"

#include <cstdio>

#include "device/isa/opcode_info.h"
#include "device/timing/expand.h"
#include "device/timing/machine.h"

namespace nax {
namespace {

TimingResult result_of(const Machine& m) {
  TimingResult r;
  const MachineCounters& c = m.counters();
  r.total_ns = static_cast<double>(m.now_ps()) / 1000;
  for (int e = 0; e < kEngineCount; ++e) {
    r.busy_ns[e] = static_cast<double>(c.busy_ps[e]) / 1000;
    r.instructions[e] = c.instructions[e];
  }
  r.dma_descriptors = c.descriptors;
  r.hbm_read_bytes = c.hbm_read;
  r.hbm_written_bytes = c.hbm_written;
  r.pe_throttled_ns = static_cast<double>(c.throttled_ps) / 1000;
  r.approximate = m.approximate();
  r.simulated_steps = m.simulated_steps();
  return r;
}

// Times in integer arithmetic: nanoseconds with one digit.
std::string time_text(int64_t ps) {
  const int64_t tenths = ps / 100;
  char text[48];
  std::snprintf(text, sizeof text, "%9lld.%lld", static_cast<long long>(tenths / 10),
                static_cast<long long>(tenths % 10));
  return text;
}

class Printer : public StepListener {
 public:
  explicit Printer(int max_lines) : left_(max_lines) {}

  void on_step(const Step& s, int64_t start, int64_t end) override {
    const std::string where =
        s.kind == StepKind::kDma ? (s.store ? "dma>" : "dma<") : std::string(engine_name(s.engine));
    line(start, end, where, s.text);
  }
  void on_skip(const ExpandedLoop& loop, int64_t iterations, int64_t start, int64_t end) override {
    line(start, end, "...", std::to_string(iterations) + " more of each " + loop.text);
  }
  std::string take() { return std::move(out_); }

 private:
  void line(int64_t start, int64_t end, const std::string& where, const std::string& text) {
    if (left_ < 0) return;
    if (left_-- == 0) {
      out_ += "... (cut)\n";
      return;
    }
    out_ += time_text(start) + " " + time_text(end) + "  " + where +
            std::string(where.size() < 5 ? 5 - where.size() : 1, ' ') + text + "\n";
  }

  int left_;
  std::string out_;
};

}  // namespace

TimingResult time_program(const Program& program, const int64_t* slots, const TargetInfo& target,
                          const TimingOptions& options) {
  Machine machine(target, options.extrapolate);
  for (const Nest& nest : program.nests) machine.run(expand_nest(program, nest, slots, target));
  return result_of(machine);
}

std::string timing_text(const TimingResult& r) {
  const auto whole = [](double ns) { return std::to_string(static_cast<int64_t>(ns + 0.5)); };
  std::string out =
      "total " + whole(r.total_ns) + " ns" + (r.approximate ? " (averaged)" : "") + "\n";
  for (int e = 0; e < kEngineCount; ++e) {
    if (r.instructions[e] == 0) continue;
    out += std::string(engine_name(static_cast<Engine>(e))) + ": " +
           std::to_string(r.instructions[e]) + " instructions, busy " + whole(r.busy_ns[e]) +
           " ns\n";
  }
  return out + "hbm: " + std::to_string(r.hbm_read_bytes) + " bytes read, " +
         std::to_string(r.hbm_written_bytes) + " written, " + std::to_string(r.dma_descriptors) +
         " descriptors\n";
}

std::string timeline_text(const Program& program, const int64_t* slots, const TargetInfo& target,
                          int max_lines) {
  Printer printer(max_lines);
  Machine machine(target, true, &printer);
  for (const Nest& nest : program.nests)
    machine.run(expand_nest(program, nest, slots, target, true));
  return "     start        end  where\n" + printer.take() + timing_text(result_of(machine));
}

}  // namespace nax
