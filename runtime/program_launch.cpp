#include "runtime/program_launch.h"

#include <algorithm>

#include "device/isa/slots.h"
#include "device/isa/verify.h"
#include "device/targets/fit.h"
#include "runtime/buffer.h"
#include "runtime/executor.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"
#include "runtime/view_bounds.h"

namespace nax {
namespace {

struct LaunchWork final : HardwareQueue::Work {
  Stream* stream = nullptr;  // holds a reference
  std::shared_ptr<ProgramEntry> entry;
  std::vector<ArgValue> row;
  std::vector<Buffer*> buffers;  // by argument; each that is not null holds a reference
  uint64_t sequence = 0;
  bool may_compile = false;

  void run() override {
    execute();
    for (Buffer* buffer : buffers)
      if (buffer) buffer->unref();
    stream->unref();
    delete this;
  }

 private:
  void execute();
  ErrorRef error(StatusCode code, ErrorReason reason, std::string what) const;
};

ErrorRef LaunchWork::error(StatusCode code, ErrorReason reason, std::string what) const {
  auto record = std::make_shared<ErrorRecord>();
  record->code = code;
  record->reason = reason == ErrorReason::kNone ? ErrorReason::kEngineFault : reason;
  record->what = std::move(what);
  record->operation = "program " + entry->prepared->program().name;
  record->stream = stream->id();
  record->sequence = sequence;
  return record;
}

void LaunchWork::execute() {
  Runtime& runtime = stream->runtime();
  const Program& program = entry->prepared->program();
  ErrorRef failure;
  bool poisoned_input = false;
  for (size_t a = 0; a < row.size(); ++a) {
    if (!buffers[a]) continue;
    StatusOr<void*> host = buffers[a]->host();
    if (!host.ok()) {
      failure = error(host.status().code(), host.status().reason(), std::string(host.status().message()));
      break;
    }
    row[a].data = *host;
    if (!program.args[a].read) continue;
    if (ErrorRef poison = buffers[a]->poison(); poison && (!failure || poison->sequence < failure->sequence)) {
      failure = std::move(poison);
      poisoned_input = true;
    }
  }
  if (!failure) {
    std::vector<uint8_t> op_errors(program.op_count);
    const Status status = runtime.executor().launch(entry, row.data(), 1, may_compile, op_errors.data());
    uint8_t bits = 0;
    for (uint8_t e : op_errors) bits |= e;
    if (!status.ok())
      failure = error(status.code(), status.reason(), std::string(status.message()));
    else if (bits)
      failure = error(explain_error_bits(bits).code, explain_error_bits(bits).reason, explain_error_bits(bits).what);
    TimedLaunch timed{entry->prepared, std::vector<int64_t>(program.slots.size())};
    evaluate_slots(program, row.data(), timed.slots.data());
    if (runtime.tracer().on()) runtime.tracer().launch(*stream, entry, timed.slots);
    runtime.executor().clock().count(*stream, std::move(timed));
  }
  // What the program writes is unknown in extent: only poison spreads here, a clear is the user's.
  if (!failure) return;
  if (!poisoned_input) {
    runtime.errors().add(failure);
    runtime.stats().add(Counter::k_deferred_errors);
  }
  for (size_t a = 0; a < row.size(); ++a)
    if (buffers[a] && program.args[a].written) buffers[a]->set_poison(failure);
}

}  // namespace

namespace {

// With these sizes: guards, on-chip memory, and every access inside its buffer.
Status check_launch(const Program& program, const std::vector<ArgValue>& row, const std::vector<Buffer*>& buffers,
                    const TargetInfo& target) {
  std::vector<int64_t> slots(program.slots.size());
  evaluate_slots(program, row.data(), slots.data());
  if (!guards_hold(program, slots.data()))
    return {StatusCode::kFailedPrecondition, "program " + program.name + ": a launch guard does not hold for these sizes",
            ErrorReason::kVerifyFailed};
  NAX_RETURN_IF_ERROR(check_fit(program, slots.data(), target));
  std::vector<ArgBounds> bounds(row.size());
  for (size_t a = 0; a < row.size(); ++a)
    if (buffers[a]) bounds[a] = {row[a].offset_bytes, static_cast<int64_t>(buffers[a]->bytes())};
  return check_bounds(program, slots.data(), bounds.data());
}

}  // namespace

Status bind_operands(const Program& program, const nax_operand* operands, uint32_t count, std::vector<ArgValue>* row,
                     std::vector<Buffer*>* buffers) {
  const auto wanted = static_cast<uint32_t>(std::count_if(program.args.begin(), program.args.end(), [](const ArgDecl& a) {
    return a.kind != ArgKind::kScratch;
  }));
  if (count != wanted)
    return invalid_argument("program " + program.name + " takes " + std::to_string(wanted) + " operands, found " +
                            std::to_string(count));
  if (count && !operands) return invalid_argument("operands is NULL with a count above 0");
  row->assign(program.args.size(), ArgValue());
  if (buffers) buffers->assign(program.args.size(), nullptr);
  for (size_t a = 0, next = 0; a < program.args.size(); ++a) {
    const ArgDecl& decl = program.args[a];
    if (decl.kind == ArgKind::kScratch) continue;
    const std::string name = "operand " + std::to_string(next);
    const nax_operand& o = operands[next++];
    ArgValue& cell = (*row)[a];
    if (decl.kind != ArgKind::kView) {
      if (o.cls != NAX_SCALAR || o.scalar.kind > 2) return invalid_argument(name + ": the program takes a scalar here");
      cell.scalar.kind = static_cast<ScalarValue::Kind>(o.scalar.kind);
      cell.scalar.i64 = o.scalar.value.i64;
      if (decl.kind == ArgKind::kSeed) cell.seed = static_cast<uint64_t>(cell.scalar.to_i64());
      continue;
    }
    if (o.cls != NAX_TENSOR) return invalid_argument(name + ": the program takes a tensor here");
    if (o.dtype != static_cast<int32_t>(decl.dtype))
      return invalid_argument(name + ": the program takes " + std::string(dtype_name(decl.dtype)) + " here, found dtype " +
                              (o.dtype > 0 && o.dtype < kDTypeCount ? std::string(dtype_name(static_cast<DType>(o.dtype)))
                                                                    : std::to_string(o.dtype)));
    if (o.rank != decl.rank)
      return invalid_argument(name + ": the program takes rank " + std::to_string(decl.rank) + " here, found " +
                              std::to_string(o.rank));
    auto* buffer = reinterpret_cast<Buffer*>(o.buffer);
    if (buffers) {
      if (!buffer) return invalid_argument(name + ": a tensor needs a buffer");
      int64_t elements = 0;
      NAX_RETURN_IF_ERROR(check_view_bounds(o, buffer->bytes(), decl.written, &elements).with_context(name));
      (*buffers)[a] = buffer;
    }
    cell.offset_bytes = o.offset_bytes;
    std::copy_n(o.sizes, o.rank, cell.sizes.begin());
    std::copy_n(o.strides, o.rank, cell.strides.begin());
  }
  return {};
}

Status launch_program(Stream& stream, const std::shared_ptr<const Program>& program, const std::string& key,
                      const nax_operand* operands, uint32_t count) {
  Runtime& runtime = stream.runtime();
  NAX_RETURN_IF_ERROR(runtime.enter());
  NAX_RETURN_IF_ERROR(verify(*program));
  auto work = std::make_unique<LaunchWork>();
  NAX_RETURN_IF_ERROR(bind_operands(*program, operands, count, &work->row, &work->buffers));
  for (Buffer* buffer : work->buffers)
    if (buffer && &buffer->runtime() != &runtime)
      return invalid_argument("a buffer belongs to another runtime than the stream");
  NAX_RETURN_IF_ERROR(check_launch(*program, work->row, work->buffers, runtime.target()));
  NAX_ASSIGN_OR_RETURN(work->entry, runtime.executor().plans().program(key, program));

  const RecordRules& rules = runtime.rules();
  work->stream = &stream;
  work->sequence = stream.next_sequence();
  work->may_compile = rules.may_compile;
  work->ops = program->op_count;
  work->heavy = true;  // its loops are not known
  stream.ref();
  for (size_t a = 0; a < work->buffers.size(); ++a) {
    if (!work->buffers[a]) continue;
    work->buffers[a]->ref();
    if (program->args[a].written) work->buffers[a]->set_written();
  }
  LaunchWork* pushed = work.release();
  const uint64_t ticket = stream.push(
      pushed, CutReason::k_launch, rules.one_op ? HardwareQueue::Start::kWhenWaited : HardwareQueue::Start::kNow,
      [&](uint64_t t) {
        for (size_t a = 0; a < pushed->buffers.size(); ++a)
          if (pushed->buffers[a]) pushed->buffers[a]->set_used(t, program->args[a].written);
      });
  if (rules.one_op) {
    NAX_RETURN_IF_ERROR(runtime.wait(ticket));
    if (rules.raise)
      if (ErrorRef error = runtime.errors().take(stream.id())) return runtime.raise(*error);
    return {};
  }
  return runtime.queue().has_room() ? Status() : runtime.wait_for_room();
}

}  // namespace nax
