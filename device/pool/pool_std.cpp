#ifdef NAX_POOL_STD

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "device/pool/pool_fork.h"
#include "device/pool/pool_impl.h"

namespace nax::pool_detail {

// Loops wait in a queue; every thread takes the next range of the first loop that has one left. A
// loop lives on its caller's stack: the caller leaves only when all its ranges have run, and all
// bookkeeping is under the mutex.
struct Workers::Impl {
  struct Loop {
    const Split& split;
    ThreadPool::Body body;
    int64_t next = 0;
    int64_t done = 0;
    std::condition_variable finished;
  };

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      wanted.wait(lock, [&] { return stopping || !loops.empty(); });
      if (loops.empty()) return;
      step(*loops.front(), lock);
    }
  }

  // Runs one range with the lock released.
  void step(Loop& loop, std::unique_lock<std::mutex>& lock) {
    const int64_t task = loop.next++;
    if (loop.next == loop.split.tasks) std::erase(loops, &loop);
    lock.unlock();
    {
      RegionScope scope;
      loop.body(loop.split.begin(task), loop.split.end(task));
    }
    lock.lock();
    if (++loop.done == loop.split.tasks) loop.finished.notify_one();
  }

  std::mutex mutex;
  std::condition_variable wanted;
  std::deque<Loop*> loops;
  bool stopping = false;
  std::vector<std::thread> started;
};

Workers::Workers(int threads)
    : threads_(threads), fork_generation_(fork_generation()), impl_(new Impl) {
  for (int i = 1; i < threads; ++i)
    impl_->started.emplace_back([impl = impl_.get()] { impl->work(); });
}

Workers::~Workers() {
  if (!alive()) {
    (void)impl_.release();  // a child cannot join its parent's threads
    return;
  }
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wanted.notify_all();
  for (std::thread& t : impl_->started) t.join();
}

bool Workers::alive() const { return fork_generation_ == fork_generation(); }

void Workers::run(const Split& split, ThreadPool::Body body) {
  Impl::Loop loop{split, body, 0, 0, {}};
  std::unique_lock lock(impl_->mutex);
  impl_->loops.push_back(&loop);
  impl_->wanted.notify_all();
  while (loop.next < split.tasks) impl_->step(loop, lock);
  loop.finished.wait(lock, [&] { return loop.done == split.tasks; });
}

}  // namespace nax::pool_detail

#endif  // NAX_POOL_STD
