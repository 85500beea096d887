#include "runtime/poison.h"

namespace nax {
namespace {

ErrorRef earlier(const ErrorRef& a, const ErrorRef& b) {
  if (!a) return b;
  if (!b) return a;
  return b->sequence < a->sequence ? b : a;
}

}  // namespace

bool covers_whole(const View& view, int64_t buffer_bytes) {
  if (view.offset_bytes != 0) return false;
  int64_t elements = 1, last = 0;
  for (size_t d = 0; d < view.rank; ++d) {
    if (view.sizes[d] > 1 && view.strides[d] <= 0) return false;
    elements *= view.sizes[d];
    last += (view.sizes[d] - 1) * view.strides[d];
  }
  // Stores do not repeat elements, so an extent equal to the count leaves no gap.
  return elements > 0 && last + 1 == elements && elements * static_cast<int64_t>(dtype_size(view.dtype)) == buffer_bytes;
}

int spread_poison(const Window& window, const std::vector<Buffer*>& buffers, const std::vector<OpFailure>& failures,
                  ErrorLog* log) {
  std::vector<ErrorRef> taint(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i]) taint[i] = buffers[i]->poison();
  std::vector<ErrorRef> failed(window.ops.size());
  for (const OpFailure& f : failures) failed[f.op] = earlier(failed[f.op], f.error);

  for (size_t o = 0; o < window.ops.size(); ++o) {
    const WindowOp& op = window.ops[o];
    ErrorRef error;
    for (int i = 0; i < op.input_count; ++i) {
      const WindowOperand& in = window.input(op, i);
      if (in.cls == OperandClass::kTensor) error = earlier(error, taint[static_cast<size_t>(in.view.buffer)]);
    }
    if (!error && failed[o]) {
      error = failed[o];
      log->add(error);
    }
    for (int i = 0; i < op.output_count; ++i) {
      const View& out = window.output(op, i).view;
      ErrorRef& slot = taint[static_cast<size_t>(out.buffer)];
      if (error)
        slot = earlier(slot, error);
      else if (covers_whole(out, window.buffers[static_cast<size_t>(out.buffer)].bytes))
        slot = nullptr;
    }
  }

  int poisoned = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i]) continue;
    if (taint[i] && !buffers[i]->poisoned()) ++poisoned;
    buffers[i]->set_poison(taint[i]);
  }
  return poisoned;
}

}  // namespace nax
