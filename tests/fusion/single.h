// A window of one op: every policy and every variant against the naive evaluator.
#pragma once

#include "tests/fusion/naive.h"

namespace nax::test {

// The window's only op, by plan and by hand.
inline void check_single(WindowMaker& m, double tolerance, const std::string& label = "") {
  Memory by_hand = m.memory;
  REQUIRE(Naive(m.w, 0, by_hand).run());
  for (const char* policy : {"strict", "greedy"}) {
    for (const int variant : {-1, 3}) {
      Memory memory = m.memory;
      const auto plan = plan_or_fail(m.w, policy);
      run_plan(m.w, *plan, memory, variant);
      for (int o = 0; o < m.w.ops[0].output_count; ++o) {
        const View& y = m.w.output(m.w.ops[0], o).view;
        for (int64_t i = 0; i < numel(y); ++i) {
          const double got = load_element(memory[y.buffer].data() + element_offset(y, i), y.dtype);
          const double want =
              load_element(by_hand[y.buffer].data() + element_offset(y, i), y.dtype);
          const bool ok = got == want || (std::isnan(got) && std::isnan(want)) ||
                          std::fabs(got - want) <= tolerance * std::max(1.0, std::fabs(want));
          if (!ok) {
            FAIL(label << " " << op_info(m.w.ops[0].id)->name << " output " << o << " element " << i
                       << ": " << got << ", must be " << want << "\n"
                       << to_text(*plan->launches[0].programs[0]));
          }
        }
      }
    }
  }
}

inline double tolerance_of(DType t) {
  return t == DType::kBF16 ? 0.01 : t == DType::kF16 ? 0.002 : t == DType::kF64 ? 1e-11 : 3e-6;
}

}  // namespace nax::test
