#include "device/jit/jit.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "device/jit/code_engine.h"
#include "device/jit/first_compile.h"
#include "device/jit/kernel_builder.h"

namespace nax {
namespace {

struct Counters {
  std::atomic<int64_t> compiled{0}, uncovered{0}, failed{0}, nanoseconds{0};
};
Counters& counters() {
  static Counters c;
  return c;
}

StatusOr<std::shared_ptr<const CompiledKernel>> compile(const LaneProgram& lanes, const JitOptions& options) {
  NAX_ASSIGN_OR_RETURN(jit::CodeEngine * engine, jit::CodeEngine::instance());
  llvm::LLVMContext context;
  const std::string name = jit::unique_name();
  auto module = std::make_unique<llvm::Module>(name, context);
  jit::SymbolMap symbols;
  auto kernel = std::make_shared<CompiledKernel>();
  NAX_RETURN_IF_ERROR(jit::build_kernel(lanes, options.isa, name, *module, symbols, kernel->inner));
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(*module, &stream))
    return Status(StatusCode::kInternal, "the JIT built invalid IR: " + problem, ErrorReason::kCompileFailed);
  NAX_ASSIGN_OR_RETURN(jit::CodeEngine::Code code,
                       engine->compile(std::move(module), symbols, name, options.isa, options.level));
  kernel->run = reinterpret_cast<RowRunFn>(code.entry);
  kernel->max_free = 1;
  kernel->level = options.level;
  kernel->min_row = jit::kGroup;
  kernel->code = std::move(code.memory);
  return std::shared_ptr<const CompiledKernel>(std::move(kernel));
}

// What a nest gains, from measurements against strips (ns an element: an 8-op fp32 chain 0.88 in strips, 0.58 at level 0,
// 0.41 at level 1; softmax 0.60, 1.59, 0.51; RMSNorm 0.36, 0.92, 0.20; one or two functions 0.38, 0.43, 0.31).
enum class Gain { kNone, kAtLevel1, kAtLevel0 };

Gain gain_of(const LaneProgram& lanes) {
  int functions = 0;
  bool narrow = false;
  for (const LaneOp& op : lanes.ops) functions += op.kind == LaneOpKind::kApply;
  for (const LaneValue& v : lanes.values) narrow |= v.dtype == DType::kBF16 || v.dtype == DType::kF16;
  // Copies, and reductions of what is loaded: strips read memory in place and reduce four chunks at a time.
  if (functions < (lanes.accumulators.empty() ? 1 : 2)) return Gain::kNone;
  constexpr int kManyFunctions = 5;
  const bool pointwise = !lanes.has_row_reduction && lanes.accumulators.empty();
  return pointwise && !narrow && functions >= kManyFunctions ? Gain::kAtLevel0 : Gain::kAtLevel1;
}

}  // namespace

bool jit_available() { return true; }

Status start_compiler() { return jit::compile_once(host_isa()); }

StatusOr<std::shared_ptr<const CompiledKernel>> compile_lanes(const LaneProgram& lanes, const JitOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  auto kernel = compile(lanes, options);
  Counters& c = counters();
  c.nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  if (kernel.ok()) ++c.compiled;
  else if (kernel.status().code() == StatusCode::kUnimplemented) ++c.uncovered;
  else ++c.failed;
  return kernel;
}

Status compile_program(PreparedProgram& program, int level, int* out_kernels) {
  *out_kernels = 0;
  for (int nest = 0; nest < program.nest_count(); ++nest) {
    const LaneProgram& lanes = program.lanes(nest);
    const Gain gain = gain_of(lanes);
    if (gain == Gain::kNone) continue;
    const JitOptions options{host_isa(), gain == Gain::kAtLevel1 ? std::max(level, 1) : level};
    const auto attached = program.kernel(nest);
    if (attached != nullptr && attached->level >= options.level) {
      ++*out_kernels;
      continue;
    }
    auto kernel = compile_lanes(lanes, options);
    if (kernel.ok()) {
      program.attach_kernel(nest, std::move(kernel).value());
      ++*out_kernels;
    } else if (kernel.status().code() != StatusCode::kUnimplemented) {
      return std::move(kernel).status();
    }
  }
  return {};
}

Status compile_program(PreparedProgram& program, int* out_kernels) { return compile_program(program, 1, out_kernels); }

std::string program_ir(const PreparedProgram& program) {
  std::string text;
  for (int nest = 0; nest < program.nest_count(); ++nest) {
    const LaneProgram& lanes = program.lanes(nest);
    text += "; nest " + std::to_string(nest);
    if (gain_of(lanes) == Gain::kNone) {
      text += ": not compiled, strips are as fast\n";
      continue;
    }
    llvm::LLVMContext context;
    llvm::Module module("nest", context);
    jit::SymbolMap symbols;
    std::vector<InnerStride> inner;
    const std::string name = "nest" + std::to_string(nest);
    if (const Status s = jit::build_kernel(lanes, host_isa(), name, module, symbols, inner); !s.ok()) {
      text.append(": not compiled, ").append(s.message()).append("\n");
      continue;
    }
    text += "\n";
    llvm::raw_string_ostream stream(text);
    module.print(stream, nullptr);
  }
  return text;
}

JitStats jit_stats() {
  const Counters& c = counters();
  JitStats stats;
  stats.compiled = c.compiled;
  stats.uncovered = c.uncovered;
  stats.failed = c.failed;
  stats.nanoseconds = c.nanoseconds;
  auto engine = jit::CodeEngine::instance();
  if (engine.ok()) stats.live = (*engine)->live();
  return stats;
}

}  // namespace nax
