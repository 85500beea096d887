#include "device/pool/pool.h"

#include <sched.h>

#include <thread>
#include <utility>

#include "device/pool/pool_impl.h"

namespace nax {
namespace pool_detail {
namespace {
thread_local bool t_in_region = false;
}

RegionScope::RegionScope() : outer_(std::exchange(t_in_region, true)) {}
RegionScope::~RegionScope() { t_in_region = outer_; }

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace pool_detail

using pool_detail::Workers;

ThreadPool::ThreadPool(int threads)
    : threads_(threads > 0 ? threads : pool_detail::available_processors()) {}

ThreadPool::~ThreadPool() = default;

ThreadPool& ThreadPool::process_pool() {
  static ThreadPool* pool = new ThreadPool();  // leaked on purpose
  return *pool;
}

bool ThreadPool::in_parallel_region() { return pool_detail::t_in_region; }

void ThreadPool::set_threads(int threads) {
  if (threads <= 0) threads = pool_detail::available_processors();
  std::shared_ptr<Workers> old;  // its threads are joined after the lock is released
  std::lock_guard lock(mutex_);
  threads_ = threads;
  if (workers_ && workers_->alive() && workers_->threads() != threads) old = std::move(workers_);
}

int ThreadPool::threads() const {
  std::lock_guard lock(mutex_);
  return workers_ && !workers_->alive() ? 1 : threads_;
}

std::shared_ptr<Workers> ThreadPool::workers() {
  std::lock_guard lock(mutex_);
  if (!workers_) {
    if (threads_ <= 1) return nullptr;
    workers_ = std::make_shared<Workers>(threads_);
  }
  return workers_->alive() ? workers_ : nullptr;
}

void ThreadPool::parallel_for(int64_t n, int64_t grain, Body body) {
  if (n <= 0) return;
  if (n <= grain || in_parallel_region()) return body(0, n);
  const std::shared_ptr<Workers> workers = this->workers();
  if (!workers) return body(0, n);
  workers->run(pool_detail::Split(n, grain, workers->threads()), body);
}

}  // namespace nax
