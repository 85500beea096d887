// A program from text with concrete sizes: its slots are evaluated.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "device/isa/slots.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"

namespace nax {

struct Bound {
  Program program;
  std::vector<int64_t> slots;
};

// Sizes of each view in argument order; strides are contiguous.
inline Bound bind(const char* text, const std::vector<std::vector<int64_t>>& sizes) {
  auto p = parse_program(text);
  REQUIRE_MESSAGE(p.ok(), p.status().message());
  REQUIRE_MESSAGE(verify(*p).ok(), verify(*p).message());
  Bound b{*std::move(p), {}};
  std::vector<ArgValue> row(b.program.args.size());
  size_t next = 0;
  for (size_t a = 0; a < row.size(); ++a) {
    if (b.program.args[a].kind != ArgKind::kView) continue;
    REQUIRE(next < sizes.size());
    int64_t stride = 1;
    for (size_t d = sizes[next].size(); d-- > 0;) {
      row[a].sizes[d] = sizes[next][d];
      row[a].strides[d] = stride;
      stride = slot_arithmetic(SlotOp::kMul, stride, sizes[next][d]);
    }
    ++next;
  }
  b.slots.resize(b.program.slots.size());
  evaluate_slots(b.program, row.data(), b.slots.data());
  return b;
}

}  // namespace nax
