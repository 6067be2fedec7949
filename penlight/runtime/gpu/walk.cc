#include "penlight/runtime/gpu/walk.h"

namespace pen {

void broadcast_strides(const Tensor& t, const Shape& shape, int64_t* strides) {
  for (int d = 0; d < shape.rank; ++d) {
    int own = d - (shape.rank - t.rank);
    strides[d] = own < 0 || (t.dims[own] == 1 && shape.dims[d] != 1) ? 0 : t.strides[own];
  }
}

GpuWalk walk_together(const Shape& shape, const int64_t (*strides)[kMaxRank], int operands) {
  GpuWalk w;
  w.count = operands;
  int order[kMaxRank], rank = 0;
  for (int d = 0; d < shape.rank; ++d) {
    w.n *= shape.dims[d];
    if (shape.dims[d] != 1) order[rank++] = d;
  }
  if (w.n == 0) return w;
  const int64_t* by = strides[operands - 1];
  for (int i = 1; i < rank; ++i)  // by rising stride; among equals the later dim is the inner one
    for (int k = i; k > 0; --k) {
      int a = order[k - 1], b = order[k];
      bool inner = by[b] < by[a] || (by[b] == by[a] && b > a);
      if (!inner) break;
      order[k - 1] = b;
      order[k] = a;
    }
  for (int i = 0; i < rank; ++i) {
    int d = order[i], last = w.rank - 1;
    bool merges = w.rank > 0;
    for (int o = 0; o < operands && merges; ++o) merges = strides[o][d] == w.strides[o][last] * w.dims[last];
    if (merges) {
      w.dims[last] *= shape.dims[d];
      continue;
    }
    w.dims[w.rank] = shape.dims[d];
    for (int o = 0; o < operands; ++o) w.strides[o][w.rank] = strides[o][d];
    ++w.rank;
  }
  if (!w.rank) {
    w.rank = 1;
    w.dims[0] = 1;
    for (int o = 0; o < operands; ++o) w.strides[o][0] = 1;
  }
  return w;
}

// Words that an element of a copy has: f32 is one of T, i64 two of 32 bits; bytes go by four, in their target's order.
Status dispatch_copy(Gpu& b, const Tensor& from, const Operand& source, const Tensor& to, const Operand& target, int64_t first, bool part) {
  Shape shape = shape_of(to);
  int64_t strides[2][kMaxRank] = {};
  for (int d = 0; d < shape.rank; ++d) {
    strides[0][d] = from.strides[d];
    strides[1][d] = to.strides[d];
  }
  GpuWalk w = walk_together(shape, strides, 2);
  if (w.n == 0) return PEN_OK;
  int64_t size = dtype_size(to.dtype);
  auto fill = [&](auto* s, int64_t words) {
    s->push.n = static_cast<uint32_t>(w.n * words);
    s->push.words = static_cast<uint32_t>(words);
    for (int d = 0; d < 8; ++d) {
      s->push.dims[d] = static_cast<uint32_t>(d < w.rank ? w.dims[d] : 1);
      s->push.x_strides[d] = static_cast<uint32_t>(d < w.rank ? w.strides[0][d] * words : 0);
      s->push.y_strides[d] = static_cast<uint32_t>(d < w.rank ? w.strides[1][d] * words : 0);
    }
    s->push.x_at = static_cast<uint32_t>(first);
    s->RANK = static_cast<uint32_t>(w.rank);
  };
  if (to.dtype == DType::f32) {
    shader::Copy s;
    fill(&s, 1);
    s.FOURS = first == 0 && w.dense(0) && w.dense(1) && w.n % 4 == 0 && source.offset % 16 == 0 && target.offset % 16 == 0;
    return b.dispatch(s, {source, target}, rounds(ceil_div(w.n, s.FOURS ? 4 : 1), 128));
  }
  if (size == 4 || size == 8) {
    shader::CopyWords s;
    fill(&s, size / 4);
    return b.dispatch(s, {source, target}, rounds(w.n * size / 4, 128));
  }
  if (size == 1) {
    shader::CopyBytes s;
    fill(&s, 1);
    s.STRIDED = part || !w.in_order(1) || target.offset % 4 != 0;
    return b.dispatch(s, {source, target}, rounds(s.STRIDED ? w.n : ceil_div(w.n, 4), 128));
  }
  return b.fail(-1, "elements of one, four or eight bytes", "of %lld", static_cast<long long>(size));
}

}  // namespace pen
