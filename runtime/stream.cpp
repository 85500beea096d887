#include "runtime/stream.h"

#include <new>
#include <string>

#include "fusion/plan.h"
#include "runtime/buffer.h"
#include "runtime/executor.h"
#include "runtime/op_name.h"
#include "runtime/runtime.h"
#include "runtime/view_bounds.h"
#include "runtime/window_work.h"

namespace nax {
namespace {

// Identifies the calling thread without a system call.
const void* this_thread() {
  static thread_local const char mark = 0;
  return &mark;
}

// Below this an inline run is shorter than what a wait hook costs (in the binding: giving up and taking the GIL).
constexpr uint64_t kHookWork = 1 << 16;  // elements or multiply-adds / 8
// From here on a window takes milliseconds: an interruptible wait leaves it to the engine thread.
constexpr uint64_t kHeavyWork = 1 << 24;
// A loop that never synchronizes is cut where it comes round, not wherever the budget ends: at the first return of the
// anchor op after this many ops. Otherwise its windows would drift, and each be new.
constexpr uint32_t kRepeatOps = 256;
constexpr uint32_t kMaxOperands = 16;
constexpr uint32_t kMaxAttrs = 32;

Status bad_operand(uint32_t index, bool output, const std::string& what) {
  return invalid_argument((output ? "output " : "input ") + std::to_string(index) + ": " + what);
}

// Tells ops of a loop body apart, cheaply: what, from which line, how large. Equal for equal steps.
uint64_t rough_identity(const nax_op& op) {
  uint64_t h = op.id * uint64_t{0x9e3779b97f4a7c15} + op.origin;
  if (op.output_count) {
    const nax_operand& o = op.outputs[0];
    for (int32_t d = 0; d < o.rank && d < kMaxRank; ++d)
      h = (h ^ static_cast<uint64_t>(o.sizes[d])) * uint64_t{0xff51afd7ed558ccd};
    h += static_cast<uint64_t>(o.dtype);
  }
  return h | 1;  // 0 is "none"
}

bool is_matmul(uint32_t id) {
  return id >= static_cast<uint32_t>(OpId::k_mm) && id <= static_cast<uint32_t>(OpId::k_baddbmm);
}

}  // namespace

void WindowWork::run() { executor->run_window(*this); }

Stream::Stream(Runtime& runtime, int id, int priority) : runtime_(runtime), id_(id), priority_(priority) { open_window(); }

Stream::~Stream() {
  runtime_.forget(this);
  open_->clear();
  runtime_.recycle(open_);
}

bool Stream::try_ref() {
  int32_t refs = refs_.load(std::memory_order_relaxed);
  while (refs > 0)
    if (refs_.compare_exchange_weak(refs, refs + 1, std::memory_order_relaxed)) return true;
  return false;
}

void Stream::unref() {
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void Stream::close() {
  cut(CutReason::k_stream, HardwareQueue::Start::kNow);
  unref();
}

void Stream::open_window() {
  open_ = runtime_.take_window();
  open_->tag = next_tag_++;
  window_bytes_ = 0;
}

bool Stream::is_owned_by_this_thread() const { return owner_thread_.load(std::memory_order_relaxed) == this_thread(); }

void Stream::release_at_cut(Buffer* buffer) {
  Buffer* head = releases_.load(std::memory_order_relaxed);
  do {
    buffer->next_released = head;
  } while (!releases_.compare_exchange_weak(head, buffer, std::memory_order_release, std::memory_order_relaxed));
}

void Stream::take_releases() {
  if (!releases_.load(std::memory_order_relaxed)) return;
  Buffer* buffer = releases_.exchange(nullptr, std::memory_order_acquire);
  while (buffer) {
    Buffer* next = buffer->next_released;
    buffer->drop_handle();
    buffer = next;
  }
}

int32_t Stream::intern(Buffer* buffer, WindowWork& work) {
  const bool guest = &buffer->owner() != this;
  if (!guest) {
    if (buffer->window_tag == work.tag) return buffer->window_index;
  } else if (const auto found = work.guests.find(buffer); found != work.guests.end()) {
    return found->second;
  }
  const auto index = static_cast<int32_t>(work.buffers.size());
  WindowBuffer entry;
  entry.born_here = !buffer->written();
  entry.bytes = static_cast<int64_t>(buffer->bytes());
  work.window.buffers.push_back(entry);
  work.buffers.push_back(buffer);
  work.written.push_back(0);
  buffer->enter_window();
  if (guest) {
    work.guests.emplace(buffer, index);
  } else {
    buffer->window_tag = work.tag;
    buffer->window_index = index;
  }
  return index;
}

Status Stream::append_operand(const nax_operand& o, bool output, WindowWork& work) {
  WindowOperand& operand = work.window.operands.emplace_back();
  switch (o.cls) {
    case NAX_ABSENT:
      if (output) return invalid_argument("an output must be a tensor");
      operand.cls = OperandClass::kAbsent;
      return {};
    case NAX_SCALAR:
      if (output) return invalid_argument("an output must be a tensor");
      operand.cls = OperandClass::kScalar;
      if (o.scalar.kind > 2) return invalid_argument("unknown scalar kind " + std::to_string(o.scalar.kind));
      operand.scalar.kind = static_cast<ScalarValue::Kind>(o.scalar.kind);
      operand.scalar.i64 = o.scalar.value.i64;
      return {};
    case NAX_TENSOR: break;
    default: return invalid_argument("unknown operand class " + std::to_string(o.cls));
  }
  if (o.dtype <= NAX_INVALID_DTYPE || o.dtype >= kDTypeCount)
    return invalid_argument("unknown dtype " + std::to_string(o.dtype));
  if (o.rank < 0 || o.rank > kMaxRank)
    return invalid_argument("rank " + std::to_string(o.rank) + "; at most " + std::to_string(kMaxRank) + " dimensions");
  auto* buffer = reinterpret_cast<Buffer*>(o.buffer);
  if (!buffer) return invalid_argument("a tensor needs a buffer");
  if (&buffer->runtime() != &runtime_) return invalid_argument("the buffer belongs to another runtime than the stream");
  int64_t elements = 0;
  NAX_RETURN_IF_ERROR(check_view_bounds(o, buffer->bytes(), output, &elements));

  View& view = operand.view;
  operand.cls = OperandClass::kTensor;
  view.buffer = intern(buffer, work);
  view.dtype = static_cast<DType>(o.dtype);
  view.rank = static_cast<uint8_t>(o.rank);
  view.offset_bytes = o.offset_bytes;
  for (int32_t d = 0; d < o.rank; ++d) {
    view.sizes[static_cast<size_t>(d)] = o.sizes[d];
    view.strides[static_cast<size_t>(d)] = o.strides[d];
  }
  if (output) work.work_estimate += static_cast<uint64_t>(elements);
  return {};
}

Status Stream::append_locked(const nax_op& op, WindowWork& work) {
  Window& window = work.window;
  WindowOp& record = window.ops.emplace_back();
  record.id = static_cast<OpId>(op.id);
  record.compute = static_cast<DType>(op.compute_dtype);
  record.input_count = static_cast<uint8_t>(op.input_count);
  record.output_count = static_cast<uint8_t>(op.output_count);
  record.attr_count = static_cast<uint8_t>(op.attr_count);
  record.first_operand = static_cast<uint32_t>(window.operands.size());
  record.first_attr = static_cast<uint32_t>(window.attrs.size());
  record.sequence = sequence_ + 1;
  record.origin = op.origin;
  for (uint32_t i = 0; i < op.input_count; ++i)
    if (Status s = append_operand(op.inputs[i], false, work); !s.ok())
      return bad_operand(i, false, std::string(s.message()));
  for (uint32_t i = 0; i < op.output_count; ++i)
    if (Status s = append_operand(op.outputs[i], true, work); !s.ok())
      return bad_operand(i, true, std::string(s.message()));
  window.attrs.insert(window.attrs.end(), op.attrs, op.attrs + op.attr_count);
  return check_op(window, static_cast<uint32_t>(window.ops.size() - 1), false);
}

Status Stream::record(const nax_op& op) {
  const char* name = op_name_or_null(op.id);
  if (!name) return invalid_argument("unknown op id " + std::to_string(op.id));
  if (op.input_count + op.output_count > kMaxOperands || op.attr_count > kMaxAttrs)
    return invalid_argument(std::string(name) + ": more operands or attributes than any op has");
  if ((op.input_count && !op.inputs) || (op.output_count && !op.outputs) || (op.attr_count && !op.attrs))
    return invalid_argument(std::string(name) + ": a NULL array with a count above 0");
  if (op.compute_dtype < 0 || op.compute_dtype >= kDTypeCount)
    return invalid_argument(std::string(name) + ": unknown compute dtype " + std::to_string(op.compute_dtype));
  NAX_RETURN_IF_ERROR(runtime_.enter());

  const RecordRules& rules = runtime_.rules();
  uint64_t ticket = 0, estimate = 0;
  {
    std::lock_guard lock(mutex_);
    if (!rules.one_op) cut_at_repeat(op);
    WindowWork& work = *open_;
    const size_t ops = work.window.ops.size(), operands = work.window.operands.size(), attrs = work.window.attrs.size(),
                 buffers = work.buffers.size();
    const uint64_t before = work.work_estimate;
    Status status;
    try {
      status = append_locked(op, work);
    } catch (const std::bad_alloc&) {
      status = {StatusCode::kResourceExhausted, "the host is out of memory"};
    }
    if (!status.ok()) {
      work.window.ops.resize(ops);
      work.window.operands.resize(operands);
      work.window.attrs.resize(attrs);
      work.work_estimate = before;
      for (size_t i = buffers; i < work.buffers.size(); ++i) {
        Buffer* buffer = work.buffers[i];
        if (&buffer->owner() == this)
          buffer->window_tag = 0;
        else
          work.guests.erase(buffer);
        buffer->abandon_window();
      }
      work.window.buffers.resize(buffers);
      work.buffers.resize(buffers);
      work.written.resize(buffers);
      if (status.message().starts_with(std::string(name) + ": ")) return status;
      return std::move(status).with_context(name);
    }
    owner_thread_.store(this_thread(), std::memory_order_relaxed);
    ++sequence_;
    const WindowOp& record = work.window.ops.back();
    for (int i = 0; i < record.output_count; ++i) {
      const auto index = static_cast<size_t>(work.window.output(record, i).view.buffer);
      if (work.written[index]) continue;
      work.written[index] = 1;
      work.buffers[index]->set_written();
      window_bytes_ += work.buffers[index]->bytes();
    }
    if (is_matmul(op.id)) {
      const View& a = work.window.input(record, op.id >= static_cast<uint32_t>(OpId::k_addmm) ? 1 : 0).view;
      const int64_t k = a.rank ? a.sizes[a.rank - 1] : 1;
      work.work_estimate = before + (work.work_estimate - before) * static_cast<uint64_t>(k) / 8;
    }
    runtime_.stats().add(Counter::k_ops_recorded);
    if (rules.one_op) {
      estimate = work.work_estimate;
      ticket = cut_locked(rules.raise ? CutReason::k_blocking : CutReason::k_eager, HardwareQueue::Start::kWhenWaited);
    } else if (work.window.ops.size() >= rules.max_ops) {
      cut_locked(CutReason::k_ops, HardwareQueue::Start::kNow);
    } else if (window_bytes_ >= rules.max_bytes) {
      cut_locked(CutReason::k_bytes, HardwareQueue::Start::kNow);
    }
  }
  if (ticket) {
    if (estimate >= kHookWork || !runtime_.queue().done(ticket - 1))
      NAX_RETURN_IF_ERROR(runtime_.wait(ticket));
    else
      runtime_.queue().wait(ticket, [](bool) {});
    if (rules.raise)
      if (ErrorRef error = runtime_.errors().take(id_)) return runtime_.raise(*error);
    return {};
  }
  return runtime_.queue().has_room() ? Status() : runtime_.wait_for_room();
}

void Stream::cut_at_repeat(const nax_op& op) {
  const uint64_t identity = rough_identity(op);
  if (anchor_ == 0) {
    anchor_ = identity;
    since_anchor_ = 0;
  } else if (since_anchor_ >= kRepeatOps && identity == anchor_) {
    cut_locked(CutReason::k_repeat, HardwareQueue::Start::kNow);
    since_anchor_ = 0;
  }
  ++since_anchor_;
}

uint64_t Stream::cut_locked(CutReason reason, HardwareQueue::Start start) {
  if (reason != CutReason::k_repeat && reason != CutReason::k_ops && reason != CutReason::k_bytes) anchor_ = 0;
  WindowWork& work = *open_;
  if (work.window.ops.empty()) {
    take_releases();
    return last_ticket_.load(std::memory_order_relaxed);
  }
  const RecordRules& rules = runtime_.rules();
  for (size_t i = 0; i < work.buffers.size(); ++i) work.window.buffers[i].live_out = work.buffers[i]->leave_window();
  work.executor = &runtime_.executor();
  work.stream = this;
  work.policy = rules.policy;
  work.cut = reason;
  work.may_compile = rules.may_compile;
  work.ops = static_cast<uint32_t>(work.window.ops.size());
  work.bytes = window_bytes_;
  work.heavy = work.work_estimate >= kHeavyWork;
  ref();
  runtime_.stats().add(reason);
  runtime_.stats().add(Counter::k_windows);
  runtime_.queue().push(&work, start, [&](uint64_t ticket) {
    for (size_t i = 0; i < work.buffers.size(); ++i) work.buffers[i]->set_used(ticket, work.written[i]);
    last_ticket_.store(ticket, std::memory_order_release);
  });
  open_window();
  take_releases();  // they counted as alive in the window that just ended
  return last_ticket_.load(std::memory_order_relaxed);
}

uint64_t Stream::cut(CutReason reason, HardwareQueue::Start start) {
  std::lock_guard lock(mutex_);
  return cut_locked(reason, start);
}

void Stream::cut_if_used(Buffer& buffer, bool writes_only, CutReason reason, HardwareQueue::Start start) {
  std::lock_guard lock(mutex_);
  int32_t index = -1;
  if (&buffer.owner() == this) {
    if (buffer.window_tag == open_->tag) index = buffer.window_index;
  } else if (const auto found = open_->guests.find(&buffer); found != open_->guests.end()) {
    index = found->second;
  }
  if (index < 0 || (writes_only && !open_->written[static_cast<size_t>(index)])) return;
  cut_locked(reason, start);
}

uint64_t Stream::push(HardwareQueue::Work* work, CutReason reason, HardwareQueue::Start start,
                      FunctionRef<void(uint64_t)> on_ticket) {
  std::lock_guard lock(mutex_);
  cut_locked(reason, start);
  return runtime_.queue().push(work, start, [&](uint64_t ticket) {
    last_ticket_.store(ticket, std::memory_order_release);
    on_ticket(ticket);
  });
}

uint64_t Stream::next_sequence() {
  std::lock_guard lock(mutex_);
  return ++sequence_;
}

uint64_t Stream::recorded() {
  std::lock_guard lock(mutex_);
  return sequence_;
}

}  // namespace nax
