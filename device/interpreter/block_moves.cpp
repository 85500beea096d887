#include "device/interpreter/block_moves.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace nax {
namespace {

// dst[r * width + w] = src[w * stride + r] for elements of T.
template <class T>
void transpose_in_plain(const T* src, int64_t stride, int64_t rows, int64_t width, T* dst, int64_t r0, int64_t w0) {
  for (int64_t r = r0; r < rows; ++r)
    for (int64_t w = w0; w < width; ++w) dst[r * width + w] = src[w * stride + r];
}

// 8x8 block of 4-byte elements: out[r][w] = in[w][r].
inline void transpose_8x8(const float* in, int64_t in_stride, float* out, int64_t out_stride) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(in + i * in_stride);
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xEE);
    r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(out + i * out_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(out + (i + 4) * out_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

template <class T>
void transpose_in(const void* source, int64_t stride, int64_t rows, int64_t width, void* target) {
  const T* src = static_cast<const T*>(source);
  T* dst = static_cast<T*>(target);
  const int64_t rows8 = rows / 8 * 8, width8 = width / 8 * 8;
  for (int64_t w = 0; w < width8; w += 8)
    for (int64_t r = 0; r < rows8; r += 8) {
      if constexpr (sizeof(T) == 4) {
        transpose_8x8(reinterpret_cast<const float*>(src + w * stride + r), stride,
                      reinterpret_cast<float*>(dst + r * width + w), width);
      } else {
        for (int i = 0; i < 8; ++i)
          for (int j = 0; j < 8; ++j) dst[(r + i) * width + w + j] = src[(w + j) * stride + r + i];
      }
    }
  transpose_in_plain(src, stride, rows, width, dst, rows8, 0);
  transpose_in_plain(src, stride, rows8, width, dst, 0, width8);
}

// dst[w * stride + r] = src[r * width + w].
template <class T>
void transpose_out(const void* source, int64_t stride, int64_t rows, int64_t width, void* target) {
  const T* src = static_cast<const T*>(source);
  T* dst = static_cast<T*>(target);
  const int64_t rows8 = rows / 8 * 8, width8 = width / 8 * 8;
  for (int64_t w = 0; w < width8; w += 8)
    for (int64_t r = 0; r < rows8; r += 8) {
      if constexpr (sizeof(T) == 4) {
        transpose_8x8(reinterpret_cast<const float*>(src + r * width + w), width,
                      reinterpret_cast<float*>(dst + w * stride + r), stride);
      } else {
        for (int i = 0; i < 8; ++i)
          for (int j = 0; j < 8; ++j) dst[(w + i) * stride + r + j] = src[(r + j) * width + w + i];
      }
    }
  for (int64_t w = 0; w < width; ++w)
    for (int64_t r = w < width8 ? rows8 : 0; r < rows; ++r) dst[w * stride + r] = src[r * width + w];
}

template <class F>
void by_size(int size, F&& f) {
  switch (size) {
    case 1: f(uint8_t{}); break;
    case 2: f(uint16_t{}); break;
    case 4: f(uint32_t{}); break;
    default: f(uint64_t{}); break;
  }
}

// The checked index, or -1.
inline int64_t wrap_index(int64_t i, int64_t size) {
  if (i < 0) i += size;
  return i >= 0 && i < size ? i : -1;
}

bool worth_transposing(const BlockAccess& a, const Block& b) {
  return is_transposed(a) && b.rows >= 8 && b.width >= 8;
}

}  // namespace

BlockAccess make_block_access(const AccessRun& run, int n_free, const int64_t* free_extent) {
  BlockAccess a;
  a.base = run.base;
  a.index = run.index;
  a.row_stride = run.row_stride;
  a.n_free = n_free;
  a.free_stride = run.free_stride.data();
  a.free_extent = free_extent;
  a.index_stride = run.index_stride;
  a.index_size = run.index_size;
  // Linear if each outer free stride continues the one inside it.
  int64_t step = 0, covered = 1;
  bool first = true;
  for (int d = n_free - 1; d >= 0; --d) {
    if (free_extent[d] == 1) continue;
    if (first) {
      step = run.free_stride[d];
      first = false;
    } else if (run.free_stride[d] != step * covered) {
      a.linear = false;
      break;
    }
    covered *= free_extent[d];
  }
  a.inner = step;
  return a;
}

void load_block(const BlockAccess& a, const Block& b, LoadFn load, int memory_size, int lane_size, void* lanes,
                void* temp) {
  if (worth_transposing(a, b)) {
    const bool direct = memory_size == lane_size;  // 4- and 8-byte memory types are their own lanes
    const char* src = a.base + (b.p + b.f * a.inner) * memory_size;
    void* target = direct ? lanes : temp;
    by_size(memory_size, [&](auto t) { transpose_in<decltype(t)>(src, a.inner, b.rows, b.width, target); });
    if (!direct) load(lanes, temp, 1, b.count());
    return;
  }
  for_pieces(a, b, [&](int64_t to, int64_t from, int64_t stride, int64_t n) {
    load(static_cast<char*>(lanes) + to * lane_size, a.base + from * memory_size, stride, n);
  });
}

void store_block(const BlockAccess& a, const Block& b, StoreFn store, int memory_size, int lane_size, const void* lanes,
                 void* temp) {
  if (worth_transposing(a, b)) {
    const bool direct = memory_size == lane_size;
    if (!direct) store(temp, lanes, 1, b.count());
    char* dst = a.base + (b.p + b.f * a.inner) * memory_size;
    const void* source = direct ? lanes : temp;
    by_size(memory_size, [&](auto t) { transpose_out<decltype(t)>(source, a.inner, b.rows, b.width, dst); });
    return;
  }
  for_pieces(a, b, [&](int64_t from, int64_t to, int64_t stride, int64_t n) {
    store(a.base + to * memory_size, static_cast<const char*>(lanes) + from * lane_size, stride, n);
  });
}

void load_indirect(const BlockAccess& a, const Block& b, const IndexSource& index, LoadFn load, int memory_size,
                   int lane_size, void* lanes, void* temp, uint8_t* errors) {
  char* out = static_cast<char*>(lanes);
  if (index.per != IndexSource::Per::kElement) {
    for (int64_t r = 0; r < b.rows; ++r) {
      int64_t i = wrap_index(index.values[index.per == IndexSource::Per::kRow ? r : 0], a.index_size);
      if (i < 0) *errors |= kOpIndexOutOfRange;
      char* row = out + r * b.width * lane_size;
      if (i < 0 && a.index_size <= 0) {
        std::memset(row, 0, static_cast<size_t>(b.width * lane_size));
        continue;
      }
      BlockAccess at = a;
      at.base += std::max<int64_t>(i, 0) * a.index_stride * memory_size;
      load_block(at, {b.p + r, 1, b.f, b.width}, load, memory_size, lane_size, row, temp);
    }
    return;
  }
  uint8_t bits = 0;
  by_size(memory_size, [&](auto t) {
    using T = decltype(t);
    T* packed = static_cast<T*>(temp);
    const T* base = reinterpret_cast<const T*>(a.base);
    for_pieces(a, b, [&](int64_t to, int64_t from, int64_t stride, int64_t n) {
      for (int64_t k = 0; k < n; ++k) {
        int64_t i = wrap_index(index.values[to + k], a.index_size);
        if (i < 0) {
          bits = kOpIndexOutOfRange;
          if (a.index_size <= 0) {
            packed[to + k] = 0;
            continue;
          }
          i = 0;
        }
        packed[to + k] = base[from + k * stride + i * a.index_stride];
      }
    });
  });
  *errors |= bits;
  load(lanes, temp, 1, b.count());
}

void store_indirect(const BlockAccess& a, const Block& b, const IndexSource* index, const StoreSpec& spec,
                    const void* lanes, void* temp, uint8_t* errors) {
  const char* in = static_cast<const char*>(lanes);
  const bool by_row = index == nullptr || index->per != IndexSource::Per::kElement;
  // Elements of one piece lie at different addresses unless the stride is 0; then and with an index for each element the
  // order matters, and they go one by one.
  const auto store_piece = [&](char* to, int64_t stride, const char* from, int64_t n) {
    if (spec.combine == nullptr) {
      spec.store(to, from, stride, n);
      return;
    }
    if (stride != 0 || n == 1) {
      spec.load(temp, to, stride, n);
      spec.combine(temp, from, n);
      if (spec.round != nullptr) spec.round(temp, n);
      spec.store(to, temp, stride, n);
      return;
    }
    for (int64_t k = 0; k < n; ++k) {
      spec.load(temp, to, 1, 1);
      spec.combine(temp, from + k * spec.lane_size, 1);
      if (spec.round != nullptr) spec.round(temp, 1);
      spec.store(to, temp, 1, 1);
    }
  };
  for (int64_t r = 0; r < b.rows; ++r) {
    char* base = a.base;
    if (index != nullptr && by_row) {
      const int64_t i = wrap_index(index->values[index->per == IndexSource::Per::kRow ? r : 0], a.index_size);
      if (i < 0) {
        *errors |= kOpIndexOutOfRange;
        continue;
      }
      base += i * a.index_stride * spec.memory_size;
    }
    for_pieces(a, {b.p + r, 1, b.f, b.width}, [&](int64_t from, int64_t to, int64_t stride, int64_t n) {
      const char* src = in + (r * b.width + from) * spec.lane_size;
      if (by_row) {
        store_piece(base + to * spec.memory_size, stride, src, n);
        return;
      }
      for (int64_t k = 0; k < n; ++k) {
        const int64_t i = wrap_index(index->values[r * b.width + from + k], a.index_size);
        if (i < 0) {
          *errors |= kOpIndexOutOfRange;
          continue;
        }
        store_piece(base + (to + k * stride + i * a.index_stride) * spec.memory_size, 1, src + k * spec.lane_size, 1);
      }
    });
  }
}

}  // namespace nax
