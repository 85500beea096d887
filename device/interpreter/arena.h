// Temporary memory of one thread: a bump allocator in scopes, so that the hot path never calls malloc once it is warm.
// Thread: thread_arena() gives each thread its own; never share one.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace nax {

class Arena {
 public:
  // Memory allocated inside a scope is given back at its end; scopes nest.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), chunk_(arena.chunk_), used_(arena.used_) {}
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t chunk_, used_;
  };

  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // 64-byte aligned, undefined contents, valid until the innermost scope ends.
  char* allocate(size_t bytes);
  template <class T>
  T* allocate_array(size_t n) {
    return reinterpret_cast<T*>(allocate(n * sizeof(T)));
  }

 private:
  struct Free {
    void operator()(char* p) const;
  };
  struct Chunk {
    std::unique_ptr<char, Free> data;
    size_t size = 0;
  };
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0;  // index of the chunk in use
  size_t used_ = 0;   // bytes of it
};

Arena& thread_arena();

}  // namespace nax
