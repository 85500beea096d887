#include "device/jit/code_engine.h"

#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <atomic>
#include <mutex>

namespace nax::jit {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

Status compile_failed(std::string what) {
  return {StatusCode::kInternal, "compiling a kernel: " + std::move(what), ErrorReason::kCompileFailed};
}
Status compile_failed(llvm::Error error) { return compile_failed(llvm::toString(std::move(error))); }

// By the level the process runs at, not by what the machine has: bits and object code must not depend on more.
const char* features(HostIsa isa) {
  return isa == HostIsa::kAvx2 ? "+avx2,+fma,+f16c" : "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl";
}

llvm::CodeGenOptLevel codegen_level(int level) {
  switch (level) {
    case 0: return llvm::CodeGenOptLevel::None;
    case 1: return llvm::CodeGenOptLevel::Less;
    case 2: return llvm::CodeGenOptLevel::Default;
    default: return llvm::CodeGenOptLevel::Aggressive;
  }
}

StatusOr<std::unique_ptr<llvm::TargetMachine>> make_machine(HostIsa isa, int level) {
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (target == nullptr) return compile_failed(error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      kTriple, "x86-64", features(isa), options, llvm::Reloc::PIC_, llvm::CodeModel::Small, codegen_level(level), true));
  if (!machine) return compile_failed("no target machine for x86-64");
  return machine;
}

}  // namespace

struct CodeEngine::Session {
  llvm::orc::ExecutionSession es;
  llvm::orc::ObjectLinkingLayer layer;
  std::atomic<int64_t> live{0};

  explicit Session(std::unique_ptr<llvm::orc::ExecutorProcessControl> control) : es(std::move(control)), layer(es) {
    // Failures come back through the look-up; nothing is ever printed.
    es.setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
  }
};

CodeEngine::CodeEngine(std::unique_ptr<Session> session) : session_(std::move(session)) {}
CodeEngine::~CodeEngine() = default;

StatusOr<CodeEngine*> CodeEngine::instance() {
  static const auto* made = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto control = llvm::orc::SelfExecutorProcessControl::Create();
    if (!control) return new StatusOr<CodeEngine*>(compile_failed(control.takeError()));
    return new StatusOr<CodeEngine*>(new CodeEngine(std::make_unique<Session>(std::move(*control))));
  }();
  return *made;
}

int64_t CodeEngine::live() const { return session_->live.load(std::memory_order_relaxed); }

StatusOr<CodeEngine::Code> CodeEngine::compile(std::unique_ptr<llvm::Module> module, const SymbolMap& symbols,
                                               const std::string& entry, HostIsa isa, int level) {
  NAX_ASSIGN_OR_RETURN(const std::unique_ptr<llvm::TargetMachine> machine, make_machine(isa, level));
  module->setTargetTriple(kTriple);
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> object;
  {
    llvm::raw_svector_ostream stream(object);
    llvm::legacy::PassManager passes;
    if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile, true))
      return compile_failed("the target cannot emit objects");
    passes.run(*module);
  }
  auto buffer = std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(object), entry, false);

  // A library of its own, so that a kernel's names are gone with it.
  Session& session = *session_;
  auto library = session.es.createJITDylib(entry);
  if (!library) return compile_failed(library.takeError());
  llvm::orc::JITDylib* dylib = &*library;
  const auto drop = [&session, dylib] {
    llvm::consumeError(session.es.removeJITDylib(*dylib));
    session.es.getSymbolStringPool()->clearDeadEntries();
  };
  llvm::orc::SymbolMap addresses;
  for (const auto& [name, address] : symbols)
    addresses[session.es.intern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  llvm::Error error = addresses.empty() ? llvm::Error::success() : dylib->define(llvm::orc::absoluteSymbols(std::move(addresses)));
  if (!error) error = session.layer.add(*dylib, std::move(buffer));
  if (error) {
    drop();
    return compile_failed(std::move(error));
  }
  auto found = session.es.lookup({dylib}, session.es.intern(entry));
  if (!found) {
    Status status = compile_failed(found.takeError());
    drop();
    return status;
  }
  session.live.fetch_add(1, std::memory_order_relaxed);
  Code code;
  code.entry = found->getAddress().toPtr<void*>();
  code.memory = std::shared_ptr<void>(code.entry, [&session, drop](void*) {
    drop();
    session.live.fetch_sub(1, std::memory_order_relaxed);
  });
  return code;
}

std::string unique_name() {
  static std::atomic<uint64_t> next{0};
  return "nax.kernel." + std::to_string(next.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace nax::jit
