#include "runtime/tracer.h"

#include "device/timing/timing.h"
#include "runtime/report_text.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"
#include "runtime/window_work.h"

namespace nax {
namespace {

// Never throws, whatever is short of memory.
void complain(Runtime& runtime, const char* what, const std::exception& error) noexcept {
  try {
    runtime.log(1, std::string(what) + " could not be traced: " + error.what());
  } catch (...) {
  }
}

}  // namespace

Status Tracer::dump_to(const std::string& folder) {
  NAX_ASSIGN_OR_RETURN(auto opened, DumpFolder::open(folder));
  std::lock_guard lock(mutex_);
  folder_ = std::move(opened);
  on_.store(true);
  return {};
}

void Tracer::set_sinks(WindowSink window, FallbackSink fallback) {
  std::lock_guard lock(mutex_);
  window_ = std::move(window);
  fallback_ = std::move(fallback);
  told_ = 0;
  on_.store(folder_ || window_ || fallback_);
}

void Tracer::tell(WindowReport report, const Window* window, bool fresh) {
  Status failure;
  {
    std::lock_guard lock(mutex_);
    if (folder_ && fresh && !folder_->stopped()) {
      report.number = dumped_++;
      failure = folder_->write(report_text(report, window, runtime_.target()));
    }
    if (window_) {
      report.number = told_++;
      window_(report);
    }
  }
  if (!failure.ok()) runtime_.log(1, std::string(failure.message()));
}

void Tracer::window(const WindowWork& work, ExactPlan& plan) noexcept {
  try {
    const bool fresh = !plan.traced;
    plan.traced = true;
    {
      std::lock_guard lock(mutex_);
      if (!window_ && !(folder_ && fresh)) return;
    }
    WindowReport report = describe_window(work.window, *plan.entry, runtime_.target(),
                                          [this](uint64_t origin) { return runtime_.origin_text(origin); });
    report.stream = work.stream->id();
    report.cut = cut_reason_name(work.cut);
    tell(std::move(report), &work.window, fresh);
  } catch (const std::exception& e) {
    complain(runtime_, "a window", e);
  }
}

void Tracer::launch(const Stream& stream, const std::shared_ptr<ProgramEntry>& program, std::vector<int64_t> slots) noexcept {
  try {
    WindowReport report;
    report.stream = stream.id();
    report.cut = cut_reason_name(CutReason::k_launch);
    RegionReport& region = report.regions.emplace_back();
    region.prepared = program->prepared;
    region.compiled = program->has_code();
    region.slots = std::move(slots);
    region.device_ns = time_program(program->prepared->program(), region.slots.data(), runtime_.target()).total_ns;
    tell(std::move(report), nullptr, true);
  } catch (const std::exception& e) {
    complain(runtime_, "a launch", e);
  }
}

void Tracer::fallback(Stream& stream, const char* name, uint64_t origin) noexcept {
  try {
    const FallbackReport report{name, origin ? runtime_.origin_text(origin) : std::string(), stream.id(), stream.recorded()};
    std::lock_guard lock(mutex_);
    if (fallback_) fallback_(report);
  } catch (const std::exception& e) {
    complain(runtime_, "a fallback", e);
  }
}

}  // namespace nax
