#include "runtime/executor.h"

#include <algorithm>
#include <numeric>

#include "device/isa/slots.h"
#include "runtime/buffer.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

namespace nax {
namespace {

int64_t compiled_runs(const PreparedProgram& prepared) {
  int64_t runs = 0;
  for (int i = 0; i < prepared.nest_count(); ++i) runs += prepared.stats(i).compiled;
  return runs;
}

}  // namespace

ErrorText explain_error_bits(uint8_t bits) {
  if (bits & kOpIndexOutOfRange)
    return {StatusCode::kOutOfRange, ErrorReason::kIndexOutOfRange, "index out of range"};
  if (bits & kOpIntegerDivideByZero)
    return {StatusCode::kInvalidArgument, ErrorReason::kIntegerDivideByZero, "integer division or modulo by zero"};
  return {StatusCode::kInternal, ErrorReason::kEngineFault, "a device assertion failed"};
}

ErrorRef make_error(const WindowWork& work, uint32_t op, StatusCode code, ErrorReason reason, std::string what) {
  const WindowOp& record = work.window.ops[op];
  auto error = std::make_shared<ErrorRecord>();
  error->code = code;
  error->reason = reason;
  error->what = std::move(what);
  error->operation = describe_op(work.window, record);
  error->stream = work.stream->id();
  error->sequence = record.sequence;
  error->origin = record.origin;
  return error;
}

Executor::Executor(Runtime& runtime, std::unique_ptr<DiskStore> disk)
    : runtime_(runtime), plans_(runtime.target(), std::move(disk), runtime.stats(), runtime.faults()),
      tiering_(runtime.settings().tier, host_compiler(), runtime.stats(), runtime.faults()), clock_(runtime.target()) {}

void Executor::fail_ops(const WindowWork& work, const std::vector<uint32_t>& ops, const Status& status,
                        std::vector<OpFailure>* failures) {
  for (uint32_t op : ops) {
    const ErrorReason reason = status.reason() == ErrorReason::kNone ? ErrorReason::kEngineFault : status.reason();
    failures->push_back({op, make_error(work, op, status.code(), reason, std::string(status.message()))});
  }
}

Status Executor::bind(const WindowWork& work, const PlannedLaunch& launch, ArgValue* row) {
  for (const ArgBinding& binding : launch.args) {
    ArgValue& cell = *row++;
    if (binding.kind == ArgKind::kScratch) continue;
    const BufferIndex index = bind_arg(work.window, binding, &cell);
    if (index < 0) continue;
    Buffer* buffer = work.buffers[static_cast<size_t>(index)];
    if (!buffer) return internal_error("the plan uses a buffer after it let it go");
    NAX_ASSIGN_OR_RETURN(cell.data, buffer->host());
  }
  return {};
}

Status Executor::launch(const std::shared_ptr<ProgramEntry>& entry, const ArgValue* rows, int64_t n_rows, bool may_compile,
                        uint8_t* op_errors) {
  Stats& stats = runtime_.stats();
  tiering_.sight(entry, may_compile);
  if (runtime_.faults().launch.fires())
    return {StatusCode::kInternal, "injected engine fault", ErrorReason::kEngineFault};
  const bool compiled = entry->has_code();
  const int64_t before = compiled ? compiled_runs(*entry->prepared) : 0;
  NAX_RETURN_IF_ERROR(entry->prepared->run(rows, n_rows, ThreadPool::process_pool(), op_errors));
  stats.add(compiled && compiled_runs(*entry->prepared) != before ? Counter::k_jit_launches : Counter::k_interpreted_launches);
  stats.add(Counter::k_launches);
  stats.add(Counter::k_launch_rows, static_cast<uint64_t>(n_rows));
  return {};
}

Status Executor::run_step(WindowWork& work, ExactPlan& exact, const LaunchStep& step, std::vector<OpFailure>* failures) {
  const WindowPlan& plan = *exact.entry->plan;
  // Variants may have more scratch arguments than the bindings list; only single variants have several rows.
  size_t columns = 0;
  for (const auto& variant : step.variants) columns = std::max(columns, variant->prepared->program().args.size());
  rows_.resize(columns * step.launches.size());
  ArgValue* row = rows_.data();
  for (uint32_t index : step.launches) {
    NAX_RETURN_IF_ERROR(bind(work, plan.launches[index], row));
    row += columns;
  }

  // The first variant whose guards hold; only a program with guards has more than one.
  size_t variant = 0;
  for (; variant < step.variants.size(); ++variant) {
    const Program& program = step.variants[variant]->prepared->program();
    if (program.guards.empty()) break;
    slots_.resize(program.slots.size());
    evaluate_slots(program, rows_.data(), slots_.data());
    if (guards_hold(program, slots_.data())) break;
    runtime_.stats().add(MissReason::k_guard);
  }
  if (variant == step.variants.size())
    return {StatusCode::kInternal, "no variant of the program fits these sizes", ErrorReason::kEngineFault};

  const std::shared_ptr<ProgramEntry>& program = step.variants[variant];
  if (!exact.timed) {
    for (size_t i = 0; i < step.launches.size(); ++i) {
      TimedLaunch& timed = exact.launches.emplace_back();
      timed.program = program->prepared;
      timed.slots.resize(program->prepared->program().slots.size());
      evaluate_slots(program->prepared->program(), rows_.data() + i * columns, timed.slots.data());
    }
  }
  const size_t op_count = program->prepared->program().op_count;
  op_errors_.assign(op_count, 0);
  NAX_RETURN_IF_ERROR(launch(program, rows_.data(), static_cast<int64_t>(step.launches.size()), work.may_compile,
                             op_errors_.data()));
  if (!program->may_fail) return {};
  const PlannedLaunch& launch = plan.launches[step.launches[0]];
  for (size_t i = 0; i < op_count; ++i) {
    if (!op_errors_[i]) continue;
    const ErrorText text = explain_error_bits(op_errors_[i]);
    failures->push_back({launch.ops[i], make_error(work, launch.ops[i], text.code, text.reason, text.what)});
  }
  return {};
}

void Executor::run_window(WindowWork& work) {
  std::vector<OpFailure> failures;  // empty: no allocation
  bool poisoned = false;
  for (Buffer* buffer : work.buffers) poisoned |= buffer->poisoned();

  StatusOr<std::shared_ptr<ExactPlan>> exact = plans_.get(work.window, work.policy);
  if (!exact.ok()) {
    std::vector<uint32_t> all(work.window.ops.size());
    std::iota(all.begin(), all.end(), 0u);
    fail_ops(work, all, exact.status(), &failures);
  } else {
    const PlanEntry& entry = *(*exact)->entry;
    const WindowPlan& plan = *entry.plan;
    bool complete = true;
    for (const LaunchStep& step : entry.steps) {
      if (Status status = run_step(work, **exact, step, &failures); !status.ok()) {
        complete = false;
        for (uint32_t index : step.launches) fail_ops(work, plan.launches[index].ops, status, &failures);
      }
      for (uint32_t index : step.launches) {
        for (BufferIndex b : plan.launches[index].release_after) {
          Buffer*& buffer = work.buffers[static_cast<size_t>(b)];
          if (!buffer || buffer->poisoned()) continue;  // spread_poison needs it still
          buffer->unref();
          buffer = nullptr;
        }
      }
    }
    if (complete) {
      (*exact)->timed = true;
      clock_.count(*work.stream, *exact);
    } else if (!(*exact)->timed) {
      (*exact)->launches.clear();
    }
    if (runtime_.tracer().on()) runtime_.tracer().window(work, **exact);
    runtime_.stats().add(Counter::k_dead_temporaries, plan.dead_temporaries);
  }
  if (poisoned || !failures.empty()) {
    runtime_.stats().add(Counter::k_deferred_errors, failures.size());
    const int buffers = spread_poison(work.window, work.buffers, failures, &runtime_.errors());
    runtime_.stats().add(Counter::k_poisoned_buffers, static_cast<uint64_t>(buffers));
  }
  let_go(work);
}

void Executor::let_go(WindowWork& work) {
  for (Buffer* buffer : work.buffers)
    if (buffer) buffer->unref();
  Stream* stream = work.stream;
  work.clear();
  runtime_.recycle(&work);
  stream->unref();
}

}  // namespace nax
