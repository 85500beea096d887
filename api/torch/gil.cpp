#include "api/torch/gil.h"

#include <Python.h>
#include <torch/csrc/Exceptions.h>

#include <unistd.h>

#include <cstdio>
#include <vector>

namespace nax::binding {
namespace {

// Waits nest (a wait inside a hook's callback), so this is a stack.
thread_local std::vector<PyThreadState*> released;

bool holds_gil() { return Py_IsInitialized() && PyGILState_Check(); }

}  // namespace

void gil_wait_hook(void* /*user*/, int begin) {
  if (begin) {
    released.push_back(holds_gil() ? PyEval_SaveThread() : nullptr);
    return;
  }
  PyThreadState* state = released.back();
  released.pop_back();
  if (state != nullptr) PyEval_RestoreThread(state);
}

void raise_pending_signal() {
  if (holds_gil() && PyErr_CheckSignals() != 0) throw python_error();
}

int interrupt_check(void* /*user*/) {
  // Handlers run on the main thread only; the others are not made to wait for the GIL.
  if (gettid() != getpid() || !Py_IsInitialized()) return 0;
  const PyGILState_STATE state = PyGILState_Ensure();
  const int raised = PyErr_CheckSignals();
  PyGILState_Release(state);
  return raised;
}

void raise_interrupt() {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_Occurred() != nullptr;
  PyGILState_Release(state);
  if (!raised) return;
  python_error error;
  error.persist();  // other code may run before it reaches Python
  throw error;
}

void log_to_stderr(void* /*user*/, int level, const char* message) {
  static const char* const kLevels[] = {"error", "warning", "info", "debug"};
  std::fprintf(stderr, "[nax %s] %s\n", kLevels[level < 0 || level > 3 ? 3 : level], message);
}

GilRelease::GilRelease() : state_(holds_gil() ? PyEval_SaveThread() : nullptr) {}

GilRelease::~GilRelease() {
  if (state_ != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
}

}  // namespace nax::binding
