// Small tensors over a runtime of its own, for tests: fp32 unless said otherwise, contiguous unless viewed.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "device/base/dtype.h"
#include "nax/nax.h"
#include "runtime/buffer.h"
#include "runtime/executor.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

namespace nax::test {

inline void check_ok(const Status& status) {
  INFO(std::string(status.message()));
  REQUIRE(status.ok());
}

// A view by value with the buffer it lies in; copies share the buffer, and nobody but the test releases it.
struct Tensor {
  Buffer* buffer = nullptr;
  DType dtype = DType::kF32;
  std::vector<int64_t> sizes, strides;
  int64_t offset_bytes = 0;

  int64_t elements() const { return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()); }
  nax_operand operand() const {
    nax_operand o{};
    o.cls = NAX_TENSOR;
    o.dtype = static_cast<int32_t>(dtype);
    o.buffer = reinterpret_cast<nax_buffer*>(buffer);
    o.offset_bytes = offset_bytes;
    o.rank = static_cast<int32_t>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), o.sizes);
    std::copy(strides.begin(), strides.end(), o.strides);
    return o;
  }
  Tensor slice(int64_t begin, int64_t end) const {  // along dimension 0
    Tensor t = *this;
    t.offset_bytes += begin * strides[0] * static_cast<int64_t>(dtype_size(dtype));
    t.sizes[0] = end - begin;
    return t;
  }
};

inline nax_operand scalar(double value) {
  nax_operand o{};
  o.cls = NAX_SCALAR;
  o.scalar.kind = 0;
  o.scalar.value.f64 = value;
  return o;
}
inline nax_operand integer(int64_t value) {
  nax_operand o{};
  o.cls = NAX_SCALAR;
  o.scalar.kind = 1;
  o.scalar.value.i64 = value;
  return o;
}

inline Settings quiet_settings(Mode mode) {
  Settings s;
  s.mode = mode;
  s.hbm_bytes = uint64_t{1} << 30;
  s.cache_dir.clear();
  s.tier = Tier::kInterpret;
  return s;
}

class Device {
 public:
  explicit Device(Mode mode) : Device(quiet_settings(mode)) {}
  explicit Device(const Settings& settings) {
    auto created = Runtime::create(settings);
    INFO(std::string(created.status().message()));
    REQUIRE(created.ok());
    runtime_ = std::move(created).value();
  }
  Runtime& operator*() { return *runtime_; }
  Runtime* operator->() { return runtime_.get(); }
  Stream& stream() { return runtime_->default_stream(); }

  Tensor empty(std::vector<int64_t> sizes, DType dtype = DType::kF32, Stream* stream = nullptr) {
    Tensor t;
    t.dtype = dtype;
    t.sizes = std::move(sizes);
    t.strides.assign(t.sizes.size(), 1);
    for (size_t d = t.sizes.size(); d-- > 1;) t.strides[d - 1] = t.strides[d] * t.sizes[d];
    auto buffer = runtime_->create_buffer(stream, static_cast<uint64_t>(t.elements()) * dtype_size(dtype));
    INFO(std::string(buffer.status().message()));
    REQUIRE(buffer.ok());
    t.buffer = *buffer;
    return t;
  }
  template <class T>
  Tensor tensor(const std::vector<T>& values, std::vector<int64_t> sizes, DType dtype) {
    Tensor t = empty(std::move(sizes), dtype);
    check_ok(runtime_->write(stream(), *t.buffer, 0, values.data(), values.size() * sizeof(T)));
    return t;
  }
  Tensor tensor(const std::vector<float>& values, std::vector<int64_t> sizes) {
    return tensor<float>(values, std::move(sizes), DType::kF32);
  }
  Tensor indices(const std::vector<int64_t>& values) {
    return tensor<int64_t>(values, {static_cast<int64_t>(values.size())}, DType::kI64);
  }
  void release(const Tensor& t) { t.buffer->release_handle(); }

  Status record(OpId id, std::vector<nax_operand> inputs, std::vector<nax_operand> outputs, std::vector<int64_t> attrs = {},
                Stream* on = nullptr, uint64_t origin = 0) {
    nax_op op{};
    op.struct_size = sizeof op;
    op.id = static_cast<uint32_t>(id);
    op.input_count = static_cast<uint32_t>(inputs.size());
    op.output_count = static_cast<uint32_t>(outputs.size());
    op.attr_count = static_cast<uint32_t>(attrs.size());
    op.inputs = inputs.data();
    op.outputs = outputs.data();
    op.attrs = attrs.data();
    op.origin = origin;
    return (on ? *on : stream()).record(op);
  }
  void add(const Tensor& a, const Tensor& b, const Tensor& out, double alpha = 1, Stream* on = nullptr) {
    check_ok(record(OpId::k_add, {a.operand(), b.operand(), scalar(alpha)}, {out.operand()}, {}, on));
  }
  void mul(const Tensor& a, double by, const Tensor& out, Stream* on = nullptr) {
    check_ok(record(OpId::k_mul, {a.operand(), scalar(by)}, {out.operand()}, {}, on));
  }

  StatusOr<std::vector<float>> try_read(const Tensor& t) {
    std::vector<float> out(static_cast<size_t>(t.elements()));
    NAX_RETURN_IF_ERROR(runtime_->read(stream(), *t.buffer, static_cast<uint64_t>(t.offset_bytes), out.data(), out.size() * 4));
    return out;
  }
  std::vector<float> read(const Tensor& t) {
    auto values = try_read(t);
    INFO(std::string(values.status().message()));
    REQUIRE(values.ok());
    return *values;
  }
  std::map<std::string, double> stats() {
    std::map<std::string, double> out;
    runtime_->visit_stats([&](const char* key, double value) { out[key] = value; });
    return out;
  }
  double stat(const std::string& key) {
    const auto all = stats();
    INFO(key);
    REQUIRE(all.count(key) == 1);
    return all.at(key);
  }

 private:
  std::unique_ptr<Runtime> runtime_;
};

inline std::vector<float> iota(int64_t n, float first = 0, float step = 1) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = first + step * static_cast<float>(i);
  return v;
}

}  // namespace nax::test
