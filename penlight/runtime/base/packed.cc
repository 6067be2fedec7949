#include "penlight/runtime/base/packed.h"

namespace pen {

// Bytes of weights: columns by sixteens, K by fours.
[[maybe_unused]] static int64_t quads_bytes(const Tensor& w, int64_t groups) {
  int64_t depth = 1, columns = (w.dims[0] / groups + 15) / 16 * 16, bytes;
  for (int d = 1; d < w.rank; ++d)
    if (w.dims[d] < 0 || __builtin_mul_overflow(depth, w.dims[d], &depth)) return -1;
  if (__builtin_add_overflow(depth, 3, &depth) || __builtin_mul_overflow(columns, groups, &columns) ||
      __builtin_mul_overflow(depth / 4 * 4, columns, &bytes))
    return -1;
  return bytes;
}

int64_t packed_bytes(const char* layout, const Tensor& w, int64_t groups) {
  if (w.rank < 2 || groups < 1 || w.dims[0] % groups != 0) return -1;
  if (kHasBytes && strcmp(layout, "quads16") == 0) return w.dtype == DType::i8 ? quads_bytes(w, groups) : -1;
  int64_t outputs = winograd_outputs(layout);
  bool panels = strcmp(layout, "panel16") == 0 || outputs, taps = strcmp(layout, "taps") == 0;
  if (!panels && !taps && strcmp(layout, "grouped") != 0) return -1;
  if (taps && (w.dims[1] != 1 || w.dims[0] < groups)) return -1;
  if (outputs && (groups != 1 || w.rank != 4 || w.dims[2] != 3 || w.dims[3] != 3)) return -1;
  int64_t columns = w.dims[0] / groups, bytes = kHasBytes && taps && w.dtype == DType::i8 ? 1 : 4;
  if (panels) columns = columns / 16 * 16 + (columns % 16 ? 16 : 0);
  if (__builtin_mul_overflow(columns, groups, &columns)) return -1;
  if (!panels && !taps) columns = columns / 16 * 16 + (columns % 16 ? 16 : 0);
  if (__builtin_mul_overflow(bytes, columns, &bytes)) return -1;
  for (int d = 1; d < w.rank; ++d) {
    int64_t size = outputs && d >= 2 ? outputs + 2 : w.dims[d];
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

int64_t describe_packed(const char* layout, int rank, const int64_t* dims, int64_t groups, Packed* to) {
  bool panels = strcmp(layout, "panel16") == 0 || strcmp(layout, "panel16t") == 0, taps = strcmp(layout, "taps") == 0;
  bool turned = strcmp(layout, "panel16t") == 0 || strcmp(layout, "groupedt") == 0;
  if (!panels && !taps && !turned && strcmp(layout, "grouped") != 0) return -1;
  Tensor w;
  w.rank = rank;
  for (int d = 0; d < rank; ++d)
    if ((w.dims[d] = dims[d]) <= 0) return -1;
  if (turned) {
    if (rank < 2 || groups < 1 || dims[0] % groups != 0 || __builtin_mul_overflow(dims[1], groups, &w.dims[0])) return -1;
    w.dims[1] = dims[0] / groups;
  }
  *to = {panels ? "panel16" : taps ? "taps" : "grouped", turned, groups, w.dims[0], w.dims[1], 1};
  int64_t bytes = packed_bytes(to->layout, w, groups);
  for (int d = 2; bytes > 0 && d < rank; ++d) to->taps *= w.dims[d];
  return bytes;
}

void unpack_weight(const Packed& p, const uint32_t* from, uint32_t* to) {
  bool taps_first = strcmp(p.layout, "taps") == 0;
  int64_t per_group = p.outputs / p.groups, columns = strcmp(p.layout, "panel16") == 0 ? per_group : p.outputs;  // that share panels
  int64_t panels = columns / 16 + (columns % 16 != 0);
  for (int64_t o = 0; o < p.outputs; ++o) {
    int64_t panel = o / columns * panels + o % columns / 16;
    const uint32_t* column = from + panel * p.taps * p.inputs * 16 + o % columns % 16;
    for (int64_t c = 0; c < p.inputs; ++c) {
      int64_t row = p.turned ? (o / per_group * p.inputs + c) * per_group + o % per_group : o * p.inputs + c;
      for (int64_t t = 0; t < p.taps; ++t) to[row * p.taps + t] = taps_first ? from[t * p.outputs + o] : column[(t * p.inputs + c) * 16];
    }
  }
}

}  // namespace pen
