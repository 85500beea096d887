#include "device/interpreter/arena.h"

#include <algorithm>
#include <new>

namespace nax {
namespace {

constexpr size_t kAlign = 64;
constexpr size_t kFirstChunk = size_t{256} << 10;
constexpr size_t kKept = size_t{64} << 20;  // an idle thread keeps at most about this much

}  // namespace

void Arena::Free::operator()(char* p) const { ::operator delete(p, std::align_val_t{kAlign}); }

char* Arena::allocate(size_t bytes) {
  bytes = (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
  while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].size) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    Chunk c;
    c.size = std::max(bytes, chunks_.empty() ? kFirstChunk : chunks_.back().size * 2);
    c.data.reset(static_cast<char*>(::operator new(c.size, std::align_val_t{kAlign})));
    chunks_.push_back(std::move(c));
    used_ = 0;
  }
  char* p = chunks_[chunk_].data.get() + used_;
  used_ += bytes;
  return p;
}

Arena::Scope::~Scope() {
  arena_.chunk_ = chunk_;
  arena_.used_ = used_;
  if (chunk_ != 0 || used_ != 0) return;
  size_t kept = 0;
  for (size_t i = 0; i < arena_.chunks_.size(); ++i) {
    kept += arena_.chunks_[i].size;
    if (kept <= kKept) continue;
    arena_.chunks_.resize(i);
    break;
  }
}

Arena& thread_arena() {
  thread_local Arena arena;
  return arena;
}

}  // namespace nax
