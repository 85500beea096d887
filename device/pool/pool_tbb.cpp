#ifndef NAX_POOL_STD

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <optional>

#include "device/pool/pool_fork.h"
#include "device/pool/pool_impl.h"

namespace nax::pool_detail {

struct Workers::Impl {
  std::optional<tbb::global_control> limit;
  tbb::task_arena arena;
};

Workers::Workers(int threads)
    : threads_(threads), fork_generation_(fork_generation()), impl_(new Impl) {
  // TBB never runs more workers than processors unless this raises its limit.
  if (threads > available_processors())
    impl_->limit.emplace(tbb::global_control::max_allowed_parallelism, threads);
  impl_->arena.initialize(threads);
}

Workers::~Workers() {
  if (!alive())
    (void)impl_.release();  // the child's copy of the scheduler believes in threads that are gone
}

bool Workers::alive() const { return fork_generation_ == fork_generation(); }

void Workers::run(const Split& split, ThreadPool::Body body) {
  impl_->arena.execute([&] {
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(
          tbb::blocked_range<int64_t>(0, split.tasks, 1),
          [&](const tbb::blocked_range<int64_t>& range) {
            RegionScope scope;
            for (int64_t t = range.begin(); t < range.end(); ++t)
              body(split.begin(t), split.end(t));
          },
          tbb::simple_partitioner());
    });
  });
}

}  // namespace nax::pool_detail

#endif  // NAX_POOL_STD
