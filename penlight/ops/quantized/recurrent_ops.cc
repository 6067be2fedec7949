// LSTM and GRU with quantized weights: every step's products are quantized dynamically (linear.cc), the rest is f32. As in torch, the
// products of a whole sequence's inputs are one product, with one scale.
#include "penlight/ops/quantized/packed.h"

namespace pen {

static const char* const kCellFields[] = {"kind", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "reduce_range"};
static const ClassInfo kCellClass = {kCellParams, kCellFields, 6};
static const char* const kLinearFields[] = {"weight", "bias"};
static const ClassInfo kLinearClass = {kLinearParams, kLinearFields, 2};

namespace {

enum class Cell { lstm, gru, tanh, relu };

// The two products of a cell, and what they leave: [steps, batch, gates x hidden].
struct CellWeights {
  Value input, hidden;  // LinearPackedParamsBase
  bool reduce_range;
};

}  // namespace

// Packed parameters of one product, from attributes of the cell's. What is packed is kept with the cell: `slot` behind its fields.
static Status product_of(const Call& c, Instance* cell, const char* weight, const char* bias, int slot, Value* to) {
  const TensorObject *w, *b;
  PEN_TRY(packed_tensor(c, *cell, weight, false, &w));
  PEN_TRY(packed_tensor(c, *cell, bias, true, &b));
  int32_t at = (cell->type ? cell->type->field_count : 0) + slot;
  if (cell->type && at < cell->count && cell->slots[at].tag() == Tag::object) {
    Instance* kept = cell->slots[at].object();
    if (kept->type == &kLinearClass && kept->slots[0].tag() == Tag::tensor && kept->slots[0].tensor() == w) {
      *to = cell->slots[at];
      return PEN_OK;
    }
  }
  *to = Value::own(instance_create(kLinearParams, &kLinearClass, 2));
  if (to->is_none()) return c.out_of_memory();
  to->object()->slots[0] = Value::share(const_cast<TensorObject*>(w));
  if (b) to->object()->slots[1] = Value::share(const_cast<TensorObject*>(b));
  if (!cell->type) return PEN_OK;
  if (!instance_reserve(cell, at)) return c.out_of_memory();
  cell->slots[at] = *to;
  return PEN_OK;
}
static Status cell_weights(const Call& c, const Value& params, CellWeights* to) {
  Instance* cell;
  PEN_TRY(packed_object(c, params, kCellParams, &cell));
  PEN_TRY(packed_flag(c, *cell, "reduce_range", &to->reduce_range));
  PEN_TRY(product_of(c, cell, "weight_ih", "bias_ih", 0, &to->input));
  return product_of(c, cell, "weight_hh", "bias_hh", 1, &to->hidden);
}

static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// One step of `rows` sequences: gates of the input and of the state → the next state. h and memory are [rows, hidden].
static void step(Cell kind, int64_t rows, int64_t hidden, const float* in, const float* state, const float* h, const float* memory,
                 float* h_to, float* memory_to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < hidden; ++k) {
      int64_t at = r * hidden + k;
      if (kind == Cell::lstm) {
        const float *a = in + r * 4 * hidden + k, *b = state + r * 4 * hidden + k;
        float i = sigmoid(a[0] + b[0]), f = sigmoid(a[hidden] + b[hidden]), g = tanhf(a[2 * hidden] + b[2 * hidden]);
        float o = sigmoid(a[3 * hidden] + b[3 * hidden]), m = f * memory[at] + i * g;
        memory_to[at] = m;
        h_to[at] = o * tanhf(m);
      } else if (kind == Cell::gru) {
        const float *a = in + r * 3 * hidden + k, *b = state + r * 3 * hidden + k;
        float reset = sigmoid(a[0] + b[0]), update = sigmoid(a[hidden] + b[hidden]);
        float fresh = tanhf(a[2 * hidden] + b[2 * hidden] * reset);
        h_to[at] = (h[at] - fresh) * update + fresh;
      } else {
        float sum = in[at] + state[at];
        h_to[at] = kind == Cell::tanh ? tanhf(sum) : sum > 0.0f ? sum : 0.0f;
      }
    }
}
static int gates_of(Cell kind) { return kind == Cell::lstm ? 4 : kind == Cell::gru ? 3 : 1; }

static TensorObject* rows_view(const TensorObject& t, int64_t first, int64_t count) {  // of a row-major matrix
  int64_t dims[] = {count, t.dim(1)}, strides[] = {t.dim(1), 1};
  return tensor_view(t, 2, dims, strides, t.offset + first * t.dim(1) * 4);
}
static Status check_gates(const Call& c, const TensorObject& gates, int64_t rows, int64_t width) {
  if (gates.rank() == 2 && gates.dim(0) == rows && gates.dim(1) == width) return PEN_OK;
  return c.fail("weights with all gates of the hidden state", "%lld outputs for %lld", static_cast<long long>(gates.dim(1)),
                static_cast<long long>(width));
}

// One direction of one layer over rows of steps: batch_sizes[t] rows in step t, one step after the other. h and memory are
// [batch, hidden] and hold the last states afterwards. The inputs of all steps are one product.
static Status direction(const Call& c, Cell kind, const CellWeights& w, const TensorObject& x, const int64_t* batch_sizes, int64_t steps,
                        bool backward, TensorObject* h, TensorObject* memory, float* out, int64_t out_step) {
  int64_t hidden = h->dim(1), width = gates_of(kind) * hidden, total = x.dim(0);
  Value all;
  PEN_TRY(linear_dynamic_of(c, w.input.object(), x, false, w.reduce_range, &all));
  PEN_TRY(check_gates(c, *all.tensor(), total, width));
  int64_t offset = backward ? total : 0;
  for (int64_t s = 0; s < steps; ++s) {
    int64_t rows = batch_sizes[backward ? steps - 1 - s : s];
    if (backward) offset -= rows;
    Value state, in = Value::own(rows_view(*all.tensor(), offset, rows)), before = Value::own(rows_view(*h, 0, rows));
    if (before.is_none() || in.is_none()) return c.out_of_memory();
    PEN_TRY(linear_dynamic_of(c, w.hidden.object(), *before.tensor(), false, w.reduce_range, &state));
    PEN_TRY(check_gates(c, *state.tensor(), rows, width));
    float *hs = h->as<float>(), *ms = memory ? memory->as<float>() : nullptr;
    step(kind, rows, hidden, in.tensor()->as<float>(), state.tensor()->as<float>(), hs, ms, hs, ms);
    for (int64_t r = 0; r < rows; ++r) memcpy(out + (offset + r) * out_step, hs + r * hidden, static_cast<size_t>(hidden) * 4);
    if (!backward) offset += rows;
  }
  return PEN_OK;
}

// [layers x directions, batch, hidden] in f32, a copy of its own: states are written in place.
static Status states_of(const Call& c, const TensorObject& t, int64_t count, int64_t batch, Value* to) {
  if (t.dtype() != DType::f32 || t.quantizer || t.rank() != 3 || t.dim(0) != count || t.dim(1) != batch)
    return c.fail("states of f32 for each layer and direction", "%s of rank %d", dtype_name(t.dtype()), t.rank());
  Status status;
  *to = Value::own(tensor_clone(c, t, &status));
  return status;
}
static Value layer_state(const Value& states, int64_t index) {
  const TensorObject& t = *states.tensor();
  int64_t dims[] = {t.dim(1), t.dim(2)}, strides[] = {t.dim(2), 1};
  return Value::own(tensor_view(t, 2, dims, strides, t.offset + index * t.dim(1) * t.dim(2) * 4));
}

// All layers over rows of steps [total, inputs]; the outputs [total, directions x hidden], states in place.
static Status layers(const Call& c, Cell kind, const ListObject& params, int64_t layer_count, bool both, const int64_t* batch_sizes,
                     int64_t steps, Value x, const Value& h, const Value& memory, Value* out) {
  int64_t directions = both ? 2 : 1, hidden = h.tensor()->dim(2);
  if (layer_count < 1 || params.count != layer_count * directions)
    return c.fail("parameters for each layer and direction", "%lld for %lld layers", static_cast<long long>(params.count),
                  static_cast<long long>(layer_count));
  for (int64_t layer = 0; layer < layer_count; ++layer) {
    int64_t dims[] = {x.tensor()->dim(0), directions * hidden};
    Value made = Value::own(tensor_create(DType::f32, 2, dims));
    if (made.is_none()) return c.out_of_memory();
    for (int64_t d = 0; d < directions; ++d) {
      int64_t index = layer * directions + d;
      CellWeights w;
      PEN_TRY(cell_weights(c, params.items[index], &w));
      Value hs = layer_state(h, index), ms = memory.is_none() ? Value() : layer_state(memory, index);
      if (hs.is_none() || (!memory.is_none() && ms.is_none())) return c.out_of_memory();
      PEN_TRY(direction(c, kind, w, *x.tensor(), batch_sizes, steps, d == 1, hs.tensor(), ms.is_none() ? nullptr : ms.tensor(),
                        made.tensor()->as<float>() + d * hidden, directions * hidden));
    }
    x = made;
  }
  *out = x;
  return PEN_OK;
}

// A padded sequence, [steps, batch, inputs] or batch first.
static Status padded(Call& c, Cell kind, const Value& h_given, const Value& memory_given, int params_at) {
  const TensorObject& given = c.tensor(0);
  if (given.dtype() != DType::f32 || given.quantizer || given.rank() != 3)
    return c.fail("an input of f32 and rank 3", "%s of rank %d", dtype_name(given.dtype()), given.rank());
  if (c.flag(params_at + 4)) return c.fail("a model in inference", "training");
  bool both = c.flag(params_at + 5), batch_first = c.flag(params_at + 6);
  int64_t layer_count = c.integer(params_at + 2), directions = both ? 2 : 1, b = batch_first ? 0 : 1;
  int64_t steps = given.dim(1 - b), batch = given.dim(b);
  if (layer_count < 1 || layer_count > 1 << 20) return c.fail("a layer at least", "%lld", static_cast<long long>(layer_count));
  int64_t dims[] = {steps, batch, given.dim(2)};
  const int64_t* s = given.shape.strides;
  int64_t strides[] = {s[1 - b], s[b], s[2]};
  Value turned = Value::own(tensor_view(given, 3, dims, strides, given.offset));
  if (turned.is_none()) return c.out_of_memory();
  Status status;
  Value dense = Value::own(ordered(c, *turned.tensor(), Order::rows, &status));
  PEN_TRY(status);
  int64_t flat[] = {steps * batch, given.dim(2)}, flat_steps[] = {given.dim(2), 1};
  Value x = Value::own(tensor_view(*dense.tensor(), 2, flat, flat_steps, dense.tensor()->offset));
  Value sizes = Value::own(tensor_create(DType::i64, 1, &steps)), h, memory, out;
  if (x.is_none() || sizes.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < steps; ++i) sizes.tensor()->as<int64_t>()[i] = batch;
  PEN_TRY(states_of(c, *h_given.tensor(), layer_count * directions, batch, &h));
  if (kind == Cell::lstm) {
    PEN_TRY(states_of(c, *memory_given.tensor(), layer_count * directions, batch, &memory));
    if (memory.tensor()->dim(2) != h.tensor()->dim(2)) return c.fail("states of one size", "two");
  }
  PEN_TRY(layers(c, kind, *c.args[params_at].list(), layer_count, both, sizes.tensor()->as<int64_t>(), steps, x, h, memory, &out));
  int64_t width = out.tensor()->dim(1), made[] = {batch_first ? batch : steps, batch_first ? steps : batch, width};
  int64_t made_steps[] = {batch_first ? width : batch * width, batch_first ? batch * width : width, 1};
  PEN_TRY(c.give(tensor_view(*out.tensor(), 3, made, made_steps, out.tensor()->offset), 0));
  PEN_TRY(c.give(static_cast<Value&&>(h), 1));
  return kind == Cell::lstm ? c.give(static_cast<Value&&>(memory), 2) : PEN_OK;
}
// A packed sequence: the rows of all steps, and how many each step has.
static Status packed(Call& c, Cell kind, const Value& h_given, const Value& memory_given, int params_at) {
  const TensorObject &data = c.tensor(0), &given = c.tensor(1);
  if (data.dtype() != DType::f32 || data.quantizer || data.rank() != 2)
    return c.fail("an input of f32 and rank 2", "%s of rank %d", dtype_name(data.dtype()), data.rank());
  if (given.dtype() != DType::i64 || given.rank() != 1 || given.dim(0) < 1)
    return c.fail("batch sizes of Long, in a row", "%s of rank %d", dtype_name(given.dtype()), given.rank());
  if (c.flag(params_at + 4)) return c.fail("a model in inference", "training");
  bool both = c.flag(params_at + 5);
  int64_t layer_count = c.integer(params_at + 2), steps = given.dim(0), total = 0;
  if (layer_count < 1 || layer_count > 1 << 20) return c.fail("a layer at least", "%lld", static_cast<long long>(layer_count));
  Status status;
  Value sizes = Value::own(tensor_clone(c, given, &status));
  PEN_TRY(status);
  const int64_t* size = sizes.tensor()->as<int64_t>();
  for (int64_t i = 0; i < steps; ++i) {
    if (size[i] < 1 || (i > 0 && size[i] > size[i - 1]) || add_overflows(total, size[i], &total))
      return c.fail("batch sizes above 0 that never grow", "%lld in step %lld", static_cast<long long>(size[i]), static_cast<long long>(i));
  }
  if (total != data.dim(0))
    return c.fail("as many rows as the batch sizes add up to", "%lld of %lld", static_cast<long long>(data.dim(0)),
                  static_cast<long long>(total));
  Value x = Value::own(ordered(c, data, Order::rows, &status)), h, memory, out;
  PEN_TRY(status);
  PEN_TRY(states_of(c, *h_given.tensor(), layer_count * (both ? 2 : 1), size[0], &h));
  if (kind == Cell::lstm) {
    PEN_TRY(states_of(c, *memory_given.tensor(), layer_count * (both ? 2 : 1), size[0], &memory));
    if (memory.tensor()->dim(2) != h.tensor()->dim(2)) return c.fail("states of one size", "two");
  }
  PEN_TRY(layers(c, kind, *c.args[params_at].list(), layer_count, both, size, steps, x, h, memory, &out));
  PEN_TRY(c.give(static_cast<Value&&>(out), 0));
  PEN_TRY(c.give(static_cast<Value&&>(h), 1));
  return kind == Cell::lstm ? c.give(static_cast<Value&&>(memory), 2) : PEN_OK;
}
static Status two_states(const Call& c, int i) {
  return c.list(i).count == 2 ? PEN_OK : c.fail("a hidden state and a memory", "%lld tensors", static_cast<long long>(c.list(i).count));
}
PEN_OP(quantized_lstm_input,
       "aten::quantized_lstm.input(Tensor input, Tensor[] hx, __torch__.torch.classes.rnn.CellParamsBase[] params, bool has_biases, int "
       "num_layers, float dropout, bool train, bool bidirectional, bool batch_first, *, ScalarType? dtype=None, bool use_dynamic=False) -> "
       "(Tensor, Tensor, Tensor)") {
  PEN_TRY(two_states(c, 1));
  return padded(c, Cell::lstm, c.list(1).items[0], c.list(1).items[1], 2);
}
PEN_OP(quantized_lstm_data,
       "aten::quantized_lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, __torch__.torch.classes.rnn.CellParamsBase[] params, bool "
       "has_biases, int num_layers, float dropout, bool train, bool bidirectional, *, ScalarType? dtype=None, bool use_dynamic=False) -> "
       "(Tensor, Tensor, Tensor)") {
  PEN_TRY(two_states(c, 2));
  return packed(c, Cell::lstm, c.list(2).items[0], c.list(2).items[1], 3);
}
PEN_OP(quantized_gru_input,
       "aten::quantized_gru.input(Tensor input, Tensor hx, __torch__.torch.classes.rnn.CellParamsBase[] params, bool has_biases, int "
       "num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)") {
  return padded(c, Cell::gru, c.args[1], Value(), 2);
}
PEN_OP(quantized_gru_data,
       "aten::quantized_gru.data(Tensor data, Tensor batch_sizes, Tensor hx, __torch__.torch.classes.rnn.CellParamsBase[] params, bool "
       "has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)") {
  return packed(c, Cell::gru, c.args[2], Value(), 3);
}

// ---- single cells ----
static Status one_step(Call& c, Cell kind, const Value& h, const Value& memory, Instance* input, Instance* hidden) {
  const TensorObject& x = c.tensor(0);
  const TensorObject& before = *h.tensor();
  if (before.dtype() != DType::f32 || before.quantizer || before.rank() != 2 || x.rank() != 2 || x.dim(0) != before.dim(0))
    return c.fail("an input and a state of rank 2, of one batch", "ranks %d and %d", x.rank(), before.rank());
  Value in, state, dense, kept, made, made_memory;
  PEN_TRY(linear_dynamic_of(c, input, x, false, false, &in));
  PEN_TRY(linear_dynamic_of(c, hidden, before, false, false, &state));
  int64_t rows = before.dim(0), width = before.dim(1);
  PEN_TRY(check_gates(c, *in.tensor(), rows, width * gates_of(kind)));
  PEN_TRY(check_gates(c, *state.tensor(), rows, width * gates_of(kind)));
  Status status;
  dense = Value::own(ordered(c, before, Order::rows, &status));
  PEN_TRY(status);
  made = Value::own(tensor_create(DType::f32, 2, before.shape.dims));
  made_memory = Value::own(tensor_create(DType::f32, 2, before.shape.dims));
  if (made.is_none() || made_memory.is_none()) return c.out_of_memory();
  const float* memory_in = nullptr;
  if (kind == Cell::lstm) {
    const TensorObject& m = *memory.tensor();
    if (m.dtype() != DType::f32 || m.rank() != 2 || m.dim(0) != rows || m.dim(1) != width)
      return c.fail("a memory of the state's sizes", "another");
    kept = Value::own(ordered(c, m, Order::rows, &status));
    PEN_TRY(status);
    memory_in = kept.tensor()->as<float>();
  }
  step(kind, rows, width, in.tensor()->as<float>(), state.tensor()->as<float>(), dense.tensor()->as<float>(), memory_in,
       made.tensor()->as<float>(), made_memory.tensor()->as<float>());
  PEN_TRY(c.give(static_cast<Value&&>(made), 0));
  return kind == Cell::lstm ? c.give(static_cast<Value&&>(made_memory), 1) : PEN_OK;
}
static Status dynamic_cell(Call& c, Cell kind) {
  Instance *input, *hidden;
  PEN_TRY(packed_object(c, 2, kLinearParams, &input));
  PEN_TRY(packed_object(c, 3, kLinearParams, &hidden));
  if (kind != Cell::lstm) return one_step(c, kind, c.args[1], Value(), input, hidden);
  PEN_TRY(two_states(c, 1));
  return one_step(c, kind, c.list(1).items[0], c.list(1).items[1], input, hidden);
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
static Status plain_weights(const Call& c, int weight_at, int bias_at, int scale_at, int zero_at, Value* to) {
  const TensorObject& w = c.tensor(weight_at);
  if (w.dtype() != DType::i8 || w.quantizer) return c.fail("weights of Char", "%s", dtype_name(w.dtype()));
  double zero = c.number(zero_at);
  if (!(zero >= -128 && zero <= 127)) return c.fail("a zero point from -128 to 127", "%g", zero);
  *to = Value::own(instance_create(kLinearParams, &kLinearClass, 2));
  Value quantized = Value::own(tensor_on(w.storage, w.shape, w.offset));
  Quantizer* q = quantizer_create(c.number(scale_at), static_cast<int64_t>(zero));
  if (to->is_none() || quantized.is_none() || !q) {
    quantizer_release(q);
    return c.out_of_memory();
  }
  tensor_set_quantizer(quantized.tensor(), q);
  to->object()->slots[0] = quantized;
  to->object()->slots[1] = c.args[bias_at];
  return PEN_OK;
}
static Status plain_cell(Call& c, Cell kind) {
  Value input, hidden;
  PEN_TRY(plain_weights(c, 2, 4, 10, 12, &input));
  PEN_TRY(plain_weights(c, 3, 5, 11, 13, &hidden));
  if (kind != Cell::lstm) return one_step(c, kind, c.args[1], Value(), input.object(), hidden.object());
  PEN_TRY(two_states(c, 1));
  return one_step(c, kind, c.list(1).items[0], c.list(1).items[1], input.object(), hidden.object());
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
