#include "device/jit/first_compile.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>

#include "device/jit/code_engine.h"

namespace nax::jit {
namespace {

// A loop over groups of kGroup with loads, arithmetic, a comparison, a selection, a conversion, a call and a store.
void add_loop(llvm::IRBuilder<>& b, llvm::Function* f, llvm::Type* element, llvm::FunctionCallee callee) {
  auto* type = llvm::FixedVectorType::get(element, kGroup);
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(f->getContext(), "loop", f);
  auto* after = llvm::BasicBlock::Create(f->getContext(), "after", f);
  llvm::Value* buffer = b.CreateAlloca(type);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), before);
  llvm::Value* address = b.CreateGEP(type, f->getArg(0), i);
  llvm::Value* x = b.CreateAlignedLoad(type, address, llvm::Align(1));
  const bool floating = element->isFloatingPointTy();
  llvm::Value* y = floating ? b.CreateFAdd(b.CreateFMul(x, x), x) : b.CreateAdd(b.CreateMul(x, x), x);
  llvm::Value* less = floating ? b.CreateFCmpOLT(x, y) : b.CreateICmpSLT(x, y);
  y = b.CreateSelect(less, x, y);
  b.CreateAlignedStore(y, buffer, llvm::Align(1));
  b.CreateCall(callee, {buffer, i});
  b.CreateAlignedStore(y, address, llvm::Align(1));
  if (floating) {
    auto* integers = llvm::FixedVectorType::get(b.getInt32Ty(), kGroup);
    b.CreateAlignedStore(b.CreateFPToSI(y, integers), address, llvm::Align(1));
  }
  llvm::Value* next = b.CreateAdd(i, b.getInt64(1));
  i->addIncoming(next, loop);
  b.CreateCondBr(b.CreateICmpSLT(next, f->getArg(1)), loop, after);
  b.SetInsertPoint(after);
}

void nothing(void*, int64_t) {}

Status compile(HostIsa isa, int level) {
  NAX_ASSIGN_OR_RETURN(CodeEngine * engine, CodeEngine::instance());
  llvm::LLVMContext context;
  const std::string name = unique_name();
  auto module = std::make_unique<llvm::Module>(name, context);
  llvm::IRBuilder<> b(context);
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, *module);
  const std::string callee = name + ".callee";
  const llvm::FunctionCallee call = module->getOrInsertFunction(callee, type);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
  for (llvm::Type* element : {b.getFloatTy(), b.getDoubleTy(), static_cast<llvm::Type*>(b.getInt8Ty()),
                              static_cast<llvm::Type*>(b.getInt16Ty()), static_cast<llvm::Type*>(b.getInt32Ty()),
                              static_cast<llvm::Type*>(b.getInt64Ty())})
    add_loop(b, f, element, call);
  b.CreateRetVoid();
  SymbolMap symbols;
  symbols[callee] = reinterpret_cast<void*>(&nothing);
  return engine->compile(std::move(module), symbols, name, isa, level).status();
}

}  // namespace

Status compile_once(HostIsa isa) {
  static const Status* done = [isa] {
    Status status = compile(isa, 0);
    if (status.ok()) status = compile(isa, 1);
    return new Status(std::move(status));
  }();
  return *done;
}

}  // namespace nax::jit
