// embedding, gather, index, index_select, and scatter and index_put, on a GPU: where indices point is found first, and told as a fault
// where that is outside; then elements are moved.
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/gpu/walk.h"

namespace pen {
namespace {

static uint32_t u(int64_t n) { return static_cast<uint32_t>(n); }

// `index`, broadcast to `shape`, times the stride: added to `places`, unless it is the first.
Status find_places(Gpu& b, int input, const Shape& shape, int64_t size, int64_t stride, bool negative, bool first, const Operand& places) {
  int64_t strides[2][kMaxRank] = {};
  broadcast_strides(b.in(input), shape, strides[0]);
  int64_t dense = 1;
  for (int d = shape.rank - 1; d >= 0; --d) {
    strides[1][d] = dense;
    dense *= shape.dims[d];
  }
  GpuWalk w = walk_together(shape, strides, 2);
  shader::Places s;
  s.WORDS = u(dtype_size(b.in(input).dtype) / 4);
  s.FIRST = first, s.NEGATIVE = negative, s.RANK = u(w.rank);
  s.push.n = u(w.n), s.push.size = u(size), s.push.stride = u(stride);
  s.push.step = u(b.state->step_index), s.push.input_number = u(input);
  for (int d = 0; d < w.rank; ++d) s.push.dims[d] = u(w.dims[d]), s.push.strides[d] = u(w.strides[0][d]);
  return b.dispatch(s, {b.reads(input), places, b.faults()}, rounds(w.n, 128));
}

int64_t numel(const Shape& shape) {
  int64_t n = 1;
  for (int d = 0; d < shape.rank; ++d) n *= shape.dims[d];
  return n;
}

// One walk over all elements: strides of x, places and y.
struct Moves {
  Shape shape;
  int64_t strides[3][kMaxRank] = {};
  void add(int64_t dim, int64_t x, int64_t place, int64_t y) {
    strides[0][shape.rank] = x, strides[1][shape.rank] = place, strides[2][shape.rank] = y;
    shape.dims[shape.rank++] = dim;
  }
};

Status dispatch_take(Gpu& b, const Moves& m, const Operand& places) {
  GpuWalk w = walk_together(m.shape, m.strides, 3);
  if (w.n == 0) return PEN_OK;
  shader::Take s;
  if (w.rank > 7) return b.fail(-1, "at most 7 dims that do not merge, on this device", "%d", w.rank);
  s.KIND = gpu_kind(b.out(0).dtype), s.RANK = u(w.rank);
  s.push.n = u(w.n);
  for (int d = 0; d < w.rank; ++d) {
    s.push.dims[d] = u(w.dims[d]);
    s.push.x_strides[d] = u(w.strides[0][d]), s.push.place_strides[d] = u(w.strides[1][d]), s.push.y_strides[d] = u(w.strides[2][d]);
  }
  return b.dispatch(s, {b.reads(0), places, b.writes(0)}, rounds(w.n, 128));
}

// `m`: of the lines; each has `count` indices, with what lies between them in x and in the places.
Status dispatch_put(Gpu& b, const Moves& m, int64_t count, int64_t x_step, int64_t place_step, const Operand& source,
                    const Operand& places) {
  static constexpr const char* kHow[] = {"", "add", "mul", "max", "min"};
  GpuWalk w = walk_together(m.shape, m.strides, 3);
  if (w.n == 0) return PEN_OK;
  shader::Put s;
  if (w.rank > 6) return b.fail(-1, "at most 6 dims that do not merge, on this device", "%d", w.rank);
  s.KIND = gpu_kind(b.out(0).dtype), s.RANK = u(w.rank);
  const char* dot = b.key();
  while (*dot != '.') ++dot;
  for (int i = 0; i < 5 && dot[1] != 'b'; ++i)  // keys by size ("b32") only put, on the CPU too
    if (strcmp(b.text("reduce"), kHow[i]) == 0) s.HOW = u(i);
  s.push.n = u(w.n), s.push.count = u(count), s.push.x_step = u(x_step), s.push.place_step = u(place_step);
  for (int d = 0; d < w.rank; ++d) {
    s.push.dims[d] = u(w.dims[d]);
    s.push.x_strides[d] = u(w.strides[0][d]), s.push.place_strides[d] = u(w.strides[1][d]), s.push.y_strides[d] = u(w.strides[2][d]);
  }
  return b.dispatch(s, {source, places, b.writes(0)}, rounds(w.n, 64));
}

// Index tensors from `first_input` on, for neighbouring dims of x from `at` on. `t`: whose strides count.
Status all_places(Gpu& b, int first_input, int64_t at, bool negative, const Tensor& t, Shape* shape, Operand* places) {
  int count = b.input_count() - first_input;
  for (int k = 0; k < count; ++k) broadcast(shape, b.in(first_input + k).dims, b.in(first_input + k).rank);
  int64_t n = numel(*shape);
  if (n == 0) return PEN_OK;
  PEN_TRY(b.scratch(DType::i32, n, places));
  for (int k = 0; k < count; ++k)
    PEN_TRY(find_places(b, first_input + k, *shape, t.dims[at + k], t.strides[at + k], negative, k == 0, *places));
  return PEN_OK;
}

Status index_on_gpu(Gpu& b, int64_t at, bool negative) {
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  const Tensor &x = b.in(0), &y = b.out(0);
  int count = b.input_count() - 1;
  Shape shape;
  Operand places = b.none();
  PEN_TRY(all_places(b, 1, at, negative, x, &shape, &places));
  if (y.numel() == 0) return PEN_OK;
  Moves m;
  int64_t n = numel(shape), after = 1;
  for (int d = static_cast<int>(at) + count; d < x.rank; ++d) after *= x.dims[d];
  for (int d = 0; d < at; ++d) m.add(x.dims[d], x.strides[d], 0, y.strides[d]);
  m.add(n, 0, 1, after);
  for (int d = static_cast<int>(at) + count; d < x.rank; ++d) m.add(x.dims[d], x.strides[d], 0, y.strides[d - count + shape.rank]);
  return dispatch_take(b, m, places);
}

// A copy of x, which elements are put into.
Status copy_first(Gpu& b) {
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  return dispatch_copy(b, b.in(0), b.reads(0), b.out(0), b.writes(0));
}

}  // namespace

PEN_GPU(index, "b8 b32 b64") { return index_on_gpu(b, b.integer("at"), true); }
PEN_GPU(index_select, "b8 b32 b64") { return index_on_gpu(b, b.integer("dim"), false); }
PEN_GPU(embedding, "b8 b32 b64") { return index_on_gpu(b, 0, false); }

PEN_GPU(gather, "b8 b32 b64") {
  PEN_TRY(b.output(0));
  const Tensor &x = b.in(0), &y = b.out(0);
  int64_t dim = b.integer("dim"), n = y.numel();
  if (n == 0) return PEN_OK;
  Operand places;
  PEN_TRY(b.scratch(DType::i32, n, &places));
  PEN_TRY(find_places(b, 1, shape_of(y), x.dims[dim], x.strides[dim], false, true, places));
  Moves m;
  for (int d = 0; d < y.rank; ++d) {
    n /= y.dims[d];
    m.add(y.dims[d], d == dim ? 0 : x.strides[d], n, y.strides[d]);
  }
  return dispatch_take(b, m, places);
}

PEN_GPU(scatter, "b8 b32 b64 f32 i32 i64") {
  PEN_TRY(copy_first(b));
  const Tensor &index = b.in(1), &src = b.in(2), &y = b.out(0);
  int64_t dim = b.integer("dim"), n = index.numel(), place_step = 1;
  if (n == 0) return PEN_OK;
  Operand places;
  PEN_TRY(b.scratch(DType::i32, n, &places));
  PEN_TRY(find_places(b, 1, shape_of(index), y.dims[dim], y.strides[dim], false, true, places));
  Moves m;
  for (int d = 0; d < y.rank; ++d) {
    n /= index.dims[d];
    if (d == dim)
      place_step = n;
    else
      m.add(index.dims[d], src.strides[d], n, y.strides[d]);
  }
  return dispatch_put(b, m, index.dims[dim], src.strides[dim], place_step, b.reads(2), places);
}

PEN_GPU(index_put, "b8 b32 b64 f32 i32 i64") {
  PEN_TRY(b.need(1, Need::dense));
  PEN_TRY(copy_first(b));
  const Tensor &value = b.in(1), &y = b.out(0);
  int64_t at = b.integer("at");
  int count = b.input_count() - 2;
  Shape shape;
  Operand places = b.none();
  PEN_TRY(all_places(b, 2, at, true, y, &shape, &places));
  int64_t n = numel(shape), after = 1;
  if (value.numel() == 0) return PEN_OK;
  Moves m;
  for (int d = static_cast<int>(at) + count; d < y.rank; ++d) after *= y.dims[d];
  for (int d = 0; d < at; ++d) m.add(y.dims[d], value.strides[d], 0, y.strides[d]);
  for (int d = static_cast<int>(at) + count; d < y.rank; ++d) m.add(y.dims[d], value.strides[d - count + shape.rank], 0, y.strides[d]);
  return dispatch_put(b, m, n, after, 1, b.reads(1), places);
}

}  // namespace pen
