// A window: the ops recorded between two cuts, position-independent (buffers are numbered by first appearance), with all
// metadata by value. The runtime fills it; policies and lowering only read it. Plain data, owned by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "device/base/dtype.h"
#include "device/base/scalar_value.h"
#include "device/isa/program.h"
#include "fusion/op.h"

namespace nax {

using BufferIndex = int32_t;  // index into Window::buffers

// A strided view of a buffer, in elements. Rank 0 is one element. Strides may be 0 or negative.
struct View {
  BufferIndex buffer = -1;
  DType dtype = DType::kInvalid;
  uint8_t rank = 0;
  int64_t offset_bytes = 0;
  std::array<int64_t, kMaxRank> sizes = {};
  std::array<int64_t, kMaxRank> strides = {};
};

enum class OperandClass : uint8_t { kAbsent = 0, kTensor = 1, kScalar = 2 };
struct WindowOperand {
  OperandClass cls = OperandClass::kAbsent;
  View view;           // kTensor
  ScalarValue scalar;  // kScalar: already promoted; never part of a key
};

struct WindowOp {
  OpId id = OpId::k_copy;
  DType compute = DType::kInvalid;
  uint8_t input_count = 0, output_count = 0, attr_count = 0;
  uint32_t first_operand = 0;  // into Window::operands: inputs, then outputs
  uint32_t first_attr = 0;     // into Window::attrs
  uint64_t sequence = 0;       // program order on the stream
  uint64_t origin = 0;         // the user's line, opaque
};

struct WindowBuffer {
  bool live_out = true;   // still referenced when the window was cut: its contents must survive
  bool born_here = false; // created in this window: undefined before the first write
  int64_t bytes = 0;
};

struct Window {
  std::vector<WindowOp> ops;
  std::vector<WindowOperand> operands;
  std::vector<int64_t> attrs;
  std::vector<WindowBuffer> buffers;

  const WindowOperand& input(const WindowOp& op, int i) const { return operands[op.first_operand + i]; }
  const WindowOperand& output(const WindowOp& op, int i) const {
    return operands[op.first_operand + op.input_count + i];
  }
  int64_t attr(const WindowOp& op, int i) const { return attrs[op.first_attr + i]; }
};

}  // namespace nax
