// The bf16 kernels of AMX, written once over a tile unit, so that tests run packing and blocks over
// a software model of it:
//   struct Tiles { configure(const TileConfig&), release(); zero<T>(), load<T>(from, stride),
//                  store<T>(to, stride), dot<C, A, B>() for tile registers by number }
// Included after kernel_impl.h and lanes_avx512.h, inside an anonymous namespace.
//
// A step is tdpbf16ps over 32 k, counted from the product's first k and filled up with zeros. The
// instruction sums them from zero, even and odd k apart, and adds the two sums to the accumulator:
// 32 is part of the definition of a result, never a matter of blocking.

// The memory operand of ldtilecfg.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

inline constexpr int kTile = 16;             // rows of a tile, and its cells of 4 bytes a row
inline constexpr int kTileStep = 2 * kTile;  // k of bf16 in a row
inline constexpr int kTileCells = kTile * kTile;

// Registers: C in 0..3 (two by two, row by row), A in 4 and 5, B in 6 and 7.
inline TileConfig tile_config(int rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) config.row_bytes[t] = 64, config.rows[t] = kTile;
  const int upper = rows < kTile ? rows : kTile;
  const int lower = rows > kTile ? rows - kTile : upper;  // unused where there is one row of tiles
  config.rows[0] = config.rows[1] = config.rows[4] = static_cast<uint8_t>(upper);
  config.rows[2] = config.rows[3] = config.rows[5] = static_cast<uint8_t>(lower);
  return config;
}

// ceil(extent / 32) panels, the last one with the rows that are left: [step][row][32 k].
inline void amx_pack_a(const PackArgs& p) {
  auto* dst = static_cast<float*>(p.dst);
  for (int64_t x = 0; x < p.extent; x += 2 * kTile) {
    const int rows = p.extent - x < 2 * kTile ? static_cast<int>(p.extent - x) : 2 * kTile;
    for (int64_t k = 0; k < p.kc; k += kTileStep, dst += rows * kTile) {
      const int depth = p.kc - k < kTileStep ? static_cast<int>(p.kc - k) : kTileStep;
      const auto* src =
          static_cast<const uint16_t*>(p.src) + x * p.x_stride + k * p.k_stride;
      if (p.k_stride == 1) {
        for (int i = 0; i < rows; ++i)
          BF16Pairs::store(dst + i * kTile,
                           BF16Pairs::load_part_as<FromBF16Pair>(src + i * p.x_stride, depth));
      } else if (p.x_stride == 1) {
        for (int r = 0; r < rows; r += kTile) {
          const int valid = rows - r < kTile ? rows - r : kTile;
          BF16Pairs::V cells[kTile];
          for (int s = 0; s < kTile; ++s) {
            const uint16_t* const even = src + 2 * s * p.k_stride + r;
            cells[s] = 2 * s < depth ? BF16Pairs::pair(
                                           even, 2 * s + 1 < depth ? even + p.k_stride : nullptr, valid)
                                     : BF16Pairs::zero();
          }
          BF16Pairs::transpose(cells);
          for (int i = 0; i < valid; ++i) BF16Pairs::store(dst + (r + i) * kTile, cells[i]);
        }
      } else {
        for (int i = 0; i < rows; ++i)
          for (int s = 0; s < kTile; ++s) {
            const uint16_t* const even = src + i * p.x_stride + 2 * s * p.k_stride;
            BF16Pairs::set(dst + i * kTile + s, 2 * s < depth ? *even : 0,
                           2 * s + 1 < depth ? even[p.k_stride] : 0);
          }
      }
    }
  }
}

// Panels of 32 columns as two halves of 16: [pair of k][column], whole steps. A half without
// columns is left as it is: nothing reads it.
inline void amx_pack_b(const PackArgs& p) {
  const int64_t steps = (p.kc + kTileStep - 1) / kTileStep;
  const int64_t pairs = (p.kc + 1) / 2;
  auto* const base = static_cast<float*>(p.dst);
  for (int64_t x = 0; x < p.extent; x += kTile) {
    const int columns = p.extent - x < kTile ? static_cast<int>(p.extent - x) : kTile;
    float* const dst = base + x / kTile * steps * kTileCells;
    pack_panel<BF16Pairs, FromBF16Pair>(static_cast<const uint16_t*>(p.src) + x * p.x_stride,
                                        p.x_stride, p.k_stride, columns, kTile, p.kc, dst);
    for (int64_t s = pairs; s < steps * kTile; ++s)
      BF16Pairs::store(dst + s * kTile, BF16Pairs::zero());
  }
}

// kR x kC tiles of C over all steps.
template <class Tiles, int kR, int kC>
void amx_tiles(const float* a, int64_t a_step, const float* b, int64_t b_half, float* c,
               int64_t ld, int64_t steps, bool accumulate) {
  const int64_t c_stride = ld * 4;
  float* const c_lower = c + kTile * ld;
  if (accumulate) {
    Tiles::template load<0>(c, c_stride);
    if constexpr (kC == 2) Tiles::template load<1>(c + kTile, c_stride);
    if constexpr (kR == 2) Tiles::template load<2>(c_lower, c_stride);
    if constexpr (kR == 2 && kC == 2) Tiles::template load<3>(c_lower + kTile, c_stride);
  } else {
    Tiles::template zero<0>();
    if constexpr (kC == 2) Tiles::template zero<1>();
    if constexpr (kR == 2) Tiles::template zero<2>();
    if constexpr (kR == 2 && kC == 2) Tiles::template zero<3>();
  }
  for (int64_t s = 0; s < steps; ++s, a += a_step, b += kTileCells) {
    Tiles::template load<6>(b, 64);
    Tiles::template load<4>(a, 64);
    Tiles::template dot<0, 4, 6>();
    if constexpr (kC == 2) {
      Tiles::template load<7>(b + b_half, 64);
      Tiles::template dot<1, 4, 7>();
    }
    if constexpr (kR == 2) {
      Tiles::template load<5>(a + kTileCells, 64);
      Tiles::template dot<2, 5, 6>();
    }
    if constexpr (kR == 2 && kC == 2) Tiles::template dot<3, 5, 7>();
  }
  Tiles::template store<0>(c, c_stride);
  if constexpr (kC == 2) Tiles::template store<1>(c + kTile, c_stride);
  if constexpr (kR == 2) Tiles::template store<2>(c_lower, c_stride);
  if constexpr (kR == 2 && kC == 2) Tiles::template store<3>(c_lower + kTile, c_stride);
}

// `panels` panels of `rows` rows each.
template <class Tiles>
void amx_panels(const BlockArgs& args, int64_t first_row, int64_t panels, int rows) {
  const int64_t steps = (args.kc + kTileStep - 1) / kTileStep;
  const int64_t a_step = rows * kTile;
  Tiles::configure(tile_config(rows));
  for (int64_t j = 0; j < args.n; j += 2 * kTile) {
    const auto* b = static_cast<const float*>(args.b) + j / (2 * kTile) * args.b_panel * kTile;
    const auto* a = static_cast<const float*>(args.a) + first_row * steps * kTile;
    float* c = static_cast<float*>(args.c) + first_row * args.ld + j;
    const bool two = args.n - j > kTile;
    const auto run = rows > kTile ? (two ? amx_tiles<Tiles, 2, 2> : amx_tiles<Tiles, 2, 1>)
                                  : (two ? amx_tiles<Tiles, 1, 2> : amx_tiles<Tiles, 1, 1>);
    for (int64_t p = 0; p < panels; ++p) {
      run(a, a_step, b, steps * kTileCells, c, args.ld, steps, args.accumulate);
      a += steps * a_step;
      c += rows * args.ld;
    }
  }
}

template <class Tiles>
void amx_block(const BlockArgs& args) {
  const int64_t whole = args.m / (2 * kTile);
  const int rest = static_cast<int>(args.m % (2 * kTile));
  if (whole > 0) amx_panels<Tiles>(args, 0, whole, 2 * kTile);
  if (rest > 0) amx_panels<Tiles>(args, whole * 2 * kTile, 1, rest);
  Tiles::release();
}

template <class Tiles>
constexpr TypeKernels make_amx_kernels() {
  return {2 * kTile,  2 * kTile,  kTileStep,        64,     DType::kInvalid, DType::kInvalid,
          amx_pack_a, amx_pack_b, amx_block<Tiles>, nullptr};
}
