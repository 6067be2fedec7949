// Where index tensors point: they are broadcast to one shape, each tells the place in one of `count` neighbouring dims of x,
// from `at` on. Offsets into x are computed and checked once per run, into memory that the operator shares.
#pragma once
#include "penlight/ops/index/walk.h"

namespace pen {

struct Places {
  int count, first_input;
  bool negative;  // whether negative indices count from the end
  Shape shape;    // the broadcast one
  int64_t numel, tasks;
  int64_t size[kMaxRank], stride[kMaxRank];  // of x's dims
  int64_t steps[kMaxRank][kMaxRank];         // of the index tensors, along `shape`
};

// For shape rules: the index tensors are the inputs from `first_input` on, x is input 0.
static PEN_INLINE Status places_shape(const Given& g, int first_input, int64_t at, Shape* shape) {
  const Tensor& x = g.in(0);
  int count = g.input_count() - first_input;
  if (count < 1) return g.fail(-1, "an index tensor or more", "none");
  if (at < 0 || at > x.rank - count)
    return g.fail(0, "a dim for every index tensor", "rank %d, indices from dim %lld on", x.rank, static_cast<long long>(at));
  for (int k = 0; k < count; ++k) {
    PEN_TRY(check_long_indices(g, first_input + k));
    const Tensor& index = g.in(first_input + k);
    int wrong = broadcast(shape, index.dims, index.rank);
    if (wrong >= 0)
      return g.fail(first_input + k, "a shape that can be broadcast with the other indices", "%lld in dim %d",
                    static_cast<long long>(index.dims[wrong]), wrong);
  }
  int64_t numel = 1;
  for (int d = 0; d < shape->rank; ++d) {
    if (__builtin_mul_overflow(numel, shape->dims[d] > 1 ? shape->dims[d] : 1, &numel) || numel > int64_t{1} << 44)
      return g.fail(first_input, "at most 2**44 indices", "more");
  }
  for (int k = 0; k < count && !is_empty(*shape); ++k) {
    if (x.dims[at + k] == 0)
      return g.fail(first_input + k, "no indices, into a dim of size 0", "%lld of them", static_cast<long long>(numel));
  }
  return PEN_OK;
}

static PEN_INLINE Status bind_places(Bind& b, Places* p, int first_input, int64_t at, bool negative) {
  p->count = b.input_count() - first_input;
  p->first_input = first_input;
  p->negative = negative;
  for (int k = 0; k < p->count; ++k) {
    PEN_TRY(b.need_plain(first_input + k));
    broadcast(&p->shape, b.in(first_input + k).dims, b.in(first_input + k).rank);
    p->size[k] = b.in(0).dims[at + k];
  }
  for (int k = 0; k < p->count; ++k) {
    const Tensor& index = b.in(first_input + k);
    for (int d = 0; d < p->shape.rank; ++d) p->steps[k][d] = broadcast_stride(p->shape, d, index, index.rank);
  }
  p->numel = !is_empty(p->shape);
  for (int d = 0; d < p->shape.rank && p->numel; ++d) p->numel *= p->shape.dims[d];
  p->tasks = p->numel == 0 ? 0 : task_count(p->numel, 16384);
  return PEN_OK;
}

// The strides that offsets are made with: those of the tensor that is read or written.
static PEN_INLINE void place_in(Places* p, const Tensor& t, int64_t at) {
  for (int k = 0; k < p->count; ++k) p->stride[k] = t.strides[at + k];
}

// The offsets of places [begin, end).
static inline __attribute__((unused)) void find_places(const Run& r, const Places& p, int64_t begin, int64_t end, int64_t* offsets) {
  for (int k = 0; k < p.count; ++k) {
    Walk walk = {};
    int64_t dense = p.numel;
    for (int d = 0; d < p.shape.rank; ++d) {
      dense /= p.shape.dims[d];
      walk.add(p.shape.dims[d], p.steps[k][d], dense, 0);
    }
    walk.close();
    const int64_t size = p.size[k], stride = p.stride[k], low = p.negative ? -size : 0, step = walk.steps[0][walk.rank - 1];
    walk.rows(begin, end, [&](int64_t n, const int64_t* at) {
      const int64_t* index = r.in[p.first_input + k].as<int64_t>() + at[0];
      int64_t* to = offsets + (at[1] - begin);
      for (int64_t i = 0; i < n; ++i) {
        int64_t place = index[i * step];
        if (PEN_UNLIKELY(place < low || place >= size)) {
          r.fail_index(p.first_input + k, place, low, size);
          place = 0;
        }
        place = (place < 0 ? place + size : place) * stride;
        to[i] = k == 0 ? place : to[i] + place;
      }
    });
  }
}

// All of them into r.shared: in one phase, before they are used.
static inline __attribute__((unused)) void find_places(const Run& r, const Places& p) {
  int64_t begin = part(p.numel, p.tasks, r.begin).begin, end = part(p.numel, p.tasks, r.end - 1).end;
  find_places(r, p, begin, end, reinterpret_cast<int64_t*>(r.shared) + begin);
}

}  // namespace pen
