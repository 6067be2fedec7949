// Products of the VM over the kernels of matmul and linear.
#include "penlight/ops/matmul/product.h"

#include "penlight/runtime/vm/packing.h"

namespace pen {

Number::Number(double value, DType dtype) {
  t.dtype = dtype;
  t.data = bytes;
  float f = static_cast<float>(value);
  int64_t i = value >= -9.2e18 && value <= 9.2e18 ? static_cast<int64_t>(value) : 0;
  if (dtype == DType::f32)
    memcpy(bytes, &f, sizeof f);
  else
    memcpy(bytes, dtype == DType::f64 ? static_cast<const void*>(&value) : &i, 8);
}

static DType carrier_of_product(DType d) { return d == DType::f64 ? d : is_floating(d) ? DType::f32 : DType::i64; }

static int add_reshape(Graph* g, int value, DType dtype, const Shape& shape) {
  int made = g->node(Key::by_size("reshape", dtype), value);
  g->strided(made);
  g->ints("shape", shape.dims, shape.rank);
  return made;
}
static void swap_last(Tensor* t) {
  int64_t d = t->dims[t->rank - 1], s = t->strides[t->rank - 1];
  t->dims[t->rank - 1] = t->dims[t->rank - 2], t->strides[t->rank - 1] = t->strides[t->rank - 2];
  t->dims[t->rank - 2] = d, t->strides[t->rank - 2] = s;
}

static Status check_dtypes(const Call& c, DType a, DType b) {
  if (a != b) return c.fail("tensors of one dtype", "%s and %s", dtype_name(a), dtype_name(b));
  if (a == DType::boolean) return c.fail("numbers", "Bool");
  return PEN_OK;
}

Status add_product(const Call& c, Graph* g, const TensorObject& first, const TensorObject& second, Product* p) {
  Tensor a = first.view(), b = second.view();
  PEN_TRY(check_dtypes(c, a.dtype, b.dtype));
  if (a.rank == 0 || b.rank == 0) return c.fail("tensors with dims", "rank %d and %d", a.rank, b.rank);
  bool row = a.rank == 1, column = b.rank == 1;
  if (row) a.rank = 2, a.dims[1] = a.dims[0], a.strides[1] = a.strides[0], a.dims[0] = 1, a.strides[0] = a.dims[1];
  if (column) b.rank = 2, b.dims[1] = 1, b.strides[1] = 1;
  int64_t m = a.dims[a.rank - 2], k = a.dims[a.rank - 1], n = b.dims[b.rank - 1];
  if (b.dims[b.rank - 2] != k)
    return c.fail("matrices whose inner sizes are equal", "%lld and %lld", static_cast<long long>(k),
                  static_cast<long long>(b.dims[b.rank - 2]));
  p->dtype = a.dtype;
  p->carrier = carrier_of_product(a.dtype);
  // torch's shape: broadcast batch dims, then M and N where they are its own
  Shape lead;
  PEN_TRY(broadcast_batches(c, a, b, &lead));
  p->shape = lead;
  if (!row) p->shape.dims[p->shape.rank++] = m;
  if (!column) p->shape.dims[p->shape.rank++] = n;

  int rows = g->input(a), product;
  if (b.rank == 2 && p->carrier == DType::f32 && b.dtype == DType::f32 && second.storage->constant && n > 1 && k > 0) {
    swap_last(&b);
    int weight;
    PEN_TRY(pack_weight(c, g, second, b, false, "panel16", 1, &weight));
    product = g->node("linear.f32", rows, weight, -1, -1);
    g->text("act", "").numbers("act_args", nullptr, 0);
  } else {
    if (b.rank == 2 && a.rank > 2) {  // one matrix for the whole batch: its rows are rows of one matrix
      Shape flat;
      flat.rank = 2;
      flat.dims[0] = 1;
      for (int d = 0; d < a.rank - 1; ++d)
        if (mul_overflows(flat.dims[0], a.dims[d], &flat.dims[0])) return c.fail("a result that memory can hold", "more");
      flat.dims[1] = k;
      rows = add_reshape(g, rows, a.dtype, flat);
      m = flat.dims[0];
    } else if (n == 1 && m != 1) {  // one column: the kernel is for one row
      rows = -1;
    }
    if (rows < 0 || (n == 1 && m != 1 && a.rank == 2)) {
      swap_last(&b);
      swap_last(&a);
      int x = g->input(b, p->carrier), y = g->input(a, p->carrier);
      product = g->node(Key("matmul", p->carrier), x, y);
    } else {
      int x = g->cast(rows, a.dtype, p->carrier), y = g->input(b, p->carrier);
      product = g->node(Key("matmul", p->carrier), x, y);
    }
  }
  p->value = add_reshape(g, product, p->carrier, p->shape);
  return PEN_OK;
}

// What run() gives must be fresh: an operator's result, or a copy of a view.
static int finished(Graph* g, int value, DType from, DType to) { return from == to ? g->copy(value, to) : g->cast(value, from, to); }

Status give_product(Call& c, Graph* g, const Product& p) {
  PEN_TRY(g->run(finished(g, p.value, p.carrier, p.dtype)));
  return c.give(g->take(0));
}

Status give_scaled_sum(Call& c, Graph* g, const TensorObject& x, double beta, const Product& p, double alpha) {
  if (beta != 0) PEN_TRY(check_dtypes(c, x.dtype(), p.dtype));
  if (x.rank() > p.shape.rank) return c.fail("a tensor that can be broadcast to the product", "rank %d", x.rank());
  for (int d = 1; d <= x.rank(); ++d) {
    int64_t have = x.dim(x.rank() - d), want = p.shape.dims[p.shape.rank - d];
    if (have != want && have != 1)
      return c.fail("a tensor that can be broadcast to the product", "size %lld for %lld", static_cast<long long>(have),
                    static_cast<long long>(want));
  }
  Number a(alpha, p.carrier), b(beta, p.carrier);
  int y = p.value;
  bool fresh = false;
  if (alpha != 1) y = g->node(Key("mul", p.carrier), y, a.t), fresh = true;
  if (beta != 0) {
    int addend = g->input(x, p.carrier);
    if (beta != 1) addend = g->node(Key("mul", p.carrier), addend, b.t);
    y = g->node(Key("add", p.carrier), addend, y);
    fresh = true;
  }
  if (!fresh || p.carrier != p.dtype) y = finished(g, y, p.carrier, p.dtype);
  PEN_TRY(g->run(y));
  return c.give(g->take(0));
}

Status give_linear(Call& c, const TensorObject& x, const TensorObject& w, const TensorObject* b, const Limits& limits) {
  if (w.rank() != 2 && w.rank() != 1) return c.fail("a weight of rank 1 or 2", "rank %d", w.rank());
  if (x.rank() == 0) return c.fail("an input with dims", "rank 0");
  PEN_TRY(check_dtypes(c, x.dtype(), w.dtype()));
  if (b) PEN_TRY(check_dtypes(c, x.dtype(), b->dtype()));
  int64_t n = w.rank() == 2 ? w.dim(0) : 1, k = w.dim(w.rank() - 1), rows = 1;
  if (x.dim(x.rank() - 1) != k)
    return c.fail("an input whose last size is the weight's", "%lld and %lld", static_cast<long long>(x.dim(x.rank() - 1)),
                  static_cast<long long>(k));
  for (int d = 0; d < x.rank() - 1; ++d)
    if (mul_overflows(rows, x.dim(d), &rows)) return c.fail("a result that memory can hold", "more");
  bool one_column = n == 1 && rows > 3;  // as dot products it goes along memory
  bool whole = w.rank() == 2 && (!b || (b->rank() == 1 && b->dim(0) == n)) && x.dtype() == DType::f32;
  Graph g(c);
  if (whole && !one_column && w.storage->constant) {
    int weight;
    PEN_TRY(pack_weight(c, &g, w, w.view(), false, "panel16", 1, &weight));
    int y = g.node("linear.f32", x, weight, b ? g.input(*b) : -1, -1);
    double range[] = {limits.low, limits.high};
    g.text("act", limits.limited ? "clamp" : "").numbers("act_args", range, limits.limited ? 2 : 0);
    PEN_TRY(g.run(y));
    return c.give(g.take(0));
  }
  Value turned;
  if (w.rank() == 2) {
    int64_t dims[] = {k, n}, strides[] = {w.shape.strides[1], w.shape.strides[0]};
    turned = Value::own(tensor_view(w, 2, dims, strides, w.offset));
    if (turned.is_none()) return c.out_of_memory();
  }
  Product p;
  PEN_TRY(add_product(c, &g, x, w.rank() == 2 ? *turned.tensor() : w, &p));
  if (!limits.limited) return b ? give_scaled_sum(c, &g, *b, 1, p, 1) : give_product(c, &g, p);
  int y = p.value;
  if (b) y = g.node("add.f32", *b, y);
  y = g.node("clamp.f32", y);
  g.number("lo", limits.low).number("hi", limits.high);
  PEN_TRY(g.run(y));
  return c.give(g.take(0));
}

}  // namespace pen
