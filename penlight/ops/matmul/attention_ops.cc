// scaled_dot_product_attention of the VM, over the attention kernel.
#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/flat.h"

namespace pen {

// By its definition: in double precision, and with dropout.
static Status attention_by_parts(Call& c, Calls& t, const Value& q, const Value& k, const Value& v, const Value& mask, double dropout,
                                 bool causal, double scale) {
  Value scores = t("aten::mul.Scalar", t("aten::matmul", q, t("aten::transpose.int", k, -2, -1)), scale);
  PEN_TRY(t.status);
  int64_t rows = scores.tensor()->dim(scores.tensor()->rank() - 2), columns = scores.tensor()->dim(scores.tensor()->rank() - 1);
  if (causal) {
    Value seen = t("aten::tril", t("aten::ones", t.ints(rows, columns), code_of_dtype(DType::boolean)));
    scores = t("aten::masked_fill.Scalar", scores, t("aten::logical_not", seen), -__builtin_inf());
  }
  if (!mask.is_none())
    scores = mask.tensor()->dtype() == DType::boolean
                 ? t("aten::masked_fill.Scalar", scores, t("aten::logical_not", mask), -__builtin_inf())
                 : t("aten::add.Tensor", scores, mask);
  Value weights = t("aten::softmax.int", scores, -1);
  if (!mask.is_none() || causal) {  // a query that may look at no key gives 0
    Value blind = t("aten::all.dim", t("aten::eq.Scalar", scores, -__builtin_inf()), -1, true);
    weights = t("aten::masked_fill.Scalar", weights, blind, 0);
  }
  if (dropout > 0) weights = t("aten::dropout", weights, dropout, true);
  return t.give(c, t("aten::matmul", weights, v));
}

PEN_OP(scaled_dot_product_attention,
       "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool "
       "is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor") {
  const TensorObject &q = c.tensor(0), &k = c.tensor(1), &v = c.tensor(2);
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2)
    return c.fail("query, key and value of rank 2 or more", "rank %d, %d and %d", q.rank(), k.rank(), v.rank());
  if (!is_floating(q.dtype()) || q.dtype() != k.dtype() || q.dtype() != v.dtype())
    return c.fail("floats of one dtype", "%s, %s and %s", dtype_name(q.dtype()), dtype_name(k.dtype()), dtype_name(v.dtype()));
  bool causal = c.flag(5);
  if (causal && c.given(3)) return c.fail("a mask or is_causal", "both");
  int64_t size = q.dim(q.rank() - 1);
  double scale = c.given(6) ? c.number(6) : size ? 1 / __builtin_sqrt(static_cast<double>(size)) : 1;
  Calls t(c);
  Value keys = c.args[1], values = c.args[2];
  if (c.flag(7) && q.rank() >= 3 && k.rank() >= 3 && q.dim(q.rank() - 3) != k.dim(k.rank() - 3)) {  // heads of one group share a key
    int64_t heads = q.dim(q.rank() - 3), groups = k.dim(k.rank() - 3);
    if (groups < 1 || heads % groups != 0 || v.rank() < 3 || v.dim(v.rank() - 3) != groups)
      return c.fail("query heads that can be divided by those of key and value", "%lld and %lld", static_cast<long long>(heads),
                    static_cast<long long>(groups));
    keys = t("aten::repeat_interleave.self_int", keys, heads / groups, -3);
    values = t("aten::repeat_interleave.self_int", values, heads / groups, -3);
    PEN_TRY(t.status);
  }
  if (q.dtype() == DType::f64 || c.number(4) > 0)
    return attention_by_parts(c, t, c.args[0], keys, values, c.args[3], c.number(4), causal, scale);
  Value hidden = Value::own(tensor_of(Value(-__builtin_inf()), DType::f32)), zero = Value::own(tensor_of(Value(0.0), DType::f32));
  if (hidden.is_none() || zero.is_none()) return c.out_of_memory();
  Graph g(c);
  auto in = [&](const TensorObject& x) { return g.input(x, DType::f32); };
  int mask = -1;
  if (c.given(3)) {
    const TensorObject& m = c.tensor(3);
    if (m.dtype() == DType::boolean) {
      int seen = g.input(m), none = g.input(*zero.tensor());
      mask = g.node("where.f32", seen, none, *hidden.tensor());
    } else {
      mask = in(m);
    }
  }
  int y = g.node("attention.f32", in(q), in(*keys.tensor()), in(*values.tensor()), mask);
  g.number("scale", scale).flag("causal", causal);
  PEN_TRY(g.run(g.cast(y, DType::f32, q.dtype())));
  return c.give(g.take(0));
}

}  // namespace pen
