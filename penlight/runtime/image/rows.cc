// Colours to floats, row by row, compiled for each instruction set. Pieces of a row are computed in three planes of kPiece floats: straight
// into the result where that has planes, else on the stack and zipped from there.
#include "penlight/runtime/image/walk.h"
#include "penlight/runtime/simd/transpose.h"

namespace pen {
namespace PEN_ISA {

using image::Axis;
using image::Factors;
constexpr int kPiece = 256;
constexpr int kRoom = kPiece + kLanes;  // whole vectors past the end of a piece

// Three planes of n <= kPiece floats to pixels.
static PEN_INLINE void zip(const float (*planes)[kRoom], int64_t n, float* out) {
  int64_t i = 0;
#if PEN_FOUR_PIXELS
  for (; i + 4 < n; i += 4)
    interleave_pixels(reinterpret_cast<const uint32_t*>(&planes[0][i]), kRoom, reinterpret_cast<uint32_t*>(out + 3 * i));
#endif
  for (; i < n; ++i)
    for (int c = 0; c < 3; ++c) out[3 * i + c] = planes[c][i];
}

// Where a piece goes: colour(i, V[3]) computes kLanes pixels from the i-th on.
template <class Colour>
static PEN_INLINE void write_piece(const Factors& f, int64_t n, float* out, int64_t plane, Colour colour) {
  V scale[3], shift[3];
  PEN_UNROLL
  for (int c = 0; c < 3; ++c) scale[c] = set1(f.scale[c]), shift[c] = set1(f.shift[c]);
  float zipped[3][kRoom];
  int64_t i = 0, whole = f.channels_last ? n : n - n % kLanes;
  for (; i < whole; i += kLanes) {
    V rgb[3];
    colour(i, rgb);
    PEN_UNROLL
    for (int c = 0; c < 3; ++c) store(f.channels_last ? &zipped[c][i] : out + c * plane + i, fma(rgb[c], scale[c], shift[c]));
  }
  if (f.channels_last) return zip(zipped, n, out);
  if (i == n) return;
  V rgb[3];
  colour(i, rgb);
  PEN_UNROLL
  for (int c = 0; c < 3; ++c) store_partial(out + c * plane + i, fma(rgb[c], scale[c], shift[c]), n - i);
}

void image_argb(const uint32_t* pixels, int64_t stride, int64_t width, int64_t height, int64_t plane, const Factors& f, float* out) {
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; x += kPiece) {
      int64_t n = width - x < kPiece ? width - x : kPiece;
      const int32_t* from = reinterpret_cast<const int32_t*>(pixels + y * stride + x);
      float* to = out + (y * width + x) * (f.channels_last ? 3 : 1);
      write_piece(f, n, to, plane, [&](int64_t i, V* rgb) {
        I c;
        if (i + kLanes <= n)
          c = load_ints(from + i);
        else  // the last pixels lie where the memory may end
          c = bits(load_partial(reinterpret_cast<const float*>(from + i), n - i));
        I low = set1i(255);
        rgb[0] = to_float((c >> 16) & low);
        rgb[1] = to_float((c >> 8) & low);
        rgb[2] = to_float(c & low);
      });
    }
  }
}

// Whole numbers of 10 bits after the point, as the original computes them; floats hold them exactly.
void image_yuv(const uint8_t* const planes[3], const Axis& columns, const Axis& rows, int64_t width, int64_t height, const Factors& f,
               float* out) {
  int64_t plane = width * height;
  int32_t at[3][kRoom], yuv[3][kRoom] = {};
  // Of a picture that is turned, every pixel of a piece lies in a cache line of its own, which the next rows read again.
  int64_t piece = columns.step[0] > 16 ? 64 : kPiece;
  for (int64_t x = 0; x < width; x += piece) {
    int64_t n = width - x < piece ? width - x : piece;
    for (int64_t i = 0; i < n; ++i) {
      int32_t place = image::place(columns, x + i);
      for (int p = 0; p < 3; ++p) at[p][i] = static_cast<int32_t>(image::offset(columns, place, p));
    }
    int32_t chroma = -1;  // the row whose U and V are there already: neighbours often share them
    for (int64_t y = 0; y < height; ++y) {
      int32_t place = image::place(rows, y);
      for (int p = place >> 1 == chroma ? 0 : 2; p >= 0; --p) {
        const uint8_t* row = planes[p] + image::offset(rows, place, p);
        for (int64_t i = 0; i < n; ++i) yuv[p][i] = row[at[p][i]];
      }
      chroma = place >> 1;
      write_piece(f, n, out + (y * width + x) * (f.channels_last ? 3 : 1), plane, [&](int64_t i, V* rgb) {
        V luma = (to_float(load_ints(&yuv[0][i])) - set1(16.0f)) * set1(1192.0f);
        V u = to_float(load_ints(&yuv[1][i])) - set1(128.0f), v = to_float(load_ints(&yuv[2][i])) - set1(128.0f);
        rgb[0] = luma + v * set1(1634.0f);
        rgb[1] = luma - v * set1(832.0f) - u * set1(400.0f);
        rgb[2] = luma + u * set1(2066.0f);
        PEN_UNROLL
        for (int c = 0; c < 3; ++c) rgb[c] = clamp(floor(rgb[c] * set1(1.0f / 1024)), zero(), set1(255.0f));
      });
    }
  }
}

}  // namespace PEN_ISA
}  // namespace pen
