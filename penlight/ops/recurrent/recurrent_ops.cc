// lstm, gru, rnn_tanh, rnn_relu and their cells of the VM, over padded batches and over packed sequences. A layer goes through its
// steps in blocks of one batch size: a padded batch is one block, a packed sequence as many as it has lengths.
#include "penlight/ops/matmul/product.h"
#include "penlight/ops/recurrent/layers.h"
#include "penlight/runtime/vm/flat.h"
#include "penlight/runtime/vm/packing.h"

namespace pen {

namespace {

Value view_of(const TensorObject& t, int rank, const int64_t* dims, const int64_t* strides, int64_t elements) {
  return Value::own(tensor_view(t, rank, dims, strides, t.offset + elements * dtype_size(t.dtype())));
}
// The first rows of a matrix.
Value top_rows(const TensorObject& t, int64_t rows) {
  int64_t dims[] = {rows, t.dim(1)};
  return view_of(t, 2, dims, t.shape.strides, 0);
}

Status need_matrix(const Call& c, const TensorObject& t, int64_t rows, int64_t columns, const char* what) {
  if (t.rank() == 2 && (rows < 0 || t.dim(0) == rows) && t.dim(1) == columns) return PEN_OK;
  char expected[96];
  set_text(expected, sizeof expected, "%s of [%lld, %lld]", what, static_cast<long long>(rows), static_cast<long long>(columns));
  return c.fail(expected, "rank %d, [%lld, %lld]", t.rank(), static_cast<long long>(t.rank() > 0 ? t.dim(0) : 1),
                static_cast<long long>(t.rank() > 1 ? t.dim(1) : 1));
}

// The layer's weights fit each other, x and the states.
Status check_layer(const Call& c, const Layer& l, DType dtype, int64_t features, int64_t state, int64_t hidden) {
  int64_t gates = gate_count(l.cell) * hidden;
  PEN_TRY(need_matrix(c, *l.w_ih, gates, features, "a weight w_ih"));
  PEN_TRY(need_matrix(c, *l.w_hh, gates, state, "a weight w_hh"));
  if (l.w_hr) PEN_TRY(need_matrix(c, *l.w_hr, state, hidden, "a projection"));
  if (!l.w_hr && state != hidden)
    return c.fail("states of one size without a projection", "%lld and %lld", static_cast<long long>(state),
                  static_cast<long long>(hidden));
  const TensorObject* all[] = {l.w_ih, l.w_hh, l.b_ih, l.b_hh, l.w_hr};
  for (int i = 0; i < 5; ++i) {
    if (!all[i]) continue;
    DType wanted = i < 2 && l.products ? l.products->weights : dtype;
    if (all[i]->dtype() != wanted)
      return c.fail(l.products ? "weights of the dtype of their product" : "weights of the input's dtype", "%s and %s",
                    dtype_name(all[i]->dtype()), dtype_name(wanted));
    if ((i == 2 || i == 3) && (all[i]->rank() != 1 || all[i]->dim(0) != gates))
      return c.fail("a bias for each gate", "rank %d", all[i]->rank());
  }
  return PEN_OK;
}

// LayerProducts of floats.
Status input_gates(const Call& c, const Layer& l, const TensorObject& x, Value* to) {
  Graph g(c);
  DType carrier = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  auto in = [&](const TensorObject* t) { return g.input(*t, carrier); };
  int bias = l.b_ih ? in(l.b_ih) : -1;
  if (l.cell != Cell::gru && l.b_hh) bias = bias < 0 ? in(l.b_hh) : g.node(Key("add", carrier), bias, in(l.b_hh));
  int y;
  if (carrier == DType::f32) {
    int weight;
    PEN_TRY(pack_weight(c, &g, *l.w_ih, l.w_ih->view(), false, "panel16", 1, &weight));
    y = g.node("linear.f32", in(&x), weight, bias, -1);
    g.text("act", "").numbers("act_args", nullptr, 0);
  } else {
    int64_t turned[] = {l.w_ih->dim(1), l.w_ih->dim(0)}, strides[] = {l.w_ih->shape.strides[1], l.w_ih->shape.strides[0]};
    Value w = view_of(*l.w_ih, 2, turned, strides, 0);
    if (w.is_none()) return c.out_of_memory();
    Product p;
    PEN_TRY(add_product(c, &g, x, *w.tensor(), &p));
    y = bias < 0 ? g.copy(p.value, carrier) : g.node("add.f64", p.value, bias);
    PEN_TRY(g.run(y));
    *to = Value::own(g.take(0));
    return PEN_OK;
  }
  PEN_TRY(g.run(y));
  *to = Value::own(g.take(0));
  return PEN_OK;
}

double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// One block in double precision. gates [n, B, G]; y [n, B, P]; states are changed in place. All row-major.
Status block_doubles(const Call& c, const Layer& l, const TensorObject& gates, TensorObject* h, TensorObject* cell, Value* y) {
  int64_t n = gates.dim(0), batch = gates.dim(1), width = gates.dim(2), hidden = width / gate_count(l.cell), state = h->dim(1);
  int64_t dims[] = {n, batch, state}, spare = width + hidden;
  Value made = Value::own(tensor_create(DType::f64, 3, dims)), w, b, projection, room = Value::own(tensor_create(DType::f64, 1, &spare)),
        in;
  if (made.is_none() || room.is_none()) return c.out_of_memory();
  PEN_TRY(elements_of(c, gates, DType::f64, &in));
  PEN_TRY(elements_of(c, *l.w_hh, DType::f64, &w));
  if (l.cell == Cell::gru && l.b_hh) PEN_TRY(elements_of(c, *l.b_hh, DType::f64, &b));
  if (l.w_hr) PEN_TRY(elements_of(c, *l.w_hr, DType::f64, &projection));
  double *a = room.tensor()->as<double>(), *next = a + width;
  for (int64_t step = 0; step < n; ++step) {
    int64_t t = l.reverse ? n - 1 - step : step;
    for (int64_t row = 0; row < batch; ++row) {
      const double* x = in.tensor()->as<double>() + (t * batch + row) * width;
      double *hs = h->as<double>() + row * state, *cs = cell ? cell->as<double>() + row * hidden : nullptr;
      for (int64_t i = 0; i < width; ++i) {
        double sum = b.is_none() ? 0 : b.tensor()->as<double>()[i];
        for (int64_t j = 0; j < state; ++j) sum += w.tensor()->as<double>()[i * state + j] * hs[j];
        a[i] = l.cell == Cell::gru ? sum : x[i] + sum;
      }
      for (int64_t i = 0; i < hidden; ++i) {
        if (l.cell == Cell::lstm) {
          cs[i] = sigmoid(a[hidden + i]) * cs[i] + sigmoid(a[i]) * tanh(a[2 * hidden + i]);
          next[i] = sigmoid(a[3 * hidden + i]) * tanh(cs[i]);
        } else if (l.cell == Cell::gru) {
          double r = sigmoid(x[i] + a[i]), z = sigmoid(x[hidden + i] + a[hidden + i]), m = tanh(x[2 * hidden + i] + r * a[2 * hidden + i]);
          next[i] = (1 - z) * m + z * hs[i];
        } else {
          next[i] = l.cell == Cell::tanh ? tanh(a[i]) : a[i] > 0 || a[i] != a[i] ? a[i] : 0;
        }
      }
      double* out = made.tensor()->as<double>() + (t * batch + row) * state;
      for (int64_t i = 0; i < state; ++i) {
        double v = l.w_hr ? 0 : next[i];
        for (int64_t j = 0; l.w_hr && j < hidden; ++j) v += projection.tensor()->as<double>()[i * hidden + j] * next[j];
        out[i] = hs[i] = v;
      }
    }
  }
  *y = static_cast<Value&&>(made);
  return PEN_OK;
}

Status block(const Call& c, const Layer& l, const TensorObject& gates, TensorObject* h, TensorObject* cell, Value* y) {
  if (gates.dtype() == DType::f64) return block_doubles(c, l, gates, h, cell, y);
  Graph g(c);
  auto packed = [&](const TensorObject* w, int* value) { return pack_weight(c, &g, *w, w->view(), false, "panel16", 1, value); };
  int x = g.input(gates), before = g.input(*h), weight, projection = -1;
  PEN_TRY(packed(l.w_hh, &weight));
  if (l.w_hr) PEN_TRY(packed(l.w_hr, &projection));
  int out;
  if (l.cell == Cell::lstm) {
    out = g.node("lstm.f32", x, weight, before, *cell, projection);
  } else if (l.cell == Cell::gru) {
    out = g.node("gru.f32", x, weight, before, l.b_hh ? g.input(*l.b_hh, DType::f32) : -1);
  } else {
    out = g.node("rnn.f32", x, weight, before);
  }
  g.flag("reverse", l.reverse);
  if (l.cell == Cell::tanh || l.cell == Cell::relu) g.text("nonlinearity", l.cell == Cell::tanh ? "tanh" : "relu");
  return take_steps(c, &g, out, h, cell, y);
}

// Numbers of rows at each step: one number for all of a padded batch.
struct Steps {
  int64_t count, batch;  // steps, rows at the most
  const int64_t* sizes;  // of each step, never growing; null: all are `batch`
  int64_t at(int64_t t) const { return sizes ? sizes[t] : batch; }
};

// One layer in one direction over x [rows, F] (all steps after each other); y [rows, P]. h, cell: [B, …], changed in place.
Status run_layer(const Call& c, const Layer& l, const TensorObject& x, const Steps& steps, TensorObject* h, TensorObject* cell, Value* y) {
  Value gates;
  PEN_TRY(check_layer(c, l, x.dtype(), x.dim(1), h->dim(1), cell ? cell->dim(1) : h->dim(1)));
  PEN_TRY((l.products ? l.products->input : input_gates)(c, l, x, &gates));
  int64_t rows = x.dim(0), state = h->dim(1), width = gates.tensor()->dim(1), dims[] = {rows, state};
  Value made = Value::own(tensor_create(gates.tensor()->dtype(), 2, dims));
  if (made.is_none()) return c.out_of_memory();
  int64_t done = 0, t = l.reverse ? steps.count : 0, row = l.reverse ? rows : 0;
  while (done < steps.count) {
    int64_t n = 0, size = steps.at(l.reverse ? t - 1 : t);
    while (done + n < steps.count && steps.at(l.reverse ? t - 1 - n : t + n) == size) ++n;
    if (l.reverse) row -= n * size;
    int64_t block_dims[] = {n, size, width}, block_strides[] = {size * width, width, 1};
    Value part = view_of(*gates.tensor(), 3, block_dims, block_strides, row * width), result;
    Value hs = top_rows(*h, size), cs = cell ? top_rows(*cell, size) : Value();
    if (part.is_none() || hs.is_none() || (cell && cs.is_none())) return c.out_of_memory();
    PEN_TRY((l.products ? l.products->steps : block)(c, l, *part.tensor(), hs.tensor(), cell ? cs.tensor() : nullptr, &result));
    int64_t to_dims[] = {n, size, state}, to_strides[] = {size * state, state, 1};
    Value to = view_of(*made.tensor(), 3, to_dims, to_strides, row * state);
    if (to.is_none()) return c.out_of_memory();
    PEN_TRY(copy_into(c, to.tensor(), *result.tensor()));
    done += n;
    t += l.reverse ? -n : n;
    if (!l.reverse) row += n * size;
  }
  *y = static_cast<Value&&>(made);
  return PEN_OK;
}

struct Network {
  Cell cell;
  LayerOf layer_of;
  ListObject* params;
  bool biases, bidirectional;
  int64_t layers;
  double dropout;  // between layers; 0 outside of training
};

Status drop(const Call& c, double p, Value* x);

// x [rows, F]; states [layers * directions, B, …] (the second null unless lstm). Gives y [rows, directions * P] and new states.
Status run_network(const Call& c, const Network& n, const TensorObject& x, const Steps& steps, const TensorObject& h0,
                   const TensorObject* c0, Value* y, Value* h_n, Value* c_n) {
  int directions = n.bidirectional ? 2 : 1;
  if (n.layers < 1 || n.layers > 1 << 16) return c.fail("a number of layers of 1 or more", "%lld", static_cast<long long>(n.layers));
  int64_t count = n.layers * directions;
  DType dtype = x.dtype(), carrier = dtype == DType::f64 ? DType::f64 : DType::f32;
  if (!is_floating(dtype)) return c.fail("floats", "%s", dtype_name(dtype));
  const TensorObject* states[] = {&h0, c0};
  Value last[2], now = Value::share(const_cast<TensorObject*>(&x));
  for (int i = 0; i < 2 && states[i]; ++i) {
    const TensorObject& s = *states[i];
    if (s.rank() != 3 || s.dim(0) != count || s.dim(1) != steps.batch)
      return c.fail("states [layers * directions, batch, size]", "rank %d, or other sizes", s.rank());
    if (s.dtype() != dtype) return c.fail("states of the input's dtype", "%s and %s", dtype_name(s.dtype()), dtype_name(dtype));
    Status status;
    last[i] = Value::own(tensor_cast(c, s, carrier, &status));
    PEN_TRY(status);
  }
  for (int64_t layer = 0; layer < n.layers; ++layer) {
    Value made;
    for (int d = 0; d < directions; ++d) {
      int64_t index = layer * directions + d;
      Layer l = {};
      PEN_TRY(n.layer_of(c, n.cell, *n.params, n.biases, index, count, &l));
      l.cell = n.cell;
      l.reverse = d == 1;
      Value state[2], out;
      for (int i = 0; i < 2 && states[i]; ++i) {
        const TensorObject& s = *last[i].tensor();
        state[i] = view_of(s, 2, s.shape.dims + 1, s.shape.strides + 1, index * s.shape.strides[0]);
        if (state[i].is_none()) return c.out_of_memory();
      }
      PEN_TRY(run_layer(c, l, *now.tensor(), steps, state[0].tensor(), c0 ? state[1].tensor() : nullptr, &out));
      if (directions == 1) {
        made = static_cast<Value&&>(out);
        continue;
      }
      int64_t size = out.tensor()->dim(1), dims[] = {x.dim(0), 2 * size}, half[] = {x.dim(0), size}, strides[] = {2 * size, 1};
      if (d == 0) made = Value::own(tensor_create(carrier, 2, dims));
      Value to = made.is_none() ? Value() : view_of(*made.tensor(), 2, half, strides, d * size);
      if (to.is_none()) return c.out_of_memory();
      PEN_TRY(copy_into(c, to.tensor(), *out.tensor()));
    }
    // The next layer's weights are of the call's dtype: so is what it reads.
    PEN_TRY(elements_of(c, *made.tensor(), dtype, &now));
    if (n.dropout > 0 && layer + 1 < n.layers) PEN_TRY(drop(c, n.dropout, &now));
  }
  *y = static_cast<Value&&>(now);
  PEN_TRY(elements_of(c, *last[0].tensor(), dtype, h_n));
  return c0 ? elements_of(c, *last[1].tensor(), dtype, c_n) : PEN_OK;
}

// Zeros where a random number is below p, the rest divided by 1 - p.
Status drop(const Call& c, double p, Value* x) {
  const TensorObject& t = *x->tensor();
  if (t.dtype() != DType::f32) return c.fail("a Float tensor for dropout between layers", "%s", dtype_name(t.dtype()));
  Number limit(p, DType::f32), factor(p < 1 ? 1 / (1 - p) : 0, DType::f32);
  Graph g(c);
  int random = g.node_of("random_uniform.f32", nullptr, 0);
  g.ints("shape", t.shape.dims, t.rank()).number("low", 0).number("high", 1).flag("open", false).integer("stream", 0);
  int kept = g.cast(g.node("ge.f32", random, limit.t), DType::boolean, DType::f32);
  int y = g.node("mul.f32", g.node("mul.f32", t, kept), factor.t);
  PEN_TRY(g.run(y));
  *x = Value::own(g.take(0));
  return PEN_OK;
}

Status float_layer(const Call& c, Cell cell, const ListObject& params, bool biases, int64_t index, int64_t count, Layer* to) {
  int64_t each = params.count / count;
  bool projected = each == (biases ? 5 : 3) && cell == Cell::lstm;
  if (params.count != count * each || each != (biases ? 4 : 2) + projected)
    return c.fail("weights for each layer and direction", "%lld of %lld", static_cast<long long>(params.count),
                  static_cast<long long>(count));
  const Value* own = params.items + index * each;
  to->w_ih = own[0].tensor();
  to->w_hh = own[1].tensor();
  if (biases) to->b_ih = own[2].tensor(), to->b_hh = own[3].tensor();
  if (projected) to->w_hr = own[each - 1].tensor();
  return PEN_OK;
}

Network network_of(const Call& c, Cell cell, int first, LayerOf layer_of) {
  double dropout = c.flag(first + 4) ? c.number(first + 3) : 0;
  return {cell, layer_of, &c.list(first), c.flag(first + 1), c.flag(first + 5), c.integer(first + 2), dropout};
}

}  // namespace

Status take_steps(const Call& c, Graph* g, int out, TensorObject* h, TensorObject* cell, Value* y) {
  int outputs[3] = {out, g->output(), cell ? g->output() : -1};
  PEN_TRY(g->run_all(outputs, cell ? 3 : 2));
  *y = Value::own(g->take(0));
  Value last = Value::own(g->take(1));
  PEN_TRY(copy_into(c, h, *last.tensor()));
  if (!cell) return PEN_OK;
  last = Value::own(g->take(2));
  return copy_into(c, cell, *last.tensor());
}

// Argument 0 is [T, B, F], or [B, T, F].
Status recurrent_padded(Call& c, Cell cell_kind, int first, LayerOf layer_of) {
  const TensorObject& x = c.tensor(0);
  Network n = network_of(c, cell_kind, first, layer_of);
  bool batch_first = c.flag(first + 6);
  if (x.rank() != 3) return c.fail("an input of rank 3", "rank %d", x.rank());
  int time = batch_first ? 1 : 0, batch = 1 - time;
  int64_t steps = x.dim(time), rows = x.dim(batch), flat[] = {steps * rows, x.dim(2)};
  int64_t dims[] = {steps, rows, x.dim(2)}, strides[] = {x.shape.strides[time], x.shape.strides[batch], x.shape.strides[2]};
  if (steps == 0) return c.fail("a sequence with steps", "none");
  const TensorObject *h0, *c0 = nullptr;
  if (n.cell == Cell::lstm) {
    if (c.list(1).count != 2) return c.fail("two states, h and c", "%lld", static_cast<long long>(c.list(1).count));
    h0 = c.list(1).items[0].tensor();
    c0 = c.list(1).items[1].tensor();
  } else {
    h0 = &c.tensor(1);
  }
  Value turned = view_of(x, 3, dims, strides, 0), plain, y, h, cell;
  if (turned.is_none()) return c.out_of_memory();
  PEN_TRY(elements_of(c, *turned.tensor(), x.dtype(), &plain));
  int64_t row_major[] = {x.dim(2), 1};
  Value matrix = view_of(*plain.tensor(), 2, flat, row_major, 0);
  if (matrix.is_none()) return c.out_of_memory();
  PEN_TRY(run_network(c, n, *matrix.tensor(), {steps, rows, nullptr}, *h0, c0, &y, &h, &cell));
  int64_t width = y.tensor()->dim(1), time_major[] = {rows * width, width, 1}, batch_major[] = {width, rows * width, 1};
  int64_t out[] = {x.dim(0), x.dim(1), width};
  PEN_TRY(c.give(view_of(*y.tensor(), 3, out, batch_first ? batch_major : time_major, 0)));
  if (c.results[0].is_none()) return c.out_of_memory();
  PEN_TRY(c.give(static_cast<Value&&>(h), 1));
  return c0 ? c.give(static_cast<Value&&>(cell), 2) : PEN_OK;
}

Status recurrent_packed(Call& c, Cell cell_kind, int first, LayerOf layer_of) {
  const TensorObject &data = c.tensor(0), &sizes = c.tensor(1);
  Network n = network_of(c, cell_kind, first, layer_of);
  if (data.rank() != 2) return c.fail("packed data of rank 2", "rank %d", data.rank());
  if (sizes.rank() != 1 || sizes.dtype() != DType::i64 || sizes.dim(0) == 0)
    return c.fail("batch sizes: a row of Long", "rank %d, %s", sizes.rank(), dtype_name(sizes.dtype()));
  Value list, plain, y, h, cell;
  PEN_TRY(elements_of(c, sizes, DType::i64, &list));
  const int64_t* each = list.tensor()->as<int64_t>();
  int64_t total = 0, steps = sizes.dim(0);
  for (int64_t t = 0; t < steps; ++t) {
    if (each[t] < 1 || (t && each[t] > each[t - 1]))
      return c.fail("batch sizes of 1 or more that never grow", "%lld", static_cast<long long>(each[t]));
    if (add_overflows(total, each[t], &total)) return c.fail("batch sizes that add up to the data's rows", "more");
  }
  if (total != data.dim(0))
    return c.fail("batch sizes that add up to the data's rows", "%lld of %lld", static_cast<long long>(total),
                  static_cast<long long>(data.dim(0)));
  const TensorObject *h0, *c0 = nullptr;
  if (n.cell == Cell::lstm) {
    if (c.list(2).count != 2) return c.fail("two states, h and c", "%lld", static_cast<long long>(c.list(2).count));
    h0 = c.list(2).items[0].tensor();
    c0 = c.list(2).items[1].tensor();
  } else {
    h0 = &c.tensor(2);
  }
  PEN_TRY(elements_of(c, data, data.dtype(), &plain));
  PEN_TRY(run_network(c, n, *plain.tensor(), {steps, each[0], each}, *h0, c0, &y, &h, &cell));
  PEN_TRY(c.give(static_cast<Value&&>(y)));
  PEN_TRY(c.give(static_cast<Value&&>(h), 1));
  return c0 ? c.give(static_cast<Value&&>(cell), 2) : PEN_OK;
}

Status recurrent_cell(Call& c, const Layer& l) {
  const TensorObject &x = c.tensor(0), *h0, *c0 = nullptr;
  if (l.cell == Cell::lstm) {
    if (c.list(1).count != 2) return c.fail("two states, h and c", "%lld", static_cast<long long>(c.list(1).count));
    h0 = c.list(1).items[0].tensor();
    c0 = c.list(1).items[1].tensor();
  } else {
    h0 = &c.tensor(1);
  }
  bool batched = x.rank() == 2;
  if ((x.rank() != 2 && x.rank() != 1) || !is_floating(x.dtype()))
    return c.fail("floats of rank 1 or 2", "%s, rank %d", dtype_name(x.dtype()), x.rank());
  const TensorObject* all[] = {&x, h0, c0};
  Value rows[3];
  DType carrier = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  for (int i = 0; i < 3 && all[i]; ++i) {
    if (all[i]->rank() != x.rank() || all[i]->dtype() != x.dtype())
      return c.fail("states of the input's rank and dtype", "rank %d, %s", all[i]->rank(), dtype_name(all[i]->dtype()));
    if (batched && all[i]->dim(0) != x.dim(0))
      return c.fail("states for each row of the input", "%lld", static_cast<long long>(all[i]->dim(0)));
    Status status;
    Value fresh = Value::own(tensor_cast(c, *all[i], i ? carrier : x.dtype(), &status));
    PEN_TRY(status);
    int64_t size = all[i]->dim(x.rank() - 1), dims[] = {batched ? x.dim(0) : 1, size}, strides[] = {size, 1};
    rows[i] = view_of(*fresh.tensor(), 2, dims, strides, 0);
    if (rows[i].is_none()) return c.out_of_memory();
  }
  Value y;
  PEN_TRY(
      run_layer(c, l, *rows[0].tensor(), {1, rows[0].tensor()->dim(0), nullptr}, rows[1].tensor(), c0 ? rows[2].tensor() : nullptr, &y));
  for (int i = 1; i < 3 && all[i]; ++i) {
    Value made;
    PEN_TRY(elements_of(c, *rows[i].tensor(), x.dtype(), &made));
    PEN_TRY(c.give(in_shape(*made.tensor(), shape_of(*all[i])), i - 1));
  }
  return PEN_OK;
}

static Status plain_cell(Call& c, Cell cell) {
  auto optional = [&](int i) { return c.given(i) ? &c.tensor(i) : nullptr; };
  return recurrent_cell(c, {cell, &c.tensor(2), &c.tensor(3), optional(4), optional(5), nullptr, false});
}

PEN_OP(lstm,
       "aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool "
       "bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)") {
  return recurrent_padded(c, Cell::lstm, 2, float_layer);
}
constexpr Cell kWords[] = {Cell::gru, Cell::tanh, Cell::relu};  // as the operators below have them
PEN_OP(rnn,
       "aten::{gru,rnn_tanh,rnn_relu}.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool "
       "train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)") {
  return recurrent_padded(c, kWords[c.word()], 2, float_layer);
}
PEN_OP(lstm_packed,
       "aten::lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "
       "bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)") {
  return recurrent_packed(c, Cell::lstm, 3, float_layer);
}
PEN_OP(rnn_packed,
       "aten::{gru,rnn_tanh,rnn_relu}.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, "
       "float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)") {
  return recurrent_packed(c, kWords[c.word()], 3, float_layer);
}
PEN_OP(lstm_cell,
       "aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)") {
  return plain_cell(c, Cell::lstm);
}
PEN_OP(rnn_cell,
       "aten::{gru_cell,rnn_tanh_cell,rnn_relu_cell}(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? "
       "b_hh=None) -> Tensor") {
  return plain_cell(c, kWords[c.word()]);
}

}  // namespace pen
