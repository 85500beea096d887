#include "device/jit/lane_ir.h"

#include <llvm/IR/Module.h>

#include "device/scalar/functions.h"
#include "device/scalar/strip.h"

namespace nax::jit {
namespace {

template <Lane K>
struct ValueOf {
  using Type = Float;
};
template <>
struct ValueOf<Lane::kI64> {
  using Type = Int<64>;
};
template <>
struct ValueOf<Lane::kI32> {
  using Type = Int<32>;
};

struct Emitted {
  llvm::Value* v;
  bool is_mask;
};
Emitted emitted(Mask m) { return {m.v, true}; }
Emitted emitted(Float x) { return {x.v, false}; }
template <int Width>
Emitted emitted(Int<Width> x) {
  return {x.v, false};
}

template <ScalarOp Op, class V>
Emitted emit_op(const V* x, llvm::Value* condition) {
  if constexpr (Op < ScalarOp::kAdd) return emitted(scalar::apply1<Op>(x[0]));
  else if constexpr (Op < ScalarOp::kSelect) return emitted(scalar::apply2<Op>(x[0], x[1]));
  else if constexpr (Op == ScalarOp::kSelect) return emitted(select(Mask{x[1].b, condition}, x[1], x[2]));
  else return emitted(scalar::clamp(x[0], x[1], x[2]));
}

// The template instance for a number known at run time.
template <Lane K, int Number = 0>
Emitted dispatch(ScalarOp op, const typename ValueOf<K>::Type* x, llvm::Value* condition) {
  if constexpr (Number == kScalarOpLimit) {
    return {nullptr, false};
  } else {
    if constexpr (scalar::is_inline(static_cast<ScalarOp>(Number), K))
      if (static_cast<int>(op) == Number) return emit_op<static_cast<ScalarOp>(Number)>(x, condition);
    return dispatch<K, Number + 1>(op, x, condition);
  }
}

template <Lane K>
Emitted emit_inline(Builder& b, ScalarOp op, const LaneVector* src, int arity, llvm::Value* condition) {
  using V = typename ValueOf<K>::Type;
  const V none{&b, nullptr};
  V x[3] = {none, none, none};
  for (int i = 0; i < arity; ++i) x[i].v = src[i].v;
  return dispatch<K>(op, x, condition);
}

template <class V>
V combine_value(ReduceFn fn, V a, V b) {
  switch (fn) {
    case ReduceFn::kSum: return scalar::combine<ReduceFn::kSum>(a, b);
    case ReduceFn::kProd: return scalar::combine<ReduceFn::kProd>(a, b);
    case ReduceFn::kMax: return scalar::combine<ReduceFn::kMax>(a, b);
    case ReduceFn::kMin: return scalar::combine<ReduceFn::kMin>(a, b);
    case ReduceFn::kAny: return scalar::combine<ReduceFn::kAny>(a, b);
    case ReduceFn::kAll: return scalar::combine<ReduceFn::kAll>(a, b);
  }
  return a;
}

// Results are operands, their negations, or integers between them: values of the operands' dtype again, so no rounding is
// due where all operands are values of the result's dtype.
bool keeps_dtype(ScalarOp op) {
  using enum ScalarOp;
  switch (op) {
    case kCopy: case kRelu: case kMaximum: case kMinimum: case kFmax: case kFmin: case kSelect: case kClamp:
      return true;
    default: return false;
  }
}
bool keeps_float_dtype(ScalarOp op) {
  using enum ScalarOp;
  switch (op) {
    case kNegative: case kAbs: case kSign: case kFloor: case kCeil: case kTrunc: case kRound: case kCopysign: return true;
    default: return keeps_dtype(op);
  }
}

constexpr std::string_view kLaneNames[] = {"f32", "f64", "i64", "i32"};

}  // namespace

llvm::Type* LaneIr::scalar_type(Lane lane) const {
  switch (lane) {
    case Lane::kF32: return b_.getFloatTy();
    case Lane::kF64: return b_.getDoubleTy();
    case Lane::kI64: return b_.getInt64Ty();
    case Lane::kI32: return b_.getInt32Ty();
  }
  return nullptr;
}

llvm::Type* LaneIr::memory_type(DType dtype) const {
  switch (dtype) {
    case DType::kF32: return b_.getFloatTy();
    case DType::kF64: return b_.getDoubleTy();
    case DType::kF16: return b_.getHalfTy();
    default: return b_.getIntNTy(static_cast<unsigned>(8 * dtype_size(dtype)));
  }
}

llvm::Value* LaneIr::group_from_memory(DType dtype, llvm::Value* from) {
  if (!from->getType()->isVectorTy()) from = splat(from);
  switch (dtype) {
    case DType::kBF16: {
      const Int<32> wide{&b_, b_.CreateZExt(from, vector_type(Lane::kI32))};
      return from_bits(shl(wide, 16)).v;
    }
    case DType::kF16: return b_.CreateFPExt(from, vector_type(Lane::kF32));
    case DType::kI8:
    case DType::kI16: return b_.CreateSExt(from, vector_type(Lane::kI32));
    case DType::kU8: return b_.CreateZExt(from, vector_type(Lane::kI32));
    case DType::kBool:
      return b_.CreateZExt(b_.CreateICmpNE(from, llvm::Constant::getNullValue(from->getType())), vector_type(Lane::kI32));
    default: return from;
  }
}

llvm::Value* LaneIr::group_to_memory(DType dtype, llvm::Value* lanes, bool rounded) {
  auto* memory = llvm::FixedVectorType::get(memory_type(dtype), kGroup);
  switch (dtype) {
    case DType::kBF16: {
      const Int<32> i = bits(Float{&b_, rounded ? lanes : round(dtype, lanes)});
      return b_.CreateTrunc(b_.CreateLShr(i.v, 16), memory);
    }
    case DType::kF16: return b_.CreateFPTrunc(lanes, memory);
    case DType::kBool: return b_.CreateTrunc(rounded ? lanes : round(dtype, lanes), memory);
    case DType::kI8:
    case DType::kU8:
    case DType::kI16: return b_.CreateTrunc(lanes, memory);
    default: return lanes;
  }
}

llvm::Value* LaneIr::round(DType dtype, llvm::Value* lanes) {
  switch (dtype) {
    case DType::kBF16: return scalar::round_bf16(Float{&b_, lanes}).v;
    case DType::kF16:
      return b_.CreateFPExt(b_.CreateFPTrunc(lanes, llvm::FixedVectorType::get(b_.getHalfTy(), kGroup)), vector_type(Lane::kF32));
    case DType::kI8: return shr(shl(Int<32>{&b_, lanes}, 24), 24).v;
    case DType::kI16: return shr(shl(Int<32>{&b_, lanes}, 16), 16).v;
    case DType::kU8: return b_.CreateAnd(lanes, llvm::ConstantInt::get(lanes->getType(), 255));
    case DType::kBool: {
      llvm::Value* mask = b_.CreateICmpNE(lanes, llvm::Constant::getNullValue(lanes->getType()));
      return b_.CreateZExt(mask, lanes->getType());
    }
    default: return lanes;
  }
}

llvm::AllocaInst* LaneIr::stack(llvm::Type* type) {
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.begin());
  llvm::AllocaInst* memory = at.CreateAlloca(type);
  memory->setAlignment(llvm::Align(64));
  return memory;
}

llvm::Value* LaneIr::buffer(llvm::Value* lanes) {
  llvm::AllocaInst* memory = stack(lanes->getType());
  b_.CreateAlignedStore(lanes, memory, llvm::Align(64));
  return memory;
}

// A called function writes `count` lanes; of a row value (count is the constant 1) all lanes are that one.
llvm::Value* LaneIr::call_result(llvm::FixedVectorType* type, llvm::Value* memory, llvm::Value* count) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(count);
  if (constant != nullptr && constant->isOne()) return splat(b_.CreateLoad(type->getElementType(), memory));
  return b_.CreateAlignedLoad(type, memory, llvm::Align(64));
}

llvm::FunctionCallee LaneIr::external(const std::string& name, void* address, llvm::FunctionType* type) {
  symbols_[name] = address;
  llvm::FunctionCallee callee = module_.getOrInsertFunction(name, type);
  if (auto* function = llvm::dyn_cast<llvm::Function>(callee.getCallee())) function->setDoesNotThrow();
  return callee;
}

LaneVector LaneIr::apply(ScalarOp op, Lane lane, DType out, const LaneVector* src, llvm::Value* count, llvm::Value* errors) {
  const ScalarOpInfo& info = scalar_op_info(op);
  if (scalar::is_inline(op, lane)) {
    llvm::Value* condition = nullptr;
    if (op == ScalarOp::kSelect)
      condition = src[0].mask ? src[0].mask : b_.CreateICmpNE(src[0].v, llvm::Constant::getNullValue(src[0].v->getType()));
    Emitted e{nullptr, false};
    switch (lane) {
      case Lane::kF32: e = emit_inline<Lane::kF32>(b_, op, src, info.arity, condition); break;
      case Lane::kF64: e = emit_inline<Lane::kF64>(b_, op, src, info.arity, condition); break;
      case Lane::kI64: e = emit_inline<Lane::kI64>(b_, op, src, info.arity, condition); break;
      case Lane::kI32: e = emit_inline<Lane::kI32>(b_, op, src, info.arity, condition); break;
    }
    if (e.is_mask) return from_mask(e.v);
    bool exact = is_floating(out) ? keeps_float_dtype(op) : keeps_dtype(op);
    for (int i = op == ScalarOp::kSelect ? 1 : 0; i < info.arity; ++i) exact &= src[i].dtype == out;
    return {exact ? e.v : round(out, e.v)};
  }
  llvm::Type* pointer = b_.getPtrTy();
  llvm::FunctionType* type =
      llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, pointer, pointer, b_.getInt64Ty(), pointer}, false);
  const StripFn fn = strip_fn(b_.isa, op, lane, kStripAll, out);
  const std::string name = "nax.fn." + std::string(info.name) + "." + std::string(kLaneNames[static_cast<int>(lane)]) + "." +
                           std::string(dtype_name(out));
  llvm::Value* p[3] = {};
  for (int i = 0; i < 3; ++i) p[i] = i < info.arity ? buffer(src[i].v) : llvm::Constant::getNullValue(pointer);
  llvm::AllocaInst* result = stack(vector_type(lane_of(out)));
  b_.CreateCall(external(name, reinterpret_cast<void*>(fn), type), {result, p[0], p[1], p[2], count, errors});
  return {call_result(vector_type(lane_of(out)), result, count)};
}

LaneVector LaneIr::convert(Lane from, DType to, LaneVector src, llvm::Value* count) {
  const Lane lane = lane_of(to);
  if (to == DType::kBool) {
    if (src.mask != nullptr) return src;
    llvm::Value* zero = llvm::Constant::getNullValue(src.v->getType());
    const bool is_float = from == Lane::kF32 || from == Lane::kF64;
    return from_mask(is_float ? b_.CreateFCmpUNE(src.v, zero) : b_.CreateICmpNE(src.v, zero));
  }
  llvm::Type* type = vector_type(lane);
  if (from == lane) return {round(to, src.v)};
  if (from == Lane::kI64 && lane == Lane::kI32) return {round(to, b_.CreateTrunc(src.v, type))};
  if (from == Lane::kI32 && lane == Lane::kI64) return {b_.CreateSExt(src.v, type)};
  if (from == Lane::kF32 && lane == Lane::kF64) return {b_.CreateFPExt(src.v, type)};
  if (from == Lane::kF64 && lane == Lane::kF32) return {round(to, b_.CreateFPTrunc(src.v, type))};
  if (from == Lane::kI32) return {round(to, b_.CreateSIToFP(src.v, type))};
  // 64-bit integers to floating and floating to integers: the interpreter's function.
  llvm::Type* pointer = b_.getPtrTy();
  llvm::FunctionType* signature = llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, b_.getInt64Ty()}, false);
  const std::string name = "nax.cast." + std::string(kLaneNames[static_cast<int>(from)]) + "." + std::string(dtype_name(to));
  llvm::AllocaInst* result = stack(type);
  b_.CreateCall(external(name, reinterpret_cast<void*>(cast_fn(b_.isa, from, to)), signature), {result, buffer(src.v), count});
  return {call_result(vector_type(lane), result, count)};
}

llvm::Value* LaneIr::combine(ReduceFn fn, Lane lane, llvm::Value* accumulator, llvm::Value* x) {
  switch (lane) {
    case Lane::kI64: return combine_value(fn, Int<64>{&b_, accumulator}, Int<64>{&b_, x}).v;
    case Lane::kI32: return combine_value(fn, Int<32>{&b_, accumulator}, Int<32>{&b_, x}).v;
    default: return combine_value(fn, Float{&b_, accumulator}, Float{&b_, x}).v;
  }
}

llvm::Value* LaneIr::halving_tree(ReduceFn fn, Lane lane, llvm::Value* group) {
  for (unsigned half = kGroup / 2; half >= 1; half /= 2) {
    llvm::SmallVector<int, kGroup> low, high;
    for (unsigned i = 0; i < half; ++i) low.push_back(static_cast<int>(i)), high.push_back(static_cast<int>(i + half));
    group = combine(fn, lane, b_.CreateShuffleVector(group, low), b_.CreateShuffleVector(group, high));
  }
  return b_.CreateExtractElement(group, uint64_t{0});
}

llvm::Constant* LaneIr::identity(ReduceFn fn, Lane lane) {
  uint64_t cell = 0;
  reduce_identity(fn, lane, &cell);
  switch (lane) {
    case Lane::kF32: return llvm::ConstantFP::get(b_.getContext(), llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, cell & 0xffffffff)));
    case Lane::kF64: return llvm::ConstantFP::get(b_.getContext(), llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, cell)));
    case Lane::kI64: return b_.getInt64(cell);
    case Lane::kI32: return b_.getInt32(static_cast<uint32_t>(cell));
  }
  return nullptr;
}

}  // namespace nax::jit
