#include "device/jit/jit.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <atomic>
#include <chrono>

#include "device/jit/code_engine.h"
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
  kernel->min_row = jit::kGroup;
  kernel->code = std::move(code.memory);
  return std::shared_ptr<const CompiledKernel>(std::move(kernel));
}

// Copies, and reductions of what is loaded, are no faster compiled: strips read memory in place and reduce four chunks at a
// time.
bool is_worth_it(const LaneProgram& lanes) {
  int functions = 0;
  for (const LaneOp& op : lanes.ops) functions += op.kind == LaneOpKind::kApply;
  return functions >= (lanes.accumulators.empty() ? 1 : 2);
}

}  // namespace

bool jit_available() { return true; }

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
  const JitOptions options{host_isa(), level};
  for (int nest = 0; nest < program.nest_count(); ++nest) {
    if (!is_worth_it(program.lanes(nest))) continue;
    auto kernel = compile_lanes(program.lanes(nest), options);
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
