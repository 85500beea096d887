// An event: a point in a stream's order, with the emulated time at which it was reached.
// Thread-safe. Recording again replaces the point; whoever waits for the old one still does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "device/base/status.h"
#include "runtime/device_clock.h"

namespace nax {

class Runtime;
class Stream;

class Event {
 public:
  explicit Event(Runtime& runtime) : runtime_(runtime) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  Runtime& runtime() const { return runtime_; }
  Status record(Stream& stream);      // cuts the stream's window
  Status block(Stream& stream);       // later work of the stream waits for the event; no effect where it was never recorded
  bool reached() const;               // also true where it was never recorded
  Status synchronize();
  // Emulated time from this event to a later one; waits for both.
  StatusOr<double> elapsed_ns(Event& end);

 private:
  struct Point {
    std::atomic<uint64_t> ticket{0};
    std::shared_ptr<ClockMark> mark = std::make_shared<ClockMark>();
  };
  struct MarkWork;
  struct WaitWork;
  std::shared_ptr<Point> point() const;

  Runtime& runtime_;
  mutable std::mutex mutex_;
  std::shared_ptr<Point> point_;
};

}  // namespace nax
