// C++17 over the C API: ownership by scope, statuses as exceptions. Header only; sees nothing but nax/nax.h.
// Threads as in the C API; objects of this header belong to one thread at a time.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nax/nax.h"

namespace nax::cpp {

class Error : public std::runtime_error {
 public:
  explicit Error(nax_status* status)
      : std::runtime_error(nax_status_message(status)), code_(nax_status_code(status)), reason_(nax_status_reason(status)) {}
  nax_code code() const { return code_; }
  nax_reason reason() const { return reason_; }

 private:
  nax_code code_;
  nax_reason reason_;
};

// Throws what a status says; nothing for NULL.
inline void check(nax_status* status) {
  if (!status) return;
  const std::unique_ptr<nax_status, void (*)(nax_status*)> owner(status, nax_status_destroy);
  throw Error(status);
}

namespace detail {
struct Release {
  void operator()(nax_runtime* p) const { nax_runtime_destroy(p); }
  void operator()(nax_buffer* p) const { nax_buffer_release(p); }
  void operator()(nax_program* p) const { nax_program_destroy(p); }
  void operator()(nax_event* p) const { nax_event_destroy(p); }
  void operator()(nax_stream* p) const { nax_stream_destroy(p); }
};
template <class T>
using Handle = std::unique_ptr<T, Release>;
}  // namespace detail

inline nax_operand number(double value) {
  nax_operand s{};
  s.cls = NAX_SCALAR;
  s.scalar.value.f64 = value;
  return s;
}

class Runtime;

// A contiguous tensor that owns its buffer.
class Tensor {
 public:
  const nax_operand& operand() const { return operand_; }
  operator const nax_operand&() const { return operand_; }
  nax_buffer* buffer() const { return buffer_.get(); }
  int64_t elements() const {
    int64_t n = 1;
    for (int32_t d = 0; d < operand_.rank; ++d) n *= operand_.sizes[d];
    return n;
  }

 private:
  friend class Runtime;
  nax_operand operand_{};
  detail::Handle<nax_buffer> buffer_;
};

class Runtime {
 public:
  // Fields that are zero take the environment's value, then the default.
  explicit Runtime(nax_runtime_options options = {}) {
    options.struct_size = sizeof options;
    options.abi_version = NAX_ABI_VERSION;
    nax_runtime* runtime = nullptr;
    check(nax_runtime_create(&options, &runtime));
    handle_.reset(runtime);
  }
  nax_runtime* get() const { return handle_.get(); }
  nax_stream* default_stream() const { return nax_runtime_default_stream(get()); }

  Tensor empty(const std::vector<int64_t>& sizes, nax_dtype dtype, uint64_t element_bytes) const {
    if (sizes.size() > NAX_MAX_RANK) throw std::invalid_argument("at most NAX_MAX_RANK dimensions");
    Tensor t;
    nax_operand& o = t.operand_;
    o.cls = NAX_TENSOR;
    o.dtype = dtype;
    o.rank = static_cast<int32_t>(sizes.size());
    int64_t step = 1;
    for (int32_t d = o.rank - 1; d >= 0; --d) {
      o.sizes[d] = sizes[static_cast<size_t>(d)];
      o.strides[d] = step;
      step *= o.sizes[d];
    }
    check(nax_buffer_create(get(), default_stream(), static_cast<uint64_t>(step) * element_bytes, &o.buffer));
    t.buffer_.reset(o.buffer);
    return t;
  }
  Tensor empty(const std::vector<int64_t>& sizes) const { return empty(sizes, NAX_F32, sizeof(float)); }
  Tensor tensor(const std::vector<int64_t>& sizes, const std::vector<float>& values) const {
    Tensor t = empty(sizes);
    if (static_cast<int64_t>(values.size()) != t.elements()) throw std::invalid_argument("sizes and values do not agree");
    check(nax_buffer_write(default_stream(), t.buffer(), 0, values.data(), values.size() * sizeof(float)));
    return t;
  }
  std::vector<float> read(const Tensor& t) const {
    std::vector<float> values(static_cast<size_t>(t.elements()));
    check(nax_buffer_read(default_stream(), t.buffer(), 0, values.data(), values.size() * sizeof(float)));
    return values;
  }

  void record(nax_op_id id, std::initializer_list<nax_operand> inputs, std::initializer_list<nax_operand> outputs,
              std::initializer_list<int64_t> attrs = {}) const {
    nax_op op{};
    op.struct_size = sizeof op;
    op.id = id;
    op.inputs = inputs.begin();
    op.input_count = static_cast<uint32_t>(inputs.size());
    op.outputs = outputs.begin();
    op.output_count = static_cast<uint32_t>(outputs.size());
    op.attrs = attrs.begin();
    op.attr_count = static_cast<uint32_t>(attrs.size());
    check(nax_stream_record(default_stream(), &op));
  }
  void synchronize() const { check(nax_runtime_synchronize(get())); }
  std::map<std::string, double> stats() const {
    std::map<std::string, double> all;
    check(nax_runtime_visit_stats(
        get(), [](void* user, const char* key, double value) { (*static_cast<std::map<std::string, double>*>(user))[key] = value; },
        &all));
    return all;
  }

 private:
  detail::Handle<nax_runtime> handle_;
};

// An engine program from its text form.
class Program {
 public:
  explicit Program(const std::string& text) {
    nax_program* program = nullptr;
    check(nax_program_parse(text.data(), text.size(), &program));
    handle_.reset(program);
  }
  void verify(const char* target = nullptr) const { check(nax_program_verify(handle_.get(), target)); }
  std::string text() const {
    size_t needed = 0;
    check(nax_program_text(handle_.get(), nullptr, 0, &needed));
    std::string out(needed + 1, '\0');
    check(nax_program_text(handle_.get(), out.data(), out.size(), nullptr));
    out.resize(needed);
    return out;
  }
  void launch(nax_stream* stream, const std::vector<nax_operand>& operands) const {
    check(nax_stream_launch(stream, handle_.get(), operands.data(), static_cast<uint32_t>(operands.size())));
  }
  double time_ns(const std::vector<nax_operand>& operands, const char* target = nullptr) const {
    double ns = 0;
    check(nax_program_time_ns(handle_.get(), target, operands.data(), static_cast<uint32_t>(operands.size()), &ns));
    return ns;
  }

 private:
  detail::Handle<nax_program> handle_;
};

}  // namespace nax::cpp
