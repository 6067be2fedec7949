// linear, matmul, addmm and their relatives of the VM.
#include "penlight/ops/matmul/product.h"

namespace pen {

PEN_OP(linear, "[out]", "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor") {
  return give_linear(c, c.tensor(0), c.tensor(1), c.given(2) ? &c.tensor(2) : nullptr, {});
}

static Status need_ranks(const Call& c, int first, int a, int second, int b) {
  if (c.tensor(first).rank() == a && c.tensor(second).rank() == b) return PEN_OK;
  char expected[48];
  set_text(expected, sizeof expected, "tensors of rank %d and %d", a, b);
  return c.fail(expected, "rank %d and %d", c.tensor(first).rank(), c.tensor(second).rank());
}
static Status need_batch(const Call& c, int first, int second) {
  PEN_TRY(need_ranks(c, first, 3, second, 3));
  int64_t a = c.tensor(first).dim(0), b = c.tensor(second).dim(0);
  if (a != b) return c.fail("batches of one size", "%lld and %lld", static_cast<long long>(a), static_cast<long long>(b));
  return PEN_OK;
}

static Status multiply(Call& c, int first, int second) {
  Graph g(c);
  Product p;
  PEN_TRY(add_product(c, &g, c.tensor(first), c.tensor(second), &p));
  return give_product(c, &g, p);
}

PEN_OP(matmul, "[out]", "aten::{matmul,linalg_matmul}(Tensor self, Tensor other) -> Tensor") { return multiply(c, 0, 1); }
PEN_OP(mm, "[out]", "aten::mm(Tensor self, Tensor mat2) -> Tensor") {
  PEN_TRY(need_ranks(c, 0, 2, 1, 2));
  return multiply(c, 0, 1);
}
PEN_OP(bmm, "[out]", "aten::bmm(Tensor self, Tensor mat2) -> Tensor") {
  PEN_TRY(need_batch(c, 0, 1));
  return multiply(c, 0, 1);
}
PEN_OP(mv, "[out]", "aten::mv(Tensor self, Tensor vec) -> Tensor") {
  PEN_TRY(need_ranks(c, 0, 2, 1, 1));
  return multiply(c, 0, 1);
}
PEN_OP(dot, "[out]", "aten::{dot,vdot}(Tensor self, Tensor tensor) -> Tensor") {
  PEN_TRY(need_ranks(c, 0, 1, 1, 1));
  return multiply(c, 0, 1);
}

static Status add_multiplied(Call& c) {
  Graph g(c);
  Product p;
  PEN_TRY(add_product(c, &g, c.tensor(1), c.tensor(2), &p));
  return give_scaled_sum(c, &g, c.tensor(0), c.number(3), p, c.number(4));
}
PEN_OP(addmm, "[in_place][out]", "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor") {
  PEN_TRY(need_ranks(c, 1, 2, 2, 2));
  return add_multiplied(c);
}
PEN_OP(baddbmm, "[in_place][out]", "aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor") {
  PEN_TRY(need_batch(c, 1, 2));
  return add_multiplied(c);
}
PEN_OP(addmv, "[in_place][out]", "aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor") {
  PEN_TRY(need_ranks(c, 1, 2, 2, 1));
  return add_multiplied(c);
}

// The sum over the batch is part of K: [M, B * K] times [B * K, N].
PEN_OP(addbmm, "[in_place][out]", "aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor") {
  PEN_TRY(need_batch(c, 1, 2));
  const TensorObject &a = c.tensor(1), &b = c.tensor(2);
  if (a.dim(2) != b.dim(1))
    return c.fail("matrices whose inner sizes are equal", "%lld and %lld", static_cast<long long>(a.dim(2)),
                  static_cast<long long>(b.dim(1)));
  int64_t turned[] = {a.dim(1), a.dim(0), a.dim(2)}, strides[] = {a.shape.strides[1], a.shape.strides[0], a.shape.strides[2]};
  Value view = Value::own(tensor_view(a, 3, turned, strides, a.offset));
  if (view.is_none()) return c.out_of_memory();
  Status status;
  Value left = Value::own(tensor_clone(c, *view.tensor(), &status));
  PEN_TRY(status);
  Value right = Value::own(tensor_clone(c, b, &status));
  PEN_TRY(status);
  int64_t k = a.dim(0) * a.dim(2), flat[] = {a.dim(1), k}, wide[] = {k, 1}, tall[] = {k, b.dim(2)}, rows[] = {b.dim(2), 1};
  Value x = Value::own(tensor_view(*left.tensor(), 2, flat, wide, 0)), y = Value::own(tensor_view(*right.tensor(), 2, tall, rows, 0));
  if (x.is_none() || y.is_none()) return c.out_of_memory();
  Graph g(c);
  Product p;
  PEN_TRY(add_product(c, &g, *x.tensor(), *y.tensor(), &p));
  return give_scaled_sum(c, &g, c.tensor(0), c.number(3), p, c.number(4));
}

static Value as_matrix(const TensorObject& t, bool column) {
  int64_t dims[] = {column ? t.dim(0) : 1, column ? 1 : t.dim(0)}, strides[] = {t.shape.strides[0], t.shape.strides[0]};
  return Value::own(tensor_view(t, 2, dims, strides, t.offset));
}
// a b^T of two vectors, of any dtypes.
PEN_OP(outer, "[out]", "aten::{outer,ger}(Tensor self, Tensor vec2) -> Tensor") {
  PEN_TRY(need_ranks(c, 0, 1, 1, 1));
  Promotion to;
  to.add(c.tensor(0));
  to.add(c.tensor(1));
  DType dtype = to.result(), carrier = dtype == DType::f64 ? dtype : is_floating(dtype) ? DType::f32 : DType::i64;
  Value a = as_matrix(c.tensor(0), true), b = as_matrix(c.tensor(1), false);
  if (a.is_none() || b.is_none()) return c.out_of_memory();
  Graph g(c);
  int x = g.cast(g.input(*a.tensor(), dtype), dtype, carrier);
  int y = g.cast(g.input(*b.tensor(), dtype), dtype, carrier);
  PEN_TRY(g.run(g.cast(g.node(Key("mul", carrier), x, y), carrier, dtype)));
  return c.give(g.take(0));
}

}  // namespace pen
