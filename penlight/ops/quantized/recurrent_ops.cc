// LSTM, GRU and single cells with quantized weights, in the VM: layers are walked as those of floats (ops/recurrent/layers.h), their
// products are those of planned code. As in torch, the products of a whole sequence's inputs are one product, with one scale; the state has
// a scale for every step. Weights of f16 are plain numbers, and their layers those of floats.
#include "penlight/ops/quantized/filter.h"
#include "penlight/ops/recurrent/layers.h"

namespace pen {

static const char* const kCellFields[] = {"kind", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "reduce_range"};
static const ClassInfo kCellClass = {kCellParams, kCellFields, 6};

// ---- products with integers ----
static Status dynamic_input(const Call& c, const Layer& l, const TensorObject& x, Value* to) {
  return linear_dynamic_of(c, *l.w_ih, l.b_ih, x, false, l.reduce_range, to);
}
static Status dynamic_steps(const Call& c, const Layer& l, const TensorObject& gates, TensorObject* h, TensorObject* cell, Value* y) {
  Filter f;
  FilterValues values;
  f.w.tensor = l.w_hh;
  f.w.bias = l.b_hh;
  PEN_TRY(check_weights(c, 0, 1, &f.w));
  PEN_TRY(filter_of(c, 0, 1, false, &f));
  PEN_TRY(pack_filter(c, f, DType::u8, {1.0, 0}, 0.0, &values));  // in steps: the scale of h comes in the run
  Graph g(c);
  int x = g.input(gates), weight = add_filter(&g, f, values), before = g.input(*h), columns = g.input(*values.columns.tensor());
  int out = l.cell == Cell::lstm  ? g.node("lstm_dynamic.i8", x, weight, before, *cell, columns)
            : l.cell == Cell::gru ? g.node("gru_dynamic.i8", x, weight, before, columns)
                                  : g.node("rnn_dynamic.i8", x, weight, before, columns);
  g.flag("reverse", l.reverse).integer("high", l.reduce_range ? 127 : 255).text("rule", "torch");
  if (l.cell == Cell::tanh || l.cell == Cell::relu) g.text("nonlinearity", l.cell == Cell::tanh ? "tanh" : "relu");
  return take_steps(c, &g, out, h, cell, y);
}
static const LayerProducts kDynamic = {DType::i8, dynamic_input, dynamic_steps};

// The products that the weights' kinds ask for.
static Status choose_products(const Call& c, Layer* l) {
  if (!l->w_ih->quantizer != !l->w_hh->quantizer) return c.fail("two weights of integers, or two of floats", "one of each");
  l->products = l->w_ih->quantizer ? &kDynamic : nullptr;
  return PEN_OK;
}
static Status packed_layer(const Call& c, Cell, const ListObject& params, bool, int64_t index, int64_t count, Layer* to) {
  if (params.count != count)
    return c.fail("parameters for each layer and direction", "%lld for %lld", static_cast<long long>(params.count),
                  static_cast<long long>(count));
  Instance* cell;
  PEN_TRY(packed_object(c, params.items[index], kCellParams, &cell));
  PEN_TRY(packed_tensor(c, *cell, "weight_ih", false, &to->w_ih));
  PEN_TRY(packed_tensor(c, *cell, "weight_hh", false, &to->w_hh));
  PEN_TRY(packed_tensor(c, *cell, "bias_ih", true, &to->b_ih));
  PEN_TRY(packed_tensor(c, *cell, "bias_hh", true, &to->b_hh));
  PEN_TRY(packed_flag(c, *cell, "reduce_range", &to->reduce_range));
  return choose_products(c, to);
}

// ---- layers ----
PEN_OP(quantized_lstm_input,
       "aten::quantized_lstm.input(Tensor input, Tensor[] hx, __torch__.torch.classes.rnn.CellParamsBase[] params, bool has_biases, int "
       "num_layers, float dropout, bool train, bool bidirectional, bool batch_first, *, ScalarType? dtype=None, bool use_dynamic=False) -> "
       "(Tensor, Tensor, Tensor)") {
  return recurrent_padded(c, Cell::lstm, 2, packed_layer);
}
PEN_OP(quantized_lstm_data,
       "aten::quantized_lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, __torch__.torch.classes.rnn.CellParamsBase[] params, bool "
       "has_biases, int num_layers, float dropout, bool train, bool bidirectional, *, ScalarType? dtype=None, bool use_dynamic=False) -> "
       "(Tensor, Tensor, Tensor)") {
  return recurrent_packed(c, Cell::lstm, 3, packed_layer);
}
PEN_OP(quantized_gru_input,
       "aten::quantized_gru.input(Tensor input, Tensor hx, __torch__.torch.classes.rnn.CellParamsBase[] params, bool has_biases, int "
       "num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)") {
  return recurrent_padded(c, Cell::gru, 2, packed_layer);
}
PEN_OP(quantized_gru_data,
       "aten::quantized_gru.data(Tensor data, Tensor batch_sizes, Tensor hx, __torch__.torch.classes.rnn.CellParamsBase[] params, bool "
       "has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)") {
  return recurrent_packed(c, Cell::gru, 3, packed_layer);
}

// ---- single cells ----
static Status dynamic_cell(Call& c, Cell kind) {
  Layer l = {};
  l.cell = kind;
  const TensorObject** to[2][2] = {{&l.w_ih, &l.b_ih}, {&l.w_hh, &l.b_hh}};
  for (int i = 0; i < 2; ++i) {
    Instance* object;
    PEN_TRY(packed_object(c, 2 + i, kLinearParams, &object));
    PEN_TRY(packed_tensor(c, *object, "weight", false, to[i][0]));
    PEN_TRY(packed_tensor(c, *object, "bias", true, to[i][1]));
    const Value* reduced = instance_attribute(object, "reduce_range");  // capture/script/levels.py
    l.reduce_range = reduced && reduced->tag() == Tag::boolean && reduced->boolean();
  }
  PEN_TRY(choose_products(c, &l));
  return recurrent_cell(c, l);
}
PEN_OP(quantized_lstm_cell_dynamic,
       "quantized::quantized_lstm_cell_dynamic(Tensor input, Tensor[] hx, __torch__.torch.classes.quantized.LinearPackedParamsBase w_ih, "
       "__torch__.torch.classes.quantized.LinearPackedParamsBase w_hh, Tensor bias_ih, Tensor bias_hh) -> (Tensor, Tensor)") {
  return dynamic_cell(c, Cell::lstm);
}
PEN_OP(quantized_gru_cell_dynamic,
       "quantized::quantized_gru_cell_dynamic(Tensor input, Tensor hx, __torch__.torch.classes.quantized.LinearPackedParamsBase w_ih, "
       "__torch__.torch.classes.quantized.LinearPackedParamsBase w_hh, Tensor b_ih, Tensor b_hh) -> Tensor") {
  return dynamic_cell(c, Cell::gru);
}
PEN_OP(quantized_rnn_relu_cell_dynamic,
       "quantized::quantized_rnn_relu_cell_dynamic(Tensor input, Tensor hx, __torch__.torch.classes.quantized.LinearPackedParamsBase w_ih, "
       "__torch__.torch.classes.quantized.LinearPackedParamsBase w_hh, Tensor b_ih, Tensor b_hh) -> Tensor") {
  return dynamic_cell(c, Cell::relu);
}
PEN_OP(quantized_rnn_tanh_cell_dynamic,
       "quantized::quantized_rnn_tanh_cell_dynamic(Tensor input, Tensor hx, __torch__.torch.classes.quantized.LinearPackedParamsBase w_ih, "
       "__torch__.torch.classes.quantized.LinearPackedParamsBase w_hh, Tensor b_ih, Tensor b_hh) -> Tensor") {
  return dynamic_cell(c, Cell::tanh);
}

// The cells of torch 1.0: i8 weights as plain tensors, with their scale and zero point beside them (input, hx, w_ih, w_hh, b_ih,
// b_hh, packed_ih, packed_hh, col_offsets_ih, col_offsets_hh, scale_ih, scale_hh, zero_point_ih, zero_point_hh).
static Status plain_weight(const Call& c, int weight_at, int scale_at, int zero_at, Value* to) {
  const TensorObject& w = c.tensor(weight_at);
  if (w.dtype() != DType::i8 || w.quantizer) return c.fail("weights of Char", "%s", dtype_name(w.dtype()));
  double zero = c.number(zero_at);
  if (!(zero >= -128 && zero <= 127)) return c.fail("a zero point from -128 to 127", "%g", zero);
  *to = Value::own(tensor_on(w.storage, w.shape, w.offset));
  Quantizer* q = quantizer_create(c.number(scale_at), static_cast<int64_t>(zero));
  if (to->is_none() || !q) {
    quantizer_release(q);
    return c.out_of_memory();
  }
  tensor_set_quantizer(to->tensor(), q);
  return PEN_OK;
}
static Status plain_cell(Call& c, Cell kind) {
  Value input, hidden;
  PEN_TRY(plain_weight(c, 2, 10, 12, &input));
  PEN_TRY(plain_weight(c, 3, 11, 13, &hidden));
  return recurrent_cell(c, {kind, input.tensor(), hidden.tensor(), &c.tensor(4), &c.tensor(5), nullptr, false, &kDynamic});
}
PEN_OP(quantized_lstm_cell,
       "aten::quantized_lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor b_hh, Tensor packed_ih, Tensor "
       "packed_hh, Tensor col_offsets_ih, Tensor col_offsets_hh, Scalar scale_ih, Scalar scale_hh, Scalar zero_point_ih, Scalar "
       "zero_point_hh) -> (Tensor, Tensor)") {
  return plain_cell(c, Cell::lstm);
}
PEN_OP(quantized_gru_cell,
       "aten::quantized_gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor b_hh, Tensor packed_ih, Tensor "
       "packed_hh, Tensor col_offsets_ih, Tensor col_offsets_hh, Scalar scale_ih, Scalar scale_hh, Scalar zero_point_ih, Scalar "
       "zero_point_hh) -> Tensor") {
  return plain_cell(c, Cell::gru);
}
PEN_OP(
    quantized_rnn_relu_cell,
    "aten::quantized_rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor b_hh, Tensor packed_ih, Tensor "
    "packed_hh, Tensor col_offsets_ih, Tensor col_offsets_hh, Scalar scale_ih, Scalar scale_hh, Scalar zero_point_ih, Scalar "
    "zero_point_hh) -> Tensor") {
  return plain_cell(c, Cell::relu);
}
PEN_OP(
    quantized_rnn_tanh_cell,
    "aten::quantized_rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor b_hh, Tensor packed_ih, Tensor "
    "packed_hh, Tensor col_offsets_ih, Tensor col_offsets_hh, Scalar scale_ih, Scalar scale_hh, Scalar zero_point_ih, Scalar "
    "zero_point_hh) -> Tensor") {
  return plain_cell(c, Cell::tanh);
}

// ---- making them ----
static Status make_cell(Call& c, const char* kind, const Value& w_ih, const Value& w_hh, const Value& b_ih, const Value& b_hh,
                        bool reduce_range) {
  Value made = Value::own(instance_create(kCellParams, &kCellClass, 6)), name = Value::own(string_create(kind));
  if (made.is_none() || name.is_none()) return c.out_of_memory();
  Value* slots = made.object()->slots;
  slots[0] = name, slots[1] = w_ih, slots[2] = w_hh, slots[3] = b_ih, slots[4] = b_hh, slots[5] = Value(reduce_range);
  return c.give(static_cast<Value&&>(made));
}
// Of two packed products: their weights and biases.
static Status cell_of_products(Call& c, const char* kind, bool reduce_range) {
  Value parts[4];
  for (int i = 0; i < 2; ++i) {
    Instance* product;
    const TensorObject *weight, *bias;
    PEN_TRY(packed_object(c, i, kLinearParams, &product));
    PEN_TRY(packed_tensor(c, *product, "weight", false, &weight));
    PEN_TRY(packed_tensor(c, *product, "bias", true, &bias));
    parts[i] = Value::share(const_cast<TensorObject*>(weight));
    if (bias) parts[2 + i] = Value::share(const_cast<TensorObject*>(bias));
  }
  return make_cell(c, kind, parts[0], parts[1], parts[2], parts[3], reduce_range);
}
PEN_OP(make_quantized_cell_dynamic,
       "quantized::make_quantized_cell_params_dynamic(__torch__.torch.classes.quantized.LinearPackedParamsBase w_ih, "
       "__torch__.torch.classes.quantized.LinearPackedParamsBase w_hh, Tensor bias_ih, Tensor bias_hh, bool reduce_range=False) -> "
       "__torch__.torch.classes.rnn.CellParamsBase") {
  return cell_of_products(c, "quantized_dynamic", c.flag(4));
}
PEN_OP(make_quantized_cell_fp16,
       "quantized::make_quantized_cell_params_fp16(__torch__.torch.classes.quantized.LinearPackedParamsBase w_ih, "
       "__torch__.torch.classes.quantized.LinearPackedParamsBase w_hh) -> __torch__.torch.classes.rnn.CellParamsBase") {
  return cell_of_products(c, "quantized_fp16", false);
}

}  // namespace pen
