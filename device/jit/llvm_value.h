// LLVM values as *values* of device/scalar/functions.h: the same templates that make the interpreter's vector code emit IR
// here. Vectors and scalars alike; no fast-math flag is ever set.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "device/base/host_isa.h"

namespace nax::jit {

struct Builder : llvm::IRBuilder<> {
  Builder(llvm::LLVMContext& context, HostIsa host) : llvm::IRBuilder<>(context), isa(host) {}
  const HostIsa isa;
};

struct Mask {
  Builder* b;
  llvm::Value* v;  // i1 lanes
  friend Mask operator&(Mask x, Mask y) { return {x.b, x.b->CreateAnd(x.v, y.v)}; }
  friend Mask operator|(Mask x, Mask y) { return {x.b, x.b->CreateOr(x.v, y.v)}; }
  friend Mask operator~(Mask x) { return {x.b, x.b->CreateNot(x.v)}; }
};

template <int Width>
struct Int {
  static constexpr bool kIsFloat = false;
  static constexpr int kWidth = Width;
  Builder* b;
  llvm::Value* v;

  Int lit(int64_t c) const { return {b, llvm::ConstantInt::getSigned(v->getType(), c)}; }
  friend Int operator+(Int x, Int y) { return {x.b, x.b->CreateAdd(x.v, y.v)}; }
  friend Int operator-(Int x, Int y) { return {x.b, x.b->CreateSub(x.v, y.v)}; }
  friend Int operator*(Int x, Int y) { return {x.b, x.b->CreateMul(x.v, y.v)}; }
  friend Int operator-(Int x) { return {x.b, x.b->CreateNeg(x.v)}; }
  friend Int operator&(Int x, Int y) { return {x.b, x.b->CreateAnd(x.v, y.v)}; }
  friend Int operator|(Int x, Int y) { return {x.b, x.b->CreateOr(x.v, y.v)}; }
  friend Int operator^(Int x, Int y) { return {x.b, x.b->CreateXor(x.v, y.v)}; }
  friend Int operator~(Int x) { return {x.b, x.b->CreateNot(x.v)}; }
  friend Mask operator<(Int x, Int y) { return {x.b, x.b->CreateICmpSLT(x.v, y.v)}; }
  friend Mask operator<=(Int x, Int y) { return {x.b, x.b->CreateICmpSLE(x.v, y.v)}; }
  friend Mask operator>(Int x, Int y) { return {x.b, x.b->CreateICmpSGT(x.v, y.v)}; }
  friend Mask operator>=(Int x, Int y) { return {x.b, x.b->CreateICmpSGE(x.v, y.v)}; }
  friend Mask operator==(Int x, Int y) { return {x.b, x.b->CreateICmpEQ(x.v, y.v)}; }
  friend Mask operator!=(Int x, Int y) { return {x.b, x.b->CreateICmpNE(x.v, y.v)}; }
  friend Int select(Mask m, Int x, Int y) { return {x.b, x.b->CreateSelect(m.v, x.v, y.v)}; }
  friend Int shl(Int x, int k) { return {x.b, x.b->CreateShl(x.v, x.lit(k).v)}; }
  friend Int shr(Int x, int k) { return {x.b, x.b->CreateAShr(x.v, x.lit(k).v)}; }
  friend Int shl_by(Int x, Int y) { return {x.b, x.b->CreateShl(x.v, y.v)}; }
  friend Int shr_by(Int x, Int y) { return {x.b, x.b->CreateAShr(x.v, y.v)}; }
  friend Mask sign_mask(Int x) { return x < x.lit(0); }
};

struct Float {  // fp32 or fp64
  static constexpr bool kIsFloat = true;
  Builder* b;
  llvm::Value* v;

  Float lit(double c) const { return {b, llvm::ConstantFP::get(v->getType(), c)}; }
  friend Float operator+(Float x, Float y) { return {x.b, x.b->CreateFAdd(x.v, y.v)}; }
  friend Float operator-(Float x, Float y) { return {x.b, x.b->CreateFSub(x.v, y.v)}; }
  friend Float operator*(Float x, Float y) { return {x.b, x.b->CreateFMul(x.v, y.v)}; }
  friend Float operator/(Float x, Float y) { return {x.b, x.b->CreateFDiv(x.v, y.v)}; }
  friend Float operator-(Float x) { return {x.b, x.b->CreateFNeg(x.v)}; }
  friend Mask operator<(Float x, Float y) { return {x.b, x.b->CreateFCmpOLT(x.v, y.v)}; }
  friend Mask operator<=(Float x, Float y) { return {x.b, x.b->CreateFCmpOLE(x.v, y.v)}; }
  friend Mask operator>(Float x, Float y) { return {x.b, x.b->CreateFCmpOGT(x.v, y.v)}; }
  friend Mask operator>=(Float x, Float y) { return {x.b, x.b->CreateFCmpOGE(x.v, y.v)}; }
  friend Mask operator==(Float x, Float y) { return {x.b, x.b->CreateFCmpOEQ(x.v, y.v)}; }
  friend Mask operator!=(Float x, Float y) { return {x.b, x.b->CreateFCmpUNE(x.v, y.v)}; }
  friend Float select(Mask m, Float x, Float y) { return {x.b, x.b->CreateSelect(m.v, x.v, y.v)}; }

  template <class... More>
  static Float call(llvm::Intrinsic::ID id, Float x, More... more) {
    return {x.b, x.b->CreateIntrinsic(id, {x.v->getType()}, {x.v, more.v...})};
  }
  friend Float fma(Float x, Float y, Float z) { return call(llvm::Intrinsic::fma, x, y, z); }
  friend Float sqrt(Float x) { return call(llvm::Intrinsic::sqrt, x); }
  friend Float floor(Float x) { return call(llvm::Intrinsic::floor, x); }
  friend Float ceil(Float x) { return call(llvm::Intrinsic::ceil, x); }
  friend Float trunc(Float x) { return call(llvm::Intrinsic::trunc, x); }
  friend Float rint(Float x) { return call(llvm::Intrinsic::roundeven, x); }
  friend Float abs(Float x) { return call(llvm::Intrinsic::fabs, x); }
  friend Float copysign(Float x, Float s) { return call(llvm::Intrinsic::copysign, x, s); }

  friend Int<32> bits(Float x) {
    return {x.b, x.b->CreateBitCast(x.v, x.v->getType()->getWithNewType(x.b->getInt32Ty()))};
  }
  friend Float scale2(Float p, Float n) {
    Builder& b = *p.b;
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(p.v->getType());
    if (b.isa != HostIsa::kAvx2 && vector != nullptr && vector->getNumElements() == 16) {
      constexpr int kCurrentRounding = 4;
      return {&b, b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                                    {p.v, n.v, p.v, b.getInt16(0xffff), b.getInt32(kCurrentRounding)})};
    }
    // In two factors, the first of them exact. A NaN in n comes with one in p: any integer will do then.
    auto* int_type = p.v->getType()->getWithNewType(b.getInt32Ty());
    const Int<32> i{&b, b.CreateFreeze(b.CreateFPToSI(n.v, int_type))};
    const Int<32> half = shr(i, 1), rest = i - half;
    return p * power_of_two(half, p.v->getType()) * power_of_two(rest, p.v->getType());
  }
  friend Mask sign_mask(Float x) {
    Builder& b = *x.b;
    llvm::Type* type = x.v->getType()->getWithNewType(b.getIntNTy(x.v->getType()->getScalarSizeInBits()));
    return {&b, b.CreateICmpSLT(b.CreateBitCast(x.v, type), llvm::Constant::getNullValue(type))};
  }

 private:
  static Float power_of_two(Int<32> n, llvm::Type* type) {
    return {n.b, n.b->CreateBitCast(shl(n + n.lit(127), 23).v, type)};
  }
};

inline Float from_bits(Int<32> x) {
  return {x.b, x.b->CreateBitCast(x.v, x.v->getType()->getWithNewType(x.b->getFloatTy()))};
}
inline Float to_float(Int<32> x) {
  return {x.b, x.b->CreateSIToFP(x.v, x.v->getType()->getWithNewType(x.b->getFloatTy()))};
}

}  // namespace nax::jit
