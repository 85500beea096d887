// IR for one group of 16 lanes: memory to lanes and back, rounding, conversion, scalar functions, reduction steps.
// Everything is a <16 x T> vector: a row value is one with equal lanes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "device/isa/program.h"
#include "device/isa/scalar_op.h"
#include "device/jit/llvm_value.h"

namespace nax::jit {

inline constexpr unsigned kGroup = 16;  // lanes; also what a reduction's chunk is dealt to

// A lane vector, its i1 vector where it is a fresh comparison, and the dtype it is known to be rounded to.
struct LaneVector {
  llvm::Value* v = nullptr;
  llvm::Value* mask = nullptr;
  DType dtype = DType::kInvalid;
};

// Functions the generated code calls, by symbol name.
using SymbolMap = std::map<std::string, void*>;

class LaneIr {
 public:
  LaneIr(Builder& b, llvm::Module& module, SymbolMap& symbols) : b_(b), module_(module), symbols_(symbols) {}

  llvm::FixedVectorType* vector_type(Lane lane) const { return llvm::FixedVectorType::get(scalar_type(lane), kGroup); }
  llvm::Type* scalar_type(Lane lane) const;
  llvm::Type* memory_type(DType dtype) const;

  // Exact. `from` is a vector or a scalar of memory_type(dtype).
  llvm::Value* group_from_memory(DType dtype, llvm::Value* from);
  // Rounds or wraps; `rounded`: the lanes are known to be values of dtype.
  llvm::Value* group_to_memory(DType dtype, llvm::Value* lanes, bool rounded);
  llvm::Value* round(DType dtype, llvm::Value* lanes);

  // What strip functions do on 16 lanes. Where a function is not inlined, calls of the strip function on `count` (i64)
  // lanes through buffers (the constant 1: a row value); `errors` is a pointer to the op's error byte.
  LaneVector apply(ScalarOp op, Lane lane, DType out, const LaneVector* src, llvm::Value* count, llvm::Value* errors);
  LaneVector convert(Lane from, DType to, LaneVector src, llvm::Value* count);

  llvm::Value* combine(ReduceFn fn, Lane lane, llvm::Value* accumulator, llvm::Value* x);  // any vector length, or scalars
  llvm::Value* halving_tree(ReduceFn fn, Lane lane, llvm::Value* group);                   // a scalar
  llvm::Constant* identity(ReduceFn fn, Lane lane);                                        // a scalar

  llvm::Value* splat(llvm::Value* scalar) { return b_.CreateVectorSplat(kGroup, scalar); }
  // Stack memory of the function that is being built.
  llvm::AllocaInst* stack(llvm::Type* type);
  llvm::FunctionCallee external(const std::string& name, void* address, llvm::FunctionType* type);

 private:
  LaneVector from_mask(llvm::Value* mask) { return {b_.CreateZExt(mask, vector_type(Lane::kI32)), mask}; }
  llvm::Value* buffer(llvm::Value* lanes);
  llvm::Value* call_result(llvm::FixedVectorType* type, llvm::Value* memory, llvm::Value* count);

  Builder& b_;
  llvm::Module& module_;
  SymbolMap& symbols_;
};

}  // namespace nax::jit
