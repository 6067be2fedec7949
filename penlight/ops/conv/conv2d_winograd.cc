// conv2d.f32.winograd2, winograd4, winograd6: 3 x 3 convolution of stride 1 and any dilation by Winograd's minimal filtering
// (winograd.h). NHWC in and out, any pitch; weights in the layout of the same name, transformed at export (winograd.py).
// Vectors run over channels, so both transforms are sums of whole vectors; the last vector of input channels is loaded in
// part, of output channels stored in part. The products are matrix products (runtime/cpu/gemm.h), one per position.
#include "penlight/ops/conv/winograd.h"
#include "penlight/runtime/cpu/gemm.h"

namespace pen {
namespace PEN_ISA {

static_assert(sizeof(RowTile) <= kTileBytes, "bind sized scratch for these");

// One row or column of a tile. The pixels and the filter are polynomials; their product is known by its values at m + 1
// points and at infinity. `pixels` takes m + 2 pixels to the points (B^T d): the coefficients of t[i] are those of the product
// of (x - p) over the other points p. `outputs` takes the products back (A^T m): y[k] is the sum of p^k m. The points are
// paired, +p and -p, so that even and odd parts are computed once for both.
template <int kOut>
struct Points;

template <>
struct Points<2> {  // 0, 1, -1
  static PEN_INLINE void pixels(const V* d, V* t) {
    t[0] = d[2] - d[0];
    t[1] = d[2] + d[1];
    t[2] = d[2] - d[1];
    t[3] = d[3] - d[1];
  }
  static PEN_INLINE void outputs(const V* m, V* y) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] + m[3];
  }
};

// The points decide the error. With these it is a fourth of what the customary 0, +-1, +-2 give.
template <>
struct Points<4> {  // 0, +-1 / sqrt(2), +-sqrt(2)
  static constexpr float kRoot = 1.41421356237309504880f;
  static PEN_INLINE void pixels(const V* d, V* t) {
    V even = fma(set1(-2.0f), d[2], d[4]), odd = fma(set1(-2.0f), d[1], d[3]) * set1(kRoot / 2);
    V even2 = fma(set1(-0.5f), d[2], d[4]), odd2 = fma(set1(-0.5f), d[1], d[3]) * set1(kRoot);
    t[0] = fma(set1(-2.5f), d[2], d[0] + d[4]);
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = even2 + odd2;
    t[4] = even2 - odd2;
    t[5] = fma(set1(-2.5f), d[3], d[1] + d[5]);
  }
  static PEN_INLINE void outputs(const V* m, V* y) {
    V even = m[1] + m[2], odd = (m[1] - m[2]) * set1(kRoot / 2);
    V even2 = m[3] + m[4], odd2 = (m[3] - m[4]) * set1(kRoot);
    y[0] = m[0] + even + even2;
    y[1] = odd + odd2;
    y[2] = fma(set1(2.0f), even2, even * set1(0.5f));
    y[3] = fma(set1(2.0f), odd2, fma(set1(0.5f), odd, m[5]));
  }
};

template <>
struct Points<6> {  // 0, +-1, +-2, +-1/2
  static PEN_INLINE void pixels(const V* d, V* t) {
    V even = fma(set1(-4.25f), d[4], d[2] + d[6]), odd = fma(set1(-4.25f), d[3], d[1] + d[5]);
    V even2 = fma(set1(0.25f), d[2], fma(set1(-1.25f), d[4], d[6])), odd2 = fma(set1(0.25f), d[1], fma(set1(-1.25f), d[3], d[5]));
    V even3 = fma(set1(4.0f), d[2], fma(set1(-5.0f), d[4], d[6])), odd3 = fma(set1(4.0f), d[1], fma(set1(-5.0f), d[3], d[5]));
    t[0] = fma(set1(5.25f), d[2] - d[4], d[6] - d[0]);
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = fma(set1(2.0f), odd2, even2);
    t[4] = fma(set1(-2.0f), odd2, even2);
    t[5] = fma(set1(0.5f), odd3, even3);
    t[6] = fma(set1(-0.5f), odd3, even3);
    t[7] = fma(set1(5.25f), d[3] - d[5], d[7] - d[1]);
  }
  static PEN_INLINE void outputs(const V* m, V* y) {
    V even = m[1] + m[2], odd = m[1] - m[2], even2 = m[3] + m[4], odd2 = m[3] - m[4], even3 = m[5] + m[6], odd3 = m[5] - m[6];
    y[0] = m[0] + even + even2 + even3;
    y[1] = fma(set1(2.0f), odd2, fma(set1(0.5f), odd3, odd));
    y[2] = fma(set1(4.0f), even2, fma(set1(0.25f), even3, even));
    y[3] = fma(set1(8.0f), odd2, fma(set1(0.125f), odd3, odd));
    y[4] = fma(set1(16.0f), even2, fma(set1(0.0625f), even3, even));
    y[5] = fma(set1(32.0f), odd2, fma(set1(0.03125f), odd3, odd)) + m[7];
  }
};

// Where a tile lies: the batch's image, the interleaved image in it, the tile in that. Tiles are walked in order.
struct TileAt {
  int64_t n, image[2], tile[2];

  PEN_INLINE TileAt(const Winograd& p, int64_t index) {
    tile[1] = index % p.tiles[1];
    index /= p.tiles[1];
    tile[0] = index % p.tiles[0];
    index /= p.tiles[0];
    image[1] = index % p.images[1];
    index /= p.images[1];
    image[0] = index % p.images[0];
    n = index / p.images[0];
  }
  PEN_INLINE void next(const Winograd& p) {
    if (++tile[1] < p.tiles[1]) return;
    tile[1] = 0;
    if (++tile[0] < p.tiles[0]) return;
    tile[0] = 0;
    if (++image[1] < p.images[1]) return;
    image[1] = 0;
    if (++image[0] < p.images[0]) return;
    image[0] = 0;
    ++n;
  }
  // The row or column of its first output.
  PEN_INLINE int64_t first(const Winograd& p, int side) const { return image[side] + tile[side] * p.outputs * p.dilation[side]; }
};

template <bool kWhole>
static PEN_INLINE V load_channels(const float* p, int64_t lanes) {
  return kWhole ? load(p) : load_partial(p, lanes);
}

// One vector of channels of one tile: pixels to points, columns first. `half` stays in the nearest cache.
template <int kOut, bool kWhole>
static PEN_INLINE void transform_pixels(const float* const* pixels, int64_t c, int64_t lanes, float* to, int64_t step) {
  constexpr int kSide = kOut + 2;
  V half[kSide][kSide];
  for (int j = 0; j < kSide; ++j) {
    V d[kSide], t[kSide];
    PEN_UNROLL for (int i = 0; i < kSide; ++i) d[i] = load_channels<kWhole>(pixels[i * kSide + j] + c, lanes);
    Points<kOut>::pixels(d, t);
    PEN_UNROLL for (int i = 0; i < kSide; ++i) half[i][j] = t[i];
  }
  for (int i = 0; i < kSide; ++i) {
    V t[kSide];
    Points<kOut>::pixels(half[i], t);
    PEN_UNROLL for (int j = 0; j < kSide; ++j, to += step) store(to + c, t[j]);
  }
}

// All channels of one tile. Pixels outside of the image are zeros.
template <int kOut>
static void transform_input(const Winograd& p, const Tensor& x, const TileAt& at, const float* zeros, float* to) {
  constexpr int kSide = kOut + 2;
  int64_t pitch = pixel_pitch(x), h = x.dims[2], w = x.dims[3];
  const float* image = x.as<float>() + at.n * x.strides[0];
  const float* pixels[kSide * kSide];
  for (int64_t i = 0; i < kSide; ++i) {
    int64_t iy = tap_at(p, 0, at.first(p, 0), i);
    const float* row = iy >= 0 && iy < h ? image + iy * w * pitch : nullptr;
    for (int64_t j = 0; j < kSide; ++j) {
      int64_t ix = tap_at(p, 1, at.first(p, 1), j);
      pixels[i * kSide + j] = row && ix >= 0 && ix < w ? row + ix * pitch : zeros;
    }
  }
  int64_t c = 0;
  for (; c + kLanes <= p.ci_g; c += kLanes) transform_pixels<kOut, true>(pixels, c, kLanes, to, p.position_floats);
  if (c < p.ci_g) transform_pixels<kOut, false>(pixels, c, p.ci_g - c, to, p.position_floats);
}

// A tile of outputs: what of it exists, and where it goes.
struct Outputs {
  const float *bias, *residual;  // null: none
  float* y;
  int64_t residual_row, residual_step, y_row, y_step;  // floats from an output to the next, down and to the right
  int64_t rows, columns;
  const Activation* act;
};

// One vector of channels of one tile: points to outputs.
template <int kOut, bool kWhole>
static PEN_INLINE void transform_products(const Outputs& o, const float* from, int64_t step, int64_t c, int64_t lanes) {
  constexpr int kSide = kOut + 2;
  V half[kOut][kSide];
  for (int j = 0; j < kSide; ++j) {
    V m[kSide], t[kOut];
    PEN_UNROLL for (int i = 0; i < kSide; ++i) m[i] = load(from + (i * kSide + j) * step + c);
    Points<kOut>::outputs(m, t);
    PEN_UNROLL for (int i = 0; i < kOut; ++i) half[i][j] = t[i];
  }
  V bias = o.bias ? load_channels<kWhole>(o.bias + c, lanes) : zero(), lo = set1(o.act->lo), hi = set1(o.act->hi);
  for (int64_t i = 0; i < o.rows; ++i) {
    V y[kOut];
    Points<kOut>::outputs(half[i], y);
    PEN_UNROLL for (int j = 0; j < kOut; ++j) {
      if (j >= o.columns) break;
      V out = y[j] + bias;
      if (o.residual) out = out + load_channels<kWhole>(o.residual + i * o.residual_row + j * o.residual_step + c, lanes);
      if (o.act->clamped) out = clamp(out, lo, hi);
      float* to = o.y + i * o.y_row + j * o.y_step + c;
      if (kWhole)
        store(to, out);
      else
        store_partial(to, out, lanes);
    }
  }
}

// How many rows or columns of a tile lie inside the output.
static PEN_INLINE int64_t outputs_inside(const Winograd& p, int side, int64_t first, int64_t end) {
  int64_t left = (end - first + p.dilation[side] - 1) / p.dilation[side];
  return left < 0 ? 0 : left < p.outputs ? left : p.outputs;
}

// Output channels [n, n + count) of a tile, with all that follows the convolution.
template <int kOut>
static void transform_output(const Run& r, const TileAt& at, int64_t n, int64_t count, const float* from) {
  const Winograd& p = r.as<Winograd>();
  const Tensor &residual = r.in[3], &y = r.out[0];
  int64_t pitch = pixel_pitch(y), first_y = at.first(p, 0), first_x = at.first(p, 1), first = first_y * y.dims[3] + first_x;
  Outputs o = {};
  o.act = &p.act;
  o.rows = outputs_inside(p, 0, first_y, y.dims[2]);
  o.columns = outputs_inside(p, 1, first_x, y.dims[3]);
  o.y_step = pitch * p.dilation[1];
  o.y_row = pitch * p.dilation[0] * y.dims[3];
  o.y = y.as<float>() + at.n * y.strides[0] + first * pitch + n;
  if (r.in[2].data) o.bias = r.in[2].as<float>() + n;
  if (residual.data) {
    pitch = pixel_pitch(residual);
    o.residual_step = pitch * p.dilation[1];
    o.residual_row = pitch * p.dilation[0] * y.dims[3];
    o.residual = residual.as<float>() + at.n * residual.strides[0] + first * pitch + n;
  }
  int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) transform_products<kOut, true>(o, from, p.product_floats, c, kLanes);
  if (c < count) transform_products<kOut, false>(o, from, p.product_floats, c, count - c);
  if (!p.act.row) return;
  for (int64_t i = 0; i < o.rows; ++i)
    for (int64_t j = 0; j < o.columns; ++j) apply_row(p.act, o.y + i * o.y_row + j * o.y_step, count);
}

// A block's transformed pixels as the rows of a matrix, cut into register tiles: position 0, the others lie at an offset.
static int cut_rows(const Winograd& p, const float* input, float* products, int64_t count, const uint8_t* live, const float** rows,
                    RowTile* tiles) {
  for (int64_t i = 0; i < count; ++i) rows[i] = input + i * p.tile_floats;
  return cut_row_tiles(rows, count, live, products, p.row_floats, nullptr, 0, tiles);
}

template <int kOut>
static PEN_INLINE void run_winograd(const Run& r) {
  const Winograd& p = r.as<Winograd>();
  const Tensor& x = r.in[0];
  const float* zeros = reinterpret_cast<float*>(r.scratch);
  memset(r.scratch, 0, static_cast<size_t>(p.rows_at));
  if (p.tile_tasks && r.phase == 0) {
    Range tiles = {part(p.all_tiles, p.tile_tasks, r.begin).begin, part(p.all_tiles, p.tile_tasks, r.end - 1).end};
    TileAt at(p, tiles.begin);
    for (int64_t t = tiles.begin; t < tiles.end; ++t, at.next(p)) {
      float* block = reinterpret_cast<float*>(r.shared) + t / p.block_tiles * p.block_floats;
      transform_input<kOut>(p, x, at, zeros, block + t % p.block_tiles * p.tile_floats);
    }
    return;
  }

  const float** rows = reinterpret_cast<const float**>(r.scratch + p.rows_at);
  RowTile* tiles = reinterpret_cast<RowTile*>(r.scratch + p.tiles_at);
  float* products = reinterpret_cast<float*>(r.scratch + p.products_at);
  const float* weights = r.in[1].as<float>();
  const uint8_t live = 1;
  const Activation none = {};
  Block product = {};
  product.tiles = tiles;
  product.taps = 1;
  product.tap_k = p.ci_g;
  product.c_pitch = p.row_floats;
  product.act = &none;
  int64_t units = (p.co_g + kColumnUnit - 1) / kColumnUnit;
  int64_t position_weights = (p.co_g + kPanel - 1) / kPanel * kPanel * p.ci_g;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range blocks = part(p.pixel_units, p.pixel_tasks, task / p.column_tasks);
    Range columns = part(units, p.column_tasks, task % p.column_tasks);
    int64_t column_end = columns.end * kColumnUnit < p.co_g ? columns.end * kColumnUnit : p.co_g;
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      int64_t first = i * p.block_tiles, left = p.all_tiles - first, count = left < p.block_tiles ? left : p.block_tiles;
      float* input = reinterpret_cast<float*>(p.tile_tasks ? r.shared + i * p.block_floats * 4 : r.scratch + p.input_at);
      const TileAt block_at(p, first);
      if (!p.tile_tasks) {
        TileAt at = block_at;
        for (int64_t t = 0; t < count; ++t, at.next(p)) transform_input<kOut>(p, x, at, zeros, input + t * p.tile_floats);
      }
      product.tile_count = cut_rows(p, input, products, count, &live, rows, tiles);
      for (int64_t n = columns.begin * kColumnUnit; n < column_end; n += p.chunk) {
        int64_t channels = column_end - n < p.chunk ? column_end - n : p.chunk;
        // Panels are whole, and so are the rows of products: nothing is cut off before the last step.
        product.n = product.n_end = (channels + kPanel - 1) / kPanel * kPanel;
        const float* next = n + channels < p.co_g ? weights + (n + channels) * p.ci_g : nullptr;
        for (int64_t position = 0; position < p.positions; ++position) {
          product.b = weights + position * position_weights + n * p.ci_g;
          product.next_b = position + 1 < p.positions ? product.b + position_weights : next;
          product.a_offset = position * p.position_floats;
          product.c_offset = position * p.product_floats;
          run_block(product);
        }
        TileAt at = block_at;
        for (int64_t t = 0; t < count; ++t, at.next(p)) transform_output<kOut>(r, at, n, channels, products + t * p.row_floats);
      }
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, f32, winograd2) { PEN_ISA::run_winograd<2>(r); }

PEN_KERNEL(conv2d, f32, winograd4) { PEN_ISA::run_winograd<4>(r); }

PEN_KERNEL(conv2d, f32, winograd6) { PEN_ISA::run_winograd<6>(r); }

}  // namespace pen
