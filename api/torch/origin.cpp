#include "api/torch/origin.h"

#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace nax::binding {
namespace {

constexpr size_t kMaxCodes = 1 << 14;
constexpr size_t kMaxOrigins = 1 << 16;
constexpr int kMaxDepth = 48;

// A code object that is kept alive, with what an error message says of it.
struct Code {
  PyCodeObject* code;
  std::string file, function;
  bool library;  // of torch or of this package: not where the user's program stands
};

struct Origin {
  const Code* code;
  int instruction;
};

struct Tables {
  std::mutex mutex;
  std::unordered_map<PyCodeObject*, Code*> codes;
  std::vector<Origin> origins{{nullptr, 0}};
  std::unordered_map<const void*, uint32_t> origin_of;  // by instruction address
  // Lock-free front of `codes`: open addressing, entries are only ever added.
  std::array<std::atomic<Code*>, kMaxCodes * 2> seen{};
};

Tables& tables() {
  static auto* one = new Tables();
  return *one;
}

size_t slot_of(const void* address) {
  return (reinterpret_cast<uintptr_t>(address) >> 4) * 0x9E3779B97F4A7C15ull >> 49;
}
static_assert(kMaxCodes * 2 == size_t(1) << 15);

const Code* find_code(PyCodeObject* code) {
  Tables& t = tables();
  for (size_t i = slot_of(code);; i = (i + 1) % t.seen.size()) {
    const Code* c = t.seen[i].load(std::memory_order_acquire);
    if (c == nullptr || c->code == code) return c;
  }
}

std::string utf8(PyObject* text) {
  const char* s = text != nullptr ? PyUnicode_AsUTF8(text) : nullptr;
  if (s == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return s;
}

bool is_library(const std::string& file) {
  for (const char* part : {"/torch/", "/torch_nax/", "<frozen ", "/contextlib.py"}) {
    if (file.find(part) != std::string::npos) return true;
  }
  return false;
}

const Code* add_code(PyCodeObject* code) {
  if (!Py_IsInitialized() || _Py_IsFinalizing()) return nullptr;
  const PyGILState_STATE gil = PyGILState_Ensure();
  Tables& t = tables();
  const Code* result = nullptr;
  {
    std::lock_guard lock(t.mutex);  // nothing below waits or runs Python code
    auto found = t.codes.find(code);
    if (found != t.codes.end()) {
      result = found->second;
    } else if (t.codes.size() < kMaxCodes) {
      Py_INCREF(code);
      std::string file = utf8(code->co_filename);
      const bool library = is_library(file);
      auto* made = new Code{code, std::move(file), utf8(code->co_name), library};
      t.codes.emplace(code, made);
      size_t i = slot_of(code);
      while (t.seen[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) % t.seen.size();
      t.seen[i].store(made, std::memory_order_release);
      result = made;
    }
  }
  PyGILState_Release(gil);
  return result;
}

struct CacheEntry {
  const void* instruction;
  uint32_t origin;
};
thread_local std::array<CacheEntry, 256> cache{};

uint32_t intern(const Code* code, const _PyInterpreterFrame* frame) {
  const void* at = frame->prev_instr;
  CacheEntry& entry = cache[(reinterpret_cast<uintptr_t>(at) >> 1) & 255];
  if (entry.instruction == at) return entry.origin;
  Tables& t = tables();
  std::lock_guard lock(t.mutex);
  auto [found, fresh] = t.origin_of.try_emplace(at, 0);
  if (fresh && t.origins.size() < kMaxOrigins) {
    found->second = static_cast<uint32_t>(t.origins.size());
    t.origins.push_back({code, _PyInterpreterFrame_LASTI(frame)});
  }
  entry = {at, found->second};
  return found->second;
}

// Of the first frame of the user, outward from the innermost.
uint32_t origin_of_frames(const _PyInterpreterFrame* frame) {
  const _PyInterpreterFrame* innermost = nullptr;
  const Code* innermost_code = nullptr;
  for (int depth = 0; frame != nullptr && depth < kMaxDepth; ++depth, frame = frame->previous) {
    if (frame->f_code == nullptr) continue;
    const Code* code = find_code(frame->f_code);
    if (code == nullptr) code = add_code(frame->f_code);
    if (code == nullptr) continue;
    if (!code->library) return intern(code, frame);
    if (innermost == nullptr) {
      innermost = frame;
      innermost_code = code;
    }
  }
  return innermost != nullptr ? intern(innermost_code, innermost) : 0;
}

// Forward origins by autograd sequence number, so that backward nodes can name their forward's line. A ring: old steps
// are overwritten; a clash between threads costs a wrong line in a message, nothing else.
constexpr size_t kRing = 1 << 14;
constexpr int kOriginBits = 20;
std::array<std::atomic<uint64_t>, kRing> by_sequence{};

void remember_forward(uint32_t origin) {
  const uint64_t next = at::sequence_number::peek();
  if (next == 0) return;
  const uint64_t sequence = next - 1;
  by_sequence[sequence % kRing].store(sequence << kOriginBits | origin, std::memory_order_relaxed);
}

uint32_t origin_of_forward() {
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return 0;
  const uint64_t sequence = node->sequence_nr();
  const uint64_t word = by_sequence[sequence % kRing].load(std::memory_order_relaxed);
  return word >> kOriginBits == sequence ? word & ((1u << kOriginBits) - 1) : 0;
}

}  // namespace

uint64_t current_origin() {
  const PyThreadState* thread = PyGILState_GetThisThreadState();
  const _PyInterpreterFrame* frame =
      thread != nullptr && thread->cframe != nullptr ? thread->cframe->current_frame : nullptr;
  if (frame == nullptr) return origin_of_forward();
  const uint32_t origin = origin_of_frames(frame);
  if (origin != 0 && c10::GradMode::is_enabled()) remember_forward(origin);
  return origin;
}

void resolve_origin(void* /*user*/, uint64_t origin, char* out_text, size_t size) {
  Tables& t = tables();
  std::lock_guard lock(t.mutex);
  if (origin == 0 || origin >= t.origins.size()) {
    std::snprintf(out_text, size, "an unknown line");
    return;
  }
  const Origin& o = t.origins[origin];
  const int line = PyCode_Addr2Line(o.code->code, o.instruction * int(sizeof(_Py_CODEUNIT)));
  std::snprintf(out_text, size, "%s:%d in %s", o.code->file.c_str(), line, o.code->function.c_str());
}

}  // namespace nax::binding
