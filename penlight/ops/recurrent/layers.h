// Recurrent operators of the VM: how a call's layers, directions, states and steps are walked, whatever their weights are.
#pragma once
#include "penlight/ops/recurrent/cell.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

struct Layer;

// How weights are multiplied. Those of floats are in recurrent_ops.cc; others give their own.
struct LayerProducts {
  DType weights;
  // The input's share of the gates, for all rows of x at once: [..., gates * H].
  Status (*input)(const Call& c, const Layer& l, const TensorObject& x, Value* to);
  // Steps of one batch size. gates [n, B, gates * H]; y [n, B, P]; states are changed in place. All row-major.
  Status (*steps)(const Call& c, const Layer& l, const TensorObject& gates, TensorObject* h, TensorObject* cell, Value* y);
};

// One layer in one direction.
struct Layer {
  Cell cell;
  const TensorObject *w_ih, *w_hh, *b_ih, *b_hh, *w_hr;  // biases and the projection may be null
  bool reverse;
  const LayerProducts* products = nullptr;  // null: floats
  bool reduce_range = false;                // of dynamically quantized ones: 128 levels, not 256
};

// Fills the weights of layer * directions + direction number `index`, of `count`, from a call's parameters.
using LayerOf = Status (*)(const Call& c, Cell cell, const ListObject& params, bool biases, int64_t index, int64_t count, Layer* to);

// Of a padded batch, and of a packed sequence. `first`: the argument after the states; argument 0 is the input.
Status recurrent_padded(Call& c, Cell cell, int first, LayerOf layer_of);
Status recurrent_packed(Call& c, Cell cell, int first, LayerOf layer_of);
// One step: x [B, F] as argument 0, or [F]; states as argument 1.
Status recurrent_cell(Call& c, const Layer& l);

// Ends a node of recurrent steps in `g`, whose first output is `out`: runs it, and moves its results to where `steps` gives them.
Status take_steps(const Call& c, Graph* g, int out, TensorObject* h, TensorObject* cell, Value* y);

}  // namespace pen
