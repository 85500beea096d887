#include "runtime/event.h"

#include "runtime/executor.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

namespace nax {

// Where the event stands in the queue.
struct Event::MarkWork final : HardwareQueue::Work {
  MarkWork(Stream& s, std::shared_ptr<Point> p) : stream(s), point(std::move(p)) { stream.ref(); }
  void run() override {
    stream.runtime().executor().clock().mark(stream, point->mark);
    stream.unref();
    delete this;
  }
  Stream& stream;
  std::shared_ptr<Point> point;
};

// The edge to another stream. The one queue has the order; what is left to do is the clock.
struct Event::WaitWork final : HardwareQueue::Work {
  WaitWork(Stream& s, std::shared_ptr<Point> p) : stream(s), point(std::move(p)) { stream.ref(); }
  void run() override {
    stream.runtime().executor().clock().wait(stream, point->mark);
    stream.unref();
    delete this;
  }
  Stream& stream;
  std::shared_ptr<Point> point;
};

std::shared_ptr<Event::Point> Event::point() const {
  std::lock_guard lock(mutex_);
  return point_;
}

Status Event::record(Stream& stream) {
  NAX_RETURN_IF_ERROR(runtime_.enter());
  auto point = std::make_shared<Point>();
  stream.push(new MarkWork(stream, point), CutReason::k_event, HardwareQueue::Start::kNow,
              [&](uint64_t ticket) { point->ticket.store(ticket, std::memory_order_release); });
  std::lock_guard lock(mutex_);
  point_ = std::move(point);
  return {};
}

Status Event::block(Stream& stream) {
  NAX_RETURN_IF_ERROR(runtime_.enter());
  if (std::shared_ptr<Point> p = point())
    stream.push(new WaitWork(stream, std::move(p)), CutReason::k_event, HardwareQueue::Start::kNow, [](uint64_t) {});
  return {};
}

bool Event::reached() const {
  const std::shared_ptr<Point> p = point();
  return !p || runtime_.queue().done(p->ticket.load(std::memory_order_acquire));
}

Status Event::synchronize() {
  NAX_RETURN_IF_ERROR(runtime_.enter());
  if (const std::shared_ptr<Point> p = point()) return runtime_.wait(p->ticket.load(std::memory_order_acquire));
  return {};
}

StatusOr<double> Event::elapsed_ns(Event& end) {
  const std::shared_ptr<Point> a = point(), b = end.point();
  if (!a || !b)
    return Status(StatusCode::kFailedPrecondition, "elapsed time needs two events that were recorded");
  if (&runtime_ != &end.runtime_) return invalid_argument("the events belong to different runtimes");
  NAX_RETURN_IF_ERROR(synchronize());
  NAX_RETURN_IF_ERROR(end.synchronize());
  DeviceClock& clock = runtime_.executor().clock();
  return clock.read_ns(*b->mark) - clock.read_ns(*a->mark);
}

}  // namespace nax
