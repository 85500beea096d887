#include "device/scalar/strip.h"

#include <bit>
#include <cstring>
#include <limits>

#include "device/scalar/strip_tables.h"

namespace nax {
namespace {

bool wide(HostIsa isa) { return isa != HostIsa::kAvx2; }  // AMX machines have AVX-512

template <class Table>
const Table& pick(HostIsa isa, const Table& avx2, const Table& avx512) {
  return wide(isa) ? avx512 : avx2;
}
const MemoryTable& memory(HostIsa isa) { return pick(isa, kMemory_avx2, kMemory_avx512); }
const ReduceTable& reduce(HostIsa isa) { return pick(isa, kReduce_avx2, kReduce_avx512); }

int index(DType t) { return static_cast<int>(t); }
int index(Lane k) { return static_cast<int>(k); }
int index(ReduceFn f) { return static_cast<int>(f); }
bool known(DType t) { return index(t) < kDTypeCount; }

// -1 where lanes of `out` are not F32 or I32.
int round_index(DType out) {
  switch (out) {
    case DType::kF32: return kRoundNone;
    case DType::kBF16: return kRoundBF16;
    case DType::kF16: return kRoundF16;
    case DType::kI32: return kRoundNone;
    case DType::kI16: return kRoundI16;
    case DType::kI8: return kRoundI8;
    case DType::kU8: return kRoundU8;
    case DType::kBool: return kRoundBool;
    default: return -1;
  }
}

}  // namespace

StripFn strip_fn(HostIsa isa, ScalarOp op, Lane lane, unsigned form, DType out) {
  const ScalarOpInfo& info = scalar_op_info(op);
  if (info.name.empty() || !info.allows(lane) || form >= kFormCount || !is_computable(out)) return nullptr;
  const int number = static_cast<int>(op);
  if (info.result == ScalarResult::kBool) {
    if (out != DType::kBool) return nullptr;
  } else if (lane_of(out) != lane) {
    return nullptr;
  }
  switch (lane) {
    case Lane::kF64: return pick(isa, kStripF64_avx2, kStripF64_avx512).fn[number][form];
    case Lane::kI64: return pick(isa, kStripI64_avx2, kStripI64_avx512).fn[number][form];
    case Lane::kI32: return pick(isa, kStripI32_avx2, kStripI32_avx512).fn[number][form][round_index(out)];
    case Lane::kF32: {
      const int round = info.result == ScalarResult::kBool ? kRoundNone : round_index(out);
      return pick(isa, kStripF32_avx2, kStripF32_avx512).fn[number][form][round];
    }
  }
  return nullptr;
}

LoadFn load_fn(HostIsa isa, DType dtype) { return known(dtype) ? memory(isa).load[index(dtype)] : nullptr; }
StoreFn store_fn(HostIsa isa, DType dtype) { return known(dtype) ? memory(isa).store[index(dtype)] : nullptr; }
RoundFn round_fn(HostIsa isa, DType dtype) { return known(dtype) ? memory(isa).round[index(dtype)] : nullptr; }
CastFn cast_fn(HostIsa isa, Lane from, DType to) {
  return known(to) ? memory(isa).cast[index(from)][index(to)] : nullptr;
}

void scalar_to_lane(const ScalarValue& value, DType dtype, void* out) {
  // Through the cast of the scalar's own type, as a tensor of that type would be cast. The baseline's table: bits are equal.
  if (value.kind == ScalarValue::Kind::kF64)
    cast_fn(HostIsa::kAvx2, Lane::kF64, dtype)(out, &value.f64, 1);
  else
    cast_fn(HostIsa::kAvx2, Lane::kI64, dtype)(out, &value.i64, 1);
}

void fill_lanes(Lane lane, void* dst, const void* value, int64_t n) {
  if (lane_size(lane) == 4) {
    uint32_t x;
    std::memcpy(&x, value, 4);
    auto* out = static_cast<uint32_t*>(dst);
    for (int64_t i = 0; i < n; ++i) out[i] = x;
  } else {
    uint64_t x;
    std::memcpy(&x, value, 8);
    auto* out = static_cast<uint64_t*>(dst);
    for (int64_t i = 0; i < n; ++i) out[i] = x;
  }
}

namespace {

template <class T>
T identity_of(ReduceFn fn) {
  using Limits = std::numeric_limits<T>;
  switch (fn) {
    case ReduceFn::kSum:
    case ReduceFn::kAny: return T(0);
    case ReduceFn::kProd:
    case ReduceFn::kAll: return T(1);
    case ReduceFn::kMax: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ReduceFn::kMin: return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  return T(0);
}
template <class T>
void write_identity(ReduceFn fn, void* out) {
  const T value = identity_of<T>(fn);
  std::memcpy(out, &value, sizeof(T));
}

}  // namespace

void reduce_identity(ReduceFn fn, Lane lane, void* out) {
  switch (lane) {
    case Lane::kF32: return write_identity<float>(fn, out);
    case Lane::kF64: return write_identity<double>(fn, out);
    case Lane::kI64: return write_identity<int64_t>(fn, out);
    case Lane::kI32: return write_identity<int32_t>(fn, out);
  }
}

RowReduceFn row_reduce_fn(HostIsa isa, ReduceFn fn, Lane lane) { return reduce(isa).row[index(fn)][index(lane)]; }
ColumnReduceFn column_reduce_fn(HostIsa isa, ReduceFn fn, Lane lane) {
  return reduce(isa).column[index(fn)][index(lane)];
}
CombineFn combine_fn(HostIsa isa, ReduceFn fn, Lane lane) { return reduce(isa).combine[index(fn)][index(lane)]; }
ScanFn scan_fn(HostIsa isa, ReduceFn fn, Lane lane) { return reduce(isa).scan[index(fn)][index(lane)]; }

TreeReducer::TreeReducer(HostIsa isa, ReduceFn fn, Lane lane) : combine_(combine_fn(isa, fn, lane)), fn_(fn), lane_(lane) {}

// A binary counter: level i holds the result of 2^i neighbours that wait for their right-hand partner.
void TreeReducer::push(const void* value) {
  uint64_t carry = 0;
  std::memcpy(&carry, value, lane_size(lane_));
  int level = 0;
  for (; (count_ >> level) & 1; ++level) {
    combine_(&levels_[level], &carry, 1);
    carry = levels_[level];
  }
  levels_[level] = carry;
  ++count_;
}

void TreeReducer::push_strip(const void* values, int64_t n) {
  const auto* p = static_cast<const char*>(values);
  for (int64_t i = 0; i < n; ++i) push(p + i * static_cast<int64_t>(lane_size(lane_)));
}

void TreeReducer::finish(void* out) {
  if (count_ == 0) return reduce_identity(fn_, lane_, out);
  int level = std::countr_zero(count_);
  uint64_t right = levels_[level];
  for (++level; (count_ >> level) != 0; ++level) {
    if (!((count_ >> level) & 1)) continue;
    combine_(&levels_[level], &right, 1);
    right = levels_[level];
  }
  std::memcpy(out, &right, lane_size(lane_));
  count_ = 0;
}

}  // namespace nax
