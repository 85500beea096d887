// Python's lock around the core's waits.
#pragma once

namespace nax::binding {

// nax_wait_hook: gives the GIL up before a blocking wait, if this thread holds it, and takes it back afterwards.
void gil_wait_hook(void* user, int begin);

// If this thread holds the GIL and a signal came in (Ctrl-C), throws the exception its Python handler raised.
void raise_pending_signal();

// nax_interrupt_check: runs Python's signal handlers on the main thread; nonzero with the Python error set where one raised.
int interrupt_check(void* user);

// Throws the Python error that an interrupt check left behind, if there is one.
void raise_interrupt();

// nax_log_sink.
void log_to_stderr(void* user, int level, const char* message);

// Gives the GIL up for a scope, if this thread holds it.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;  // one scope
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  void* state_;
};

}  // namespace nax::binding
