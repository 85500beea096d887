// Working memory of the calling thread that only grows: a matmul allocates nothing once it has seen
// its sizes.
#pragma once

#include <cstddef>

namespace nax::matmul_detail {

// Borrows the thread's buffer number `slot` (0 or 1) for the scope's life. Nested use of a slot (an
// eviction that itself multiplies) gets memory of its own. 64-byte aligned, contents undefined.
class Scratch {
 public:
  Scratch(int slot, size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }

 private:
  void* data_;
  int slot_;  // -1: own memory
};

}  // namespace nax::matmul_detail
