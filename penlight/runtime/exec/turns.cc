#include "penlight/runtime/exec/turns.h"

#include "penlight/runtime/cpu/blocking.h"

namespace pen {

namespace {

struct Region {
  const Plan& plan;
  const Model& m;
  const format::Region& region;
  const ValueState* values;

  // How many images a step takes, if it may take them in turns; else 0. `bytes`: of each image, that it reads and writes; `weights`: that
  // it reads besides.
  int64_t images(const Step& step, int64_t* bytes, int64_t* weights) const {
    const format::Node& node = m.nodes[step.node];
    if (!step.run || step.out_count < 1) return 0;
    const int64_t n = step.out[0].rank > 1 ? step.out[0].dims[0] : 0;
    *bytes = *weights = 0;
    for (int i = 0; i < step.out_count; ++i) {
      const ValueState& v = values[m.indices[node.outputs + static_cast<uint32_t>(i)]];
      if (!v.fresh || v.count || v.tensor.rank < 2 || v.tensor.dims[0] != n || strcmp(v.layout, "plain") != 0) return 0;
      *bytes += v.tensor.numel() * dtype_size(v.tensor.dtype);
    }
    bool any = false;
    const char* p = step.entry->schema;
    for (int i = 0; i < step.in_count; ++i) {
      const char* end = p;  // of this parameter's words; a list takes all that is left
      while (*end && *end != ' ') ++end;
      bool marked = step.entry->elementwise, list = false;
      for (const char* c = p; c < end; ++c) marked |= *c == '+', list |= *c == '[';
      if (!list && *end) p = end + 1;
      const uint32_t value = m.indices[node.inputs + static_cast<uint32_t>(i)];
      if (value == format::kNone) continue;
      const ValueState& v = values[value];
      const Tensor& t = v.tensor;
      if (m.values[region.values + value].constant != format::kNone) {
        // A constant with an image for each of the batch would have to move on too.
        if (marked && !(step.entry->elementwise && (t.rank < step.out[0].rank || t.dims[0] == 1))) return 0;
        *weights += plan.buffers[v.at.buffer].size;
        continue;
      }
      if (!marked || t.rank < 2 || t.dims[0] != n || strcmp(v.layout, "plain") != 0) return 0;
      if (step.entry->elementwise && t.rank != step.out[0].rank) return 0;
      if (plan.buffers[v.at.buffer].kind == Buffer::Kind::constant) return 0;  // a view of one
      *bytes += t.numel() * dtype_size(t.dtype);
      any = true;
    }
    if (!any || n < 2) return 0;
    *bytes /= n;
    return n;
  }
};

// As many as keep what a step reads and writes of them within turn_bytes, or within the size of its weights where these are larger: they
// are fetched again for every turn. All turns are equal, so that they are one plan. More than some hundred would gain nothing, and looking
// for a divisor among millions would take its time.
int64_t images_at_once(int64_t n, int64_t bytes, int64_t weights) {
  const int64_t near = turn_bytes(processor()), most = weights > near ? weights : near;
  constexpr int64_t kMostImages = 256;
  if (bytes <= most / n) return n;
  int64_t c = most / (bytes > 0 ? bytes : 1);
  c = c < kMostImages ? c : kMostImages;
  while (c > 1 && n % c != 0) --c;
  return c > 1 ? c : 1;
}

}  // namespace

bool choose_turns(Plan* plan, const Model& model, const format::Region& region, const ValueState* values, int32_t first, Pool* scrap) {
  // Steps of a network's block read and write more and less by turns; the most in any of so many decides for all of them, as what lies
  // between two turns goes to memory and back.
  constexpr int32_t kBlock = 4;
  const int32_t count = static_cast<int32_t>(region.node_count);
  int64_t* all = scrap->take_array<int64_t>(count + 1);
  int64_t* few = scrap->take_array<int64_t>(count + 1);
  if (!all || !few) return false;
  const Region r = {*plan, model, region, values};
  for (int32_t i = 0; i < count; ++i) {
    int64_t bytes, weights;
    all[i] = r.images(plan->steps[first + i], &bytes, &weights);
    if (all[i]) few[i] = images_at_once(all[i], bytes, weights);
  }
  for (int32_t i = 0; i < count; ++i)
    for (int32_t j = i + 1; j < count && j < i + kBlock && all[j] == all[i]; ++j)
      if (few[j] < few[i]) few[i] = few[j];
  for (int32_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && all[end] == all[i] && few[end] == few[i];) ++end;
    if (!all[i] || few[i] == all[i] || end - i < 2) continue;
    const Turns t = {first + i, first + end, all[i] / few[i], few[i], 0, 0};
    if (!plan->turns.push(t)) return false;
  }
  return true;
}

uint32_t* last_readers(const Model& model, const format::Region& region, Pool* scrap) {
  uint32_t* last = scrap->take_array<uint32_t>(int64_t{region.value_count} + 1);
  for (uint32_t n = 0; n < region.node_count && last; ++n) {
    const format::Node& node = model.nodes[region.nodes + n];
    for (uint32_t k = 0; k < node.input_count; ++k) {
      const uint32_t value = model.indices[node.inputs + k];
      if (value != format::kNone) last[value] = n + 1;
    }
  }
  return last;
}

void begin_turn(Given::State& s, const Turns& turns) {
  const int64_t all = turns.count * turns.images;
  for (uint32_t i = 0; i < s.node->input_count; ++i) {
    const uint32_t value = s.input_value(static_cast<int>(i));
    if (value == format::kNone || s.model->values[s.region->values + value].constant != format::kNone) continue;
    ValueState& v = s.values[value];
    if (v.tensor.dims[0] != all) continue;  // made in this turn
    v.whole = all;
    v.tensor.dims[0] = turns.images;
  }
  // Results that are read after the last turn.
  const uint32_t at = s.step->node - s.region->nodes, end = at + static_cast<uint32_t>(turns.end - s.step_index);
  for (uint32_t i = 0; i < s.node->output_count; ++i) {
    const uint32_t value = s.output_value(static_cast<int>(i));
    if (s.values[value].returned || s.last_reader[value] > end) s.values[value].whole = all;
  }
}

Status end_turn(Given::State& s, Turns* turns) {
  Step& step = *s.step;
  const int64_t all = turns->count * turns->images;
  step.whole = s.plan->pool.take_array<Tensor>(step.in_count + step.out_count);
  if (!step.whole) return s.out_of_memory();
  if (s.step_index == turns->begin) turns->first_move = s.plan->moves.count, turns->moves = 0;
  for (int i = 0; i < step.in_count + step.out_count; ++i) {
    const bool is_output = i >= step.in_count;
    const int k = is_output ? i - step.in_count : i;
    step.whole[i] = is_output ? step.out[k] : step.in[k];
    const uint32_t value = is_output ? s.output_value(k) : s.input_value(k);
    if (value == format::kNone || s.model->values[s.region->values + value].constant != format::kNone) continue;
    step.whole[i].dims[0] = all;
    const ValueState& v = s.values[value];
    if (!v.whole) continue;
    Buffer& b = s.plan->buffers[v.at.buffer];
    if (b.first > turns->begin) b.first = turns->begin;
    if (b.last < turns->end - 1) b.last = turns->end - 1;
    Tensor* operand = is_output ? &step.out[k] : &step.in[k];
    for (int c = 0; c < step.copy_count && !is_output; ++c)
      if (step.copies[c].to_at.buffer == step.in_at[k].buffer) operand = &step.copies[c].from;
    const Plan::Move m = {operand, turns->images * v.tensor.strides[0] * dtype_size(v.tensor.dtype)};
    if (!s.plan->moves.push(m)) return s.out_of_memory();
    ++turns->moves;
  }
  if (s.step_index + 1 < turns->end) return PEN_OK;
  for (uint32_t v = 0; v < s.region->value_count; ++v)  // as those see them who read all images
    if (s.values[v].whole) s.values[v].tensor.dims[0] = s.values[v].whole;
  return PEN_OK;
}

}  // namespace pen
