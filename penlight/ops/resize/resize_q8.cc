// resize of quantized bytes: vectors over channels, nhwc; a plain map's channels are one value wide. One task is a range of rows. Tails: a
// last vector that reaches back over channels that were computed before; where there are fewer than one, a partial one.
#include "penlight/ops/resize/resize_q8.h"

#include "penlight/runtime/simd/bytes.h"

namespace pen {
namespace PEN_ISA {

struct MixBytes {
  const uint8_t *top, *bottom;  // the pixel's place in two rows
  int64_t next;                 // from a pixel to the one right of it
  V x0, x1, y0, y1, zero, ratio;
  I after;
  bool same;

  // In torch's order: no product is fused with its sum.
  PEN_INLINE I operator()(V a, V b, V c, V d) const {
    V v = y0 * (x0 * a + x1 * b) + y1 * (x0 * c + x1 * d) - zero;
    const V most = set1(65536.0f);
    v = same ? v + zero : v * ratio;
    return round_to_int(max(min(v, most), -most)) + after;
  }
  PEN_INLINE I at(int64_t c) const {
    return (*this)(load_bytes(top + c), load_bytes(top + next + c), load_bytes(bottom + c), load_bytes(bottom + next + c));
  }
  PEN_INLINE I tail(int64_t n) const {
    return (*this)(load_bytes_partial(top, n), load_bytes_partial(top + next, n), load_bytes_partial(bottom, n),
                   load_bytes_partial(bottom + next, n));
  }
};

// One channel: a plain map, whose neighbours no vector holds.
static PEN_INLINE void mix_row_of_single(const ResizeBytes& p, const uint8_t* top, const Neighbours& v, uint8_t* y) {
  const uint8_t* bottom = top + v.next;
  for (int64_t i = 0; i < p.width; ++i) {
    const Neighbours& h = p.places(1)[i];
    const uint8_t *a = top + h.first, *c = bottom + h.first;
    float upper = h.w0 * static_cast<float>(a[0]) + h.w1 * static_cast<float>(a[h.next]);
    float lower = h.w0 * static_cast<float>(c[0]) + h.w1 * static_cast<float>(c[h.next]);
    float mixed = v.w0 * upper + v.w1 * lower - p.zero;
    mixed = p.same ? mixed + p.zero : mixed * p.ratio;
    mixed = mixed < 65536.0f ? mixed : 65536.0f;
    mixed = mixed > -65536.0f ? mixed : -65536.0f;
    mixed += 12582912.0f;  // 1.5 * 2^23: the last bit counts ones
    int32_t nearest;
    memcpy(&nearest, &mixed, 4);
    nearest += p.after - 0x4B400000;
    y[i * p.y.pitch] = static_cast<uint8_t>(nearest < 0 ? 0 : nearest > 255 ? 255 : nearest);
  }
}

static PEN_INLINE void mix_pixel(const MixBytes& mix, int64_t channels, uint8_t* y) {
  if (channels < kLanes) return store_bytes_partial(y, mix.tail(channels), channels);
  int64_t c = 0;
  for (; c + 4 * kLanes <= channels; c += 4 * kLanes)
    store_bytes4(y + c, mix.at(c), mix.at(c + kLanes), mix.at(c + 2 * kLanes), mix.at(c + 3 * kLanes));
  for (; c + kLanes <= channels; c += kLanes) store_bytes(y + c, mix.at(c));
  if (c < channels) store_bytes(y + channels - kLanes, mix.at(channels - kLanes));
}

}  // namespace PEN_ISA

PEN_KERNEL(resize, q8) {
  using namespace PEN_ISA;
  const ResizeBytes& p = r.as<ResizeBytes>();
  const int64_t begin = part(p.rows, p.tasks, r.begin).begin, end = part(p.rows, p.tasks, r.end - 1).end;
  MixBytes mix;
  mix.zero = set1(p.zero);
  mix.ratio = set1(p.ratio);
  mix.after = set1i(p.after);
  mix.same = p.same;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t outer = row / p.height, oh = row % p.height;
    const Neighbours& v = p.places(0)[oh];
    const uint8_t* from = r.in[0].as<uint8_t>() + plane_offset(p.x, outer) + v.first;
    uint8_t* to = r.out[0].as<uint8_t>() + plane_offset(p.y, outer) + oh * p.y.row_step;
    if (p.y.inner == 1) {
      mix_row_of_single(p, from, v, to);
      continue;
    }
    mix.y0 = set1(v.w0);
    mix.y1 = set1(v.w1);
    for (int64_t ow = 0; ow < p.width; ++ow, to += p.y.pitch) {
      const Neighbours& h = p.places(1)[ow];
      mix.top = from + h.first;
      mix.bottom = mix.top + v.next;
      mix.next = h.next;
      mix.x0 = set1(h.w0);
      mix.x1 = set1(h.w1);
      mix_pixel(mix, p.y.inner, to);
    }
  }
}

}  // namespace pen
