// The op table: one row an op. Checks, key, policies and lowering are driven by it; a new op is a
// row and, where no expression fits, an expansion in fusion/lowering/expand_*.cpp. Constant data:
// any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/isa/scalar_op.h"
#include "fusion/op.h"

namespace nax {

class OpBuilder;  // fusion/lowering/op_builder.h

// How an op's iteration space looks; one lowering file a kind.
enum class OpKind : uint8_t {
  kPointwise = 0,  // inputs broadcast to the output
  kReduction = 1,  // row or column rule, by the last reduced dimension
  kRow = 2,        // softmax, norms: several passes over rows that stay on chip
  kScan = 3,
  kMatmul = 4,
  kIndex = 5,  // indirect reads or program-order writes
};

enum class ShapeRule : uint8_t {
  kBroadcast = 0,  // of all tensor inputs
  kGiven = 1,      // the output's own shape (fill, arange)
  kSame = 2,       // of input 0; attr: dim
  kReduce = 3,     // attrs: mask of reduced dims, keepdim
  kNorm = 4,       // y as x; mean, rstd as x with the normalized dims at the end 1; attr: number of
                   // normalized dims
  kNormBackward = 5,  // dx as x
  kMm = 6,
  kBmm = 7,
  kAddmm = 8,
  kBaddbmm = 9,
  kIndexSelect = 10,
  kGather = 11,
  kScatterAdd = 12,
  kIndexAdd = 13,
};

enum class DTypeRule : uint8_t {
  kCompute = 0,  // as compute
  kBool = 1,
  kI64 = 2,
};

// Which compute dtypes an op takes; bits.
inline constexpr uint8_t kComputeFloat = 1, kComputeInt = 2, kComputeBool = 4, kComputeStorage = 8;
inline constexpr uint8_t kComputeArith = kComputeFloat | kComputeInt,
                         kComputeAny = kComputeArith | kComputeBool;

struct OpInfo {
  OpId id = OpId::k_copy;
  std::string_view name;
  OpKind kind = OpKind::kPointwise;
  ShapeRule shape = ShapeRule::kBroadcast;
  DTypeRule dtype = DTypeRule::kCompute;
  uint8_t compute = kComputeAny;
  uint8_t min_inputs = 1, max_inputs = 1;
  uint8_t min_outputs = 1, max_outputs = 1;
  uint8_t min_attrs = 0, max_attrs = 0;
  uint8_t tensors = 1;                   // bit i: input i must be a tensor
  uint8_t optional = 0;                  // bit i: input i may be absent
  ScalarOp fn = ScalarOp::kCopy;         // plain functions: fn(inputs...)
  void (*expand)(OpBuilder&) = nullptr;  // into primitive values; null: no lowering yet
  bool may_fail = false;  // data can set an error bit, so it runs even where its result is dead
};

// Null where the id is unknown.
const OpInfo* op_info(OpId id);
// Ops with a lowering; the binding falls back for the others.
bool lowering_covers(OpId id);
// Names of all covered ops, comma separated, in the order of their ids.
std::string_view covered_op_names();

}  // namespace nax
