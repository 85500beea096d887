#include "runtime/plan_writer.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "runtime/plan_io.h"

namespace nax {
namespace {

// Writers alive, for the end of the process: an embedding program need not destroy its runtimes. Never destroyed itself.
struct Registry {
  std::mutex mutex;
  std::vector<PlanWriter*> writers;
};

Registry& registry() {
  static Registry& r = *new Registry;
  return r;
}

void finish_at_exit() {
  Registry& r = registry();
  std::unique_lock lock(r.mutex, std::try_to_lock);
  if (!lock) return;
  for (PlanWriter* writer : r.writers)
    if (writer->in_its_process()) writer->drain();
}

}  // namespace

PlanWriter::PlanWriter(DiskStore& store, Stats& stats) : store_(store), stats_(stats) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  [[maybe_unused]] static const int registered = std::atexit(finish_at_exit);
  r.writers.push_back(this);
}

PlanWriter::~PlanWriter() {
  {
    Registry& r = registry();
    std::lock_guard lock(r.mutex);
    r.writers.erase(std::remove(r.writers.begin(), r.writers.end(), this), r.writers.end());
  }
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PlanWriter::write(std::string key, std::shared_ptr<const WindowPlan> plan) {
  {
    std::lock_guard lock(mutex_);
    if (jobs_.size() >= kMaxPending) return;
    jobs_.push_back({std::move(key), std::move(plan)});
    if (!thread_.joinable()) thread_ = std::thread([this] { main(); });
  }
  changed_.notify_all();
}

void PlanWriter::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !writing_; });
}

void PlanWriter::main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !jobs_.empty() || stopping_; });
    if (jobs_.empty()) return;  // stopping, and nothing left to finish
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    writing_ = true;
    lock.unlock();
    // A full disk or a lost folder costs speed next time, nothing now; the store counts its failures.
    if (store_.store(CacheKey(job.key), encode_plan(*job.plan)).ok()) stats_.add(Counter::k_cache_disk_stores);
    job.plan.reset();
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
}

}  // namespace nax
