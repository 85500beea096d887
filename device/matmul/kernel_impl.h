// Packing and register-block kernels, written once over a vector type. Included by the
// kernel_<isa>.cpp files only, inside their anonymous namespace, after they define the element
// types:
//   struct E { using T (a cell, and an accumulator); using V; kLanes, kMr, kStep;
//              zero, load, store, broadcast, fma (acc + a * b, for each k of the cells);
//              kSimdPack: load_as<L> (kLanes cells), load_part_as<L> (of n elements), transpose }
// and the source types L { using T; kStep; static acc<E>(T) }. No standard library here: its inline
// functions would be compiled for this ISA and merged with everyone's.

template <class E>
inline constexpr int kNr = 2 * E::kLanes;

// Rows of row panel p when m rows are split as evenly as possible into panels of at most mr.
struct RowPanels {
  int64_t count, base, extra;
  RowPanels(int64_t m, int mr) : count((m + mr - 1) / mr), base(m / count), extra(m % count) {}
  int rows(int64_t p) const { return static_cast<int>(base + (p < extra)); }
};

// ---- packing

// As pack_single_panel below, for cells of two bf16: those of k = 2s and 2s + 1, the last alone where kc is
// odd.
template <class E>
void pack_pair_panel(const uint16_t* src, int64_t xs, int64_t ks, int w, int width, int64_t kc,
                     typename E::T* dst) {
  using L = FromBF16Pair;
  constexpr int kLanes = E::kLanes;
  const int64_t steps = (kc + 1) / 2;
  if (xs == 1) {
    for (int64_t s = 0; s < steps; ++s) {
      const uint16_t* const even = src + 2 * s * ks;
      const uint16_t* const odd = 2 * s + 1 < kc ? even + ks : nullptr;
      int x = 0;
      for (; x < w; x += kLanes)
        E::store(dst + s * width + x,
                 E::pair(even + x, odd ? odd + x : nullptr, w - x < kLanes ? w - x : kLanes));
      for (; x < width; x += kLanes) E::store(dst + s * width + x, E::zero());
    }
    return;
  }
  if (ks == 1) {
    for (int64_t s = 0; s < steps; s += kLanes) {
      const int64_t left = kc - 2 * s;
      const int elements = left < 2 * kLanes ? static_cast<int>(left) : 2 * kLanes;
      const int depth = (elements + 1) / 2;
      for (int x = 0; x < width; x += kLanes) {
        typename E::V rows[kLanes];
        const int valid = w - x < kLanes ? w - x : kLanes;
        const uint16_t* from = src + x * xs + 2 * s;
        if (depth == kLanes && elements == 2 * kLanes && valid == kLanes) {
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i) rows[i] = E::template load_as<L>(from + i * xs);
        } else {
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i)
            rows[i] = i < valid ? E::template load_part_as<L>(from + i * xs, elements) : E::zero();
        }
        E::transpose(rows);
        typename E::T* to = dst + s * width + x;
        if (depth == kLanes) {
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i) E::store(to + i * width, rows[i]);
        } else {
          for (int i = 0; i < depth; ++i) E::store(to + i * width, rows[i]);
        }
      }
    }
    return;
  }
  for (int64_t s = 0; s < steps; ++s) {
    const uint16_t* const even = src + 2 * s * ks;
    const bool whole = 2 * s + 1 < kc;
    for (int x = 0; x < width; ++x)
      E::set(dst + s * width + x, x < w ? even[x * xs] : 0, x < w && whole ? even[x * xs + ks] : 0);
  }
}

// One panel: dst[k * width + x] = src[x * xs + k * ks] for x < w, zero for w <= x < width. Where
// width is no multiple of the lanes, vector stores run over into the next k's place, which is
// written later: ascending k is essential.
template <class E, class L>
void pack_single_panel(const typename L::T* src, int64_t xs, int64_t ks, int w, int width, int64_t kc,
                typename E::T* dst) {
  if constexpr (E::kSimdPack) {
    constexpr int kLanes = E::kLanes;
    if (xs == 1) {
      const int whole = w / kLanes * kLanes, rest = w - whole;
      for (int64_t k = 0; k < kc; ++k) {
        int x = 0;
        for (; x < whole; x += kLanes)
          E::store(dst + k * width + x, E::template load_as<L>(src + k * ks + x));
        if (rest)
          E::store(dst + k * width + x, E::template load_part_as<L>(src + k * ks + x, rest)),
              x += kLanes;
        for (; x < width; x += kLanes) E::store(dst + k * width + x, E::zero());
      }
      return;
    }
    if (ks == 1) {
      for (int64_t k = 0; k < kc; k += kLanes) {
        const int depth = kc - k < kLanes ? static_cast<int>(kc - k) : kLanes;
        for (int x = 0; x < width; x += kLanes) {
          typename E::V rows[kLanes];
          const int valid = w - x < kLanes ? w - x : kLanes;
          const typename L::T* from = src + x * xs + k;
          if (depth == kLanes && valid == kLanes) {
#pragma GCC unroll 16
            for (int i = 0; i < kLanes; ++i) rows[i] = E::template load_as<L>(from + i * xs);
          } else if (depth == kLanes) {
#pragma GCC unroll 16
            for (int i = 0; i < kLanes; ++i)
              rows[i] = i < valid ? E::template load_as<L>(from + i * xs) : E::zero();
          } else {
#pragma GCC unroll 16
            for (int i = 0; i < kLanes; ++i)
              rows[i] = i < valid ? E::template load_part_as<L>(from + i * xs, depth) : E::zero();
          }
          E::transpose(rows);
          typename E::T* to = dst + k * width + x;
          if (depth == kLanes) {
#pragma GCC unroll 16
            for (int i = 0; i < kLanes; ++i) E::store(to + i * width, rows[i]);
          } else {
            for (int i = 0; i < depth; ++i) E::store(to + i * width, rows[i]);
          }
        }
      }
      return;
    }
  }
  constexpr int64_t kStep = 32;  // keeps both sides in cache, whichever is the long stride
  for (int64_t k0 = 0; k0 < kc; k0 += kStep) {
    const int64_t k1 = k0 + kStep < kc ? k0 + kStep : kc;
    if (ks == 1) {
      for (int x = 0; x < w; ++x)
        for (int64_t k = k0; k < k1; ++k)
          dst[k * width + x] = L::template acc<typename E::T>(src[x * xs + k]);
    } else {
      for (int64_t k = k0; k < k1; ++k)
        for (int x = 0; x < w; ++x)
          dst[k * width + x] = L::template acc<typename E::T>(src[x * xs + k * ks]);
    }
    for (int64_t k = k0; k < k1; ++k)
      for (int x = w; x < width; ++x) dst[k * width + x] = 0;
  }
}

template <class E, class L>
void pack_panel(const typename L::T* src, int64_t xs, int64_t ks, int w, int width, int64_t kc,
                typename E::T* dst) {
  if constexpr (L::kStep == 2)
    pack_pair_panel<E>(src, xs, ks, w, width, kc, dst);
  else
    pack_single_panel<E, L>(src, xs, ks, w, width, kc, dst);
}

template <class E, class L>
void pack_a_from(const PackArgs& p) {
  const RowPanels panels(p.extent, E::kMr);
  auto* src = static_cast<const typename L::T*>(p.src);
  auto* dst = static_cast<typename E::T*>(p.dst);
  const int64_t steps = (p.kc + L::kStep - 1) / L::kStep;
  for (int64_t i = 0; i < panels.count; ++i) {
    const int rows = panels.rows(i);
    pack_panel<E, L>(src, p.x_stride, p.k_stride, rows, rows, p.kc, dst);
    src += rows * p.x_stride;
    dst += rows * steps;
  }
}

template <class E, class L>
void pack_b_from(const PackArgs& p) {
  auto* src = static_cast<const typename L::T*>(p.src);
  auto* dst = static_cast<typename E::T*>(p.dst);
  const int64_t steps = (p.kc + L::kStep - 1) / L::kStep;
  for (int64_t x = 0; x < p.extent; x += kNr<E>) {
    const int w = p.extent - x < kNr<E> ? static_cast<int>(p.extent - x) : kNr<E>;
    pack_panel<E, L>(src + x * p.x_stride, p.x_stride, p.k_stride, w, kNr<E>, p.kc, dst);
    dst += kNr<E> * steps;
  }
}

// ---- register block

template <class E>
struct Micro {
  using T = typename E::T;
  using V = typename E::V;
  using Fn = void (*)(int64_t steps, const T* a, int64_t a_row, int64_t a_k, const T* b,
                      int64_t b_panel, int64_t b_k, T* c, int64_t ld, bool accumulate);

  // kRows x kVecs vectors of C in registers. The vectors lie in one panel of B, or in kVecs / 2
  // neighbouring ones.
  template <int kRows, int kVecs, bool kPacked>
  static void run(int64_t steps, const T* a, int64_t a_row, int64_t a_k, const T* b, int64_t b_panel,
                  int64_t b_k, T* c, int64_t ld, bool accumulate) {
    if constexpr (kPacked) a_row = 1, a_k = kRows;
    V acc[kRows][kVecs];
    if (accumulate) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) acc[i][v] = E::load(c + i * ld + v * E::kLanes);
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) acc[i][v] = E::zero();
    }
#pragma GCC unroll 2
    for (int64_t s = 0; s < steps; ++s) {
      V bv[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) bv[v] = E::load(b + v / 2 * b_panel + v % 2 * E::kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const V av = E::broadcast(a + i * a_row);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) acc[i][v] = E::fma(av, bv[v], acc[i][v]);
      }
      a += a_k;
      b += b_k;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) E::store(c + i * ld + v * E::kLanes, acc[i][v]);
  }

  // [packed][rows - 1]
  Fn one[2][E::kMr], two[2][E::kMr];
  // Few rows leave too few chains to hide fma's latency, so they take more columns at once.
  Fn four[2][3], eight[2][1];

  template <int kRows = 1>
  static constexpr void fill(Micro& m) {
    m.one[0][kRows - 1] = run<kRows, 1, false>;
    m.one[1][kRows - 1] = run<kRows, 1, true>;
    m.two[0][kRows - 1] = run<kRows, 2, false>;
    m.two[1][kRows - 1] = run<kRows, 2, true>;
    if constexpr (kRows <= 3) {
      m.four[0][kRows - 1] = run<kRows, 4, false>;
      m.four[1][kRows - 1] = run<kRows, 4, true>;
    }
    if constexpr (kRows == 1) {
      m.eight[0][0] = run<1, 8, false>;
      m.eight[1][0] = run<1, 8, true>;
    }
    if constexpr (kRows < E::kMr) fill<kRows + 1>(m);
  }
  static constexpr Micro make() {
    Micro m{};
    fill(m);
    return m;
  }
};

template <class E>
void block(const BlockArgs& args) {
  using T = typename E::T;
  static constexpr Micro<E> micro = Micro<E>::make();
  constexpr int kPanel = kNr<E>;
  const RowPanels panels(args.m, E::kMr);
  auto* b = static_cast<const T*>(args.b);
  auto* c = static_cast<T*>(args.c);
  const int most_rows = panels.rows(0);
  const int64_t steps = (args.kc + E::kStep - 1) / E::kStep;
  for (int64_t j = 0; j < args.n;) {
    const int64_t left = args.n - j;
    int columns = left > E::kLanes ? kPanel : E::kLanes;
    const auto* fns = left > E::kLanes ? micro.two[args.a_packed] : micro.one[args.a_packed];
    if (most_rows == 1 && left > 3 * kPanel)
      columns = 4 * kPanel, fns = micro.eight[args.a_packed];
    else if (most_rows <= 3 && left > kPanel)
      columns = 2 * kPanel, fns = micro.four[args.a_packed];
    auto* a = static_cast<const T*>(args.a);
    T* c_panel = c + j;
    for (int64_t p = 0; p < panels.count; ++p) {
      const int rows = panels.rows(p);
      fns[rows - 1](steps, a, args.a_row, args.a_k, b, args.b_panel, args.b_k, c_panel, args.ld,
                    args.accumulate);
      a += args.a_packed ? rows * steps : rows * args.a_row;
      c_panel += rows * args.ld;
    }
    j += columns;
    b += columns / kPanel * args.b_panel;
  }
}

// ---- few rows

// kLanes x kLanes tiles of B are turned in registers and used at once; two of them give fma's
// latency company.
template <class E, class L, int kRows>
void thin_rows(const BlockArgs& args) {
  using T = typename E::T;
  constexpr int kLanes = E::kLanes, kTiles = 2;
  auto* c = static_cast<T*>(args.c);
  for (int64_t j = 0; j < args.n; j += kTiles * kLanes) {
    const auto* b = static_cast<const typename L::T*>(args.b) + j * args.b_panel;
    const auto* a = static_cast<const T*>(args.a);
    int valid[kTiles];
    typename E::V acc[kTiles][kRows];
#pragma GCC unroll 2
    for (int t = 0; t < kTiles; ++t) {
      const int64_t left = args.n - j - t * kLanes;
      valid[t] = left < kLanes ? static_cast<int>(left < 0 ? 0 : left) : kLanes;
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
        acc[t][r] = args.accumulate ? E::load(c + j + t * kLanes + r * args.ld) : E::zero();
    }
    for (int64_t k = 0; k < args.kc; k += kLanes * L::kStep) {
      const int64_t left = args.kc - k;
      const int elements = left < kLanes * L::kStep ? static_cast<int>(left) : kLanes * L::kStep;
      const int depth = (elements + L::kStep - 1) / L::kStep;
#pragma GCC unroll 2
      for (int t = 0; t < kTiles; ++t) {
        typename E::V tile[kLanes];
        const auto* from = b + t * kLanes * args.b_panel + k;
        if (elements == kLanes * L::kStep && valid[t] == kLanes) {
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i)
            tile[i] = E::template load_as<L>(from + i * args.b_panel);
          E::transpose(tile);
#pragma GCC unroll 16
          for (int i = 0; i < kLanes; ++i)
#pragma GCC unroll 4
            for (int r = 0; r < kRows; ++r)
              acc[t][r] =
                  E::fma(E::broadcast(a + r * args.a_row + i * args.a_k), tile[i], acc[t][r]);
        } else if (valid[t] > 0) {
          for (int i = 0; i < kLanes; ++i)
            tile[i] = i < valid[t] ? E::template load_part_as<L>(from + i * args.b_panel, elements)
                                   : E::zero();
          E::transpose(tile);
          for (int i = 0; i < depth; ++i)
#pragma GCC unroll 4
            for (int r = 0; r < kRows; ++r)
              acc[t][r] =
                  E::fma(E::broadcast(a + r * args.a_row + i * args.a_k), tile[i], acc[t][r]);
        }
      }
      a += kLanes * args.a_k;
    }
#pragma GCC unroll 2
    for (int t = 0; t < kTiles; ++t)
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) E::store(c + j + t * kLanes + r * args.ld, acc[t][r]);
  }
}

template <class E, class L>
void thin_from(const BlockArgs& args) {
  static_assert(kThinRows == 4);
  switch (args.m) {
    case 1:
      return thin_rows<E, L, 1>(args);
    case 2:
      return thin_rows<E, L, 2>(args);
    case 3:
      return thin_rows<E, L, 3>(args);
    default:
      return thin_rows<E, L, 4>(args);
  }
}

template <class E>
void thin(const BlockArgs& args) {
  if constexpr (E::kStep == 2) {
    thin_from<E, FromBF16Pair>(args);
  } else {
    if (args.b_dtype == DType::kBF16) return thin_from<E, FromBF16>(args);
    if (args.b_dtype == DType::kF16) return thin_from<E, FromF16>(args);
    thin_from<E, FromF32>(args);
  }
}

// ---- table

template <class E, bool kA, class L>
void pack_from(const PackArgs& p) {
  if constexpr (kA)
    pack_a_from<E, L>(p);
  else
    pack_b_from<E, L>(p);
}
template <class E, bool kA>
void pack(const PackArgs& p) {
  if constexpr (E::kStep == 2) {
    pack_from<E, kA, FromBF16Pair>(p);
  } else if constexpr (kSame<typename E::T, float>) {
    if (p.dtype == DType::kBF16) return pack_from<E, kA, FromBF16>(p);
    if (p.dtype == DType::kF16) return pack_from<E, kA, FromF16>(p);
    pack_from<E, kA, FromF32>(p);
  } else if constexpr (kSame<typename E::T, double>) {
    pack_from<E, kA, FromF64>(p);
  } else if constexpr (kSame<typename E::T, int64_t>) {
    pack_from<E, kA, FromI64>(p);
  } else {
    if (p.dtype == DType::kU8) return pack_from<E, kA, FromU8>(p);
    if (p.dtype == DType::kI8) return pack_from<E, kA, FromI8>(p);
    if (p.dtype == DType::kI16) return pack_from<E, kA, FromI16>(p);
    pack_from<E, kA, FromI32>(p);
  }
}

template <class E>
constexpr TypeKernels make_kernels(DType direct) {
  TypeKernels kernels = {E::kMr, kNr<E>,
                         E::kStep, static_cast<int>(sizeof(typename E::T)),
                         direct, E::kStep == 1 ? direct : DType::kInvalid,
                         pack<E, true>, pack<E, false>,
                         block<E>, nullptr};
  if constexpr (E::kSimdPack) kernels.thin = thin<E>;
  return kernels;
}
// bf16 widened.
template <class F32, class F64, class I32, class I64>
constexpr KernelTable make_table() {
  const TypeKernels f32 = make_kernels<F32>(DType::kF32);
  return {f32, make_kernels<F64>(DType::kF64), make_kernels<I32>(DType::kI32),
          make_kernels<I64>(DType::kI64), f32};
}
