// torch.nn.TransformerEncoderLayer's and MultiheadAttention's fast paths of the VM: what torch does in one call, in several.
#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/flat.h"

namespace pen {

namespace {

// Masks as torch names them: 0 of queries and keys [L, L], 1 of keys [B, L], 2 any that can be broadcast; true hides.
Status hidden_keys(const Call& c, Calls& t, const Value& mask, const Value& type, Value* seen) {
  if (mask.is_none()) return PEN_OK;
  const TensorObject& m = *mask.tensor();
  if (m.dtype() != DType::boolean) return c.fail("a mask of bools", "%s", dtype_name(m.dtype()));
  bool of_keys = !type.is_none() && type.integer() == 1;
  if (of_keys && m.rank() != 2) return c.fail("a mask of keys [batch, length]", "rank %d", m.rank());
  *seen = t("aten::logical_not", of_keys ? t("aten::unsqueeze", t("aten::unsqueeze", mask, 1), 1) : mask);
  return t.status;
}

struct Heads {
  Value y, weights;
};
// Attention of q over k and v [B, L, E] in `heads` parts, projections included. weights: [B, heads, L, L] where wanted.
Status attend(const Call& c, Calls& t, const Value* qkv, int64_t size, int64_t heads, const Value& w, const Value& b, const Value& out_w,
              const Value& out_b, const Value& seen, bool weights, Heads* to) {
  const TensorObject &q = *qkv[0].tensor(), &weight = *w.tensor();
  if (q.rank() != 3 || heads < 1 || size % heads != 0 || weight.rank() != 2 || weight.dim(0) != 3 * size || size < 1)
    return c.fail("an input [batch, length, size] and a weight [3 * size, size], size divisible by the heads", "rank %d, %lld heads",
                  q.rank(), static_cast<long long>(heads));
  int64_t each = size / heads;
  Value parts[3];
  for (int i = 0; i < 3; ++i) {
    Value rows = t("aten::narrow", w, 0, i * size, size), bias = b.is_none() ? Value() : t("aten::narrow", b, 0, i * size, size);
    Value x = t("aten::linear", qkv[i], rows, bias);
    PEN_TRY(t.status);
    parts[i] = t("aten::transpose.int", t("aten::view", x, t.ints(x.tensor()->dim(0), x.tensor()->dim(1), heads, each)), 1, 2);
  }
  if (weights) {
    Value scores = t("aten::mul.Scalar", t("aten::matmul", parts[0], t("aten::transpose.int", parts[1], -2, -1)),
                     1 / __builtin_sqrt(static_cast<double>(each)));
    if (!seen.is_none()) scores = t("aten::masked_fill.Scalar", scores, t("aten::logical_not", seen), -__builtin_inf());
    to->weights = t("aten::softmax.int", scores, -1);
    to->y = t("aten::matmul", to->weights, parts[2]);
  } else {
    to->y = t("aten::scaled_dot_product_attention", parts[0], parts[1], parts[2], seen);
  }
  Value joined = t("aten::reshape", t("aten::transpose.int", to->y, 1, 2), t.ints(q.dim(0), q.dim(1), size));
  to->y = t("aten::linear", joined, out_w, out_b);
  return t.status;
}

}  // namespace

PEN_OP(transformer_encoder_layer, "[out]",
       "aten::_transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias, Tensor "
       "proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, Tensor norm_weight_1, Tensor norm_bias_1, Tensor "
       "norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? "
       "mask=None, int? mask_type=None) -> Tensor") {
  Calls t(c);
  Value x = c.args[0], seen;
  int64_t size = c.integer(1);
  PEN_TRY(hidden_keys(c, t, c.args[18], c.args[19], &seen));
  auto norm = [&](const Value& v, int weight) {
    return t("aten::layer_norm", v, t.ints(size), c.args[weight], c.args[weight + 1], c.number(9));
  };
  auto attention = [&](const Value& v, Value* y) {
    PEN_TRY(t.status);
    Value qkv[3] = {v, v, v};
    Heads made;
    PEN_TRY(attend(c, t, qkv, size, c.integer(2), c.args[3], c.args[4], c.args[5], c.args[6], seen, false, &made));
    *y = static_cast<Value&&>(made.y);
    return PEN_OK;
  };
  auto forward = [&](const Value& v) {
    Value hidden = t("aten::linear", v, c.args[14], c.args[15]);
    hidden = c.flag(7) ? t("aten::gelu", hidden) : t("aten::relu", hidden);
    return t("aten::linear", hidden, c.args[16], c.args[17]);
  };
  Value y;
  if (c.flag(8)) {
    PEN_TRY(attention(norm(x, 10), &y));
    x = t("aten::add.Tensor", x, y);
    return t.give(c, t("aten::add.Tensor", x, forward(norm(x, 12))));
  }
  PEN_TRY(attention(x, &y));
  x = norm(t("aten::add.Tensor", x, y), 10);
  return t.give(c, norm(t("aten::add.Tensor", x, forward(x)), 12));
}

PEN_OP(native_multi_head_attention, "[out]",
       "aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor qkv_weight, Tensor "
       "qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? "
       "mask_type=None) -> (Tensor, Tensor)") {
  Calls t(c);
  Value seen;
  Heads made;
  PEN_TRY(hidden_keys(c, t, c.args[9], c.args[12], &seen));
  PEN_TRY(attend(c, t, c.args, c.integer(3), c.integer(4), c.args[5], c.args[6], c.args[7], c.args[8], seen, c.flag(10), &made));
  PEN_TRY(c.give(static_cast<Value&&>(made.y)));
  if (!c.flag(10)) return c.give(Value(), 1);
  return t.give(c, c.flag(11) ? t("aten::mean.dim", made.weights, t.ints(1)) : static_cast<Value&&>(made.weights), 1);
}

PEN_OP(masked_softmax, "[out]", "aten::_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor") {
  Calls t(c);
  const TensorObject& mask = c.tensor(1);
  if (mask.dtype() != DType::boolean) return c.fail("a mask of bools", "%s", dtype_name(mask.dtype()));
  Value hidden = c.args[1];
  if (c.given(3) && c.integer(3) == 1 && mask.rank() == 2 && c.tensor(0).rank() == 4)
    hidden = t("aten::unsqueeze", t("aten::unsqueeze", hidden, 1), 1);
  return t.give(c, t("aten::softmax.int", t("aten::masked_fill.Scalar", c.args[0], hidden, -__builtin_inf()),
                     c.given(2) ? c.integer(2) : int64_t{-1}));
}

}  // namespace pen
