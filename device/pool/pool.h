// The engine's worker threads: one pool per process, so that programs of several cores and streams
// share the host. The TBB build uses one task arena; NAX_POOL_STD selects a std::thread
// implementation behind the same interface (thread sanitizer builds, where TBB's own
// synchronisation is invisible).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "device/base/function_ref.h"

namespace nax {
namespace pool_detail {
class Workers;
}

class ThreadPool {
 public:
  // `threads` counts the calling thread; <= 0 means one per processor this process may run on.
  // No thread starts before the first parallel_for that wants one.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Lives until the process ends: never destroyed, so no order of exit can hurt it.
  static ThreadPool& process_pool();

  // Any thread, at any time; loops already running keep the threads they started with. <= 0 as in
  // the constructor.
  void set_threads(int threads);
  // 1 in a forked child whose parent had started the workers: threads do not survive a fork.
  int threads() const;

  using Body = FunctionRef<void(int64_t begin, int64_t end)>;
  // Calls body on disjoint ranges that cover [0, n); each begin is a multiple of `grain` and each
  // range but the last is a multiple of it long. Returns when all have run. Runs inline, as one
  // call, when n <= grain, when there is one thread, or inside another parallel_for. While it
  // waits, the caller works on its own loop only, and holds no lock. Any thread, several at once.
  // Body must not throw. What body wrote is visible to the caller afterwards.
  void parallel_for(int64_t n, int64_t grain, Body body);

  // Is the calling thread inside a body of any pool's parallel_for that was split?
  static bool in_parallel_region();

 private:
  std::shared_ptr<pool_detail::Workers> workers();  // null: run inline

  mutable std::mutex mutex_;  // guards the two below, never held while a loop runs
  std::shared_ptr<pool_detail::Workers> workers_;  // null until wanted
  int threads_;
};

}  // namespace nax
