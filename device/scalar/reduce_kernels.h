// Reductions in the fixed orders of DESIGN I2. Compiled once an ISA.
#include <type_traits>

#include "device/scalar/strip_kernels.h"

namespace nax {
namespace {

template <ReduceFn Fn, class T>
inline T identity() {
  constexpr bool kFloat = Scalar<T>::kIsFloat;
  constexpr T kHighest = kFloat ? static_cast<T>(__builtin_inf())
                                : static_cast<T>(sizeof(T) == 8 ? INT64_MAX : int64_t{INT32_MAX});
  if constexpr (Fn == ReduceFn::kSum || Fn == ReduceFn::kAny) return 0;
  else if constexpr (Fn == ReduceFn::kProd || Fn == ReduceFn::kAll) return 1;
  else if constexpr (Fn == ReduceFn::kMax) return kFloat ? -kHighest : -kHighest - 1;
  else return kHighest;
}

template <ReduceFn Fn, class T>
inline T combine_one(T a, T b) {
  return scalar::combine<Fn>(Scalar<T>{a}, Scalar<T>{b}).v;
}

// The 16 lanes of a chunk: lane i takes the elements i, i + 16, ... of it. fp32 uses vectors, other lanes an array that
// the compiler vectorises.
template <class T>
struct ChunkLanes {
  T lane[kRowLanes];
  template <ReduceFn Fn>
  void start() {
    for (T& x : lane) x = identity<Fn, T>();
  }
  template <ReduceFn Fn>
  void take(const T* x) {
    for (int l = 0; l < kRowLanes; ++l) lane[l] = combine_one<Fn>(lane[l], x[l]);
  }
  void write(T* out) const { memcpy(out, lane, sizeof(lane)); }
};
template <>
struct ChunkLanes<float> {
  static constexpr int kParts = kRowLanes / F32::kLanes;
  F32 part[kParts];
  template <ReduceFn Fn>
  void start() {
    for (F32& x : part) x = F32::lit(identity<Fn, float>());
  }
  template <ReduceFn Fn>
  void take(const float* x) {
    for (int p = 0; p < kParts; ++p) part[p] = scalar::combine<Fn>(part[p], F32::load(x + p * F32::kLanes));
  }
  void write(float* out) const {
    for (int p = 0; p < kParts; ++p) part[p].store(out + p * F32::kLanes);
  }
};

template <ReduceFn Fn, class T>
inline T halving_tree(T* lane) {
  for (int half = kRowLanes / 2; half >= 1; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] = combine_one<Fn>(lane[l], lane[l + half]);
  return lane[0];
}

template <ReduceFn Fn, class T>
void row_reduce(const void* src, int64_t n, void* accumulator) {
  const T* x = static_cast<const T*>(src);
  T total;
  memcpy(&total, accumulator, sizeof(T));
  alignas(64) T lane[kRowLanes];
  // Four chunks at a time: independent chains hide the latency of one.
  constexpr int kTogether = 4;
  for (; n >= kTogether * kRowChunk; n -= kTogether * kRowChunk, x += kTogether * kRowChunk) {
    ChunkLanes<T> chunk[kTogether];
    for (auto& c : chunk) c.template start<Fn>();
    for (int64_t i = 0; i < kRowChunk; i += kRowLanes)
      for (int c = 0; c < kTogether; ++c) chunk[c].template take<Fn>(x + c * kRowChunk + i);
    for (auto& c : chunk) {
      c.write(lane);
      total = combine_one<Fn>(total, halving_tree<Fn>(lane));
    }
  }
  while (n > 0) {
    const int64_t length = n < kRowChunk ? n : kRowChunk;
    ChunkLanes<T> chunk;
    chunk.template start<Fn>();
    int64_t i = 0;
    for (; i + kRowLanes <= length; i += kRowLanes) chunk.template take<Fn>(x + i);
    chunk.write(lane);
    for (int l = 0; i < length; ++i, ++l) lane[l] = combine_one<Fn>(lane[l], x[i]);
    total = combine_one<Fn>(total, halving_tree<Fn>(lane));
    n -= length;
    x += length;
  }
  memcpy(accumulator, &total, sizeof(T));
}

template <ReduceFn Fn, class T>
void column_reduce(const void* src, int64_t row_stride, int64_t rows, int64_t columns, void* accumulator) {
  const T* x = static_cast<const T*>(src);
  T* acc = static_cast<T*>(accumulator);
  int64_t j = 0;
  if constexpr (std::is_same_v<T, float>) {
    constexpr int kBlock = 4;  // vectors held in registers over the rows
    for (; j + kBlock * F32::kLanes <= columns; j += kBlock * F32::kLanes) {
      F32 sum[kBlock];
      for (int k = 0; k < kBlock; ++k) sum[k] = F32::load(acc + j + k * F32::kLanes);
      const float* row = x + j;
      for (int64_t r = 0; r < rows; ++r, row += row_stride)
        for (int k = 0; k < kBlock; ++k) sum[k] = scalar::combine<Fn>(sum[k], F32::load(row + k * F32::kLanes));
      for (int k = 0; k < kBlock; ++k) sum[k].store(acc + j + k * F32::kLanes);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * row_stride;
#pragma GCC ivdep
    for (int64_t k = j; k < columns; ++k) acc[k] = combine_one<Fn>(acc[k], row[k]);
  }
}

template <ReduceFn Fn, class T>
void combine_strip(void* accumulator, const void* x, int64_t n) {
  column_reduce<Fn, T>(x, 0, 1, n, accumulator);
}

template <ReduceFn Fn, class T>
void scan(void* dst, const void* src, int64_t n, void* accumulator) {
  T* out = static_cast<T*>(dst);
  const T* x = static_cast<const T*>(src);
  T total;
  memcpy(&total, accumulator, sizeof(T));
  for (int64_t i = 0; i < n; ++i) out[i] = total = combine_one<Fn>(total, x[i]);
  memcpy(accumulator, &total, sizeof(T));
}

template <ReduceFn Fn, class T>
constexpr void set_one(ReduceTable& table, Lane lane) {
  const int f = static_cast<int>(Fn), k = static_cast<int>(lane);
  table.row[f][k] = &row_reduce<Fn, T>;
  table.column[f][k] = &column_reduce<Fn, T>;
  table.combine[f][k] = &combine_strip<Fn, T>;
  table.scan[f][k] = &scan<Fn, T>;
}
template <ReduceFn Fn>
constexpr void set_lanes(ReduceTable& table) {
  set_one<Fn, int32_t>(table, Lane::kI32);
  if constexpr (Fn != ReduceFn::kAny && Fn != ReduceFn::kAll) {
    set_one<Fn, float>(table, Lane::kF32);
    set_one<Fn, double>(table, Lane::kF64);
    set_one<Fn, int64_t>(table, Lane::kI64);
  }
}

constexpr ReduceTable make_table() {
  ReduceTable table{};
  set_lanes<ReduceFn::kSum>(table);
  set_lanes<ReduceFn::kProd>(table);
  set_lanes<ReduceFn::kMax>(table);
  set_lanes<ReduceFn::kMin>(table);
  set_lanes<ReduceFn::kAny>(table);
  set_lanes<ReduceFn::kAll>(table);
  return table;
}

}  // namespace

extern constexpr ReduceTable NAX_ISA_TABLE(kReduce) = make_table();

}  // namespace nax
