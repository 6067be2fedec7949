#include "penlight/runtime/vm/rows.h"

#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/cpu/special.h"
#include "penlight/runtime/exec/isa.h"
#include "penlight/runtime/vm/graph.h"
#include "penlight/runtime/vm/images.h"

namespace pen {

namespace {
constexpr int64_t kGrain = 16384;  // elements of a task: below, waking a thread costs more than the work
constexpr int64_t kChunk = 512;    // elements that one step leaves for the next: few enough to stay in the first-level cache
}  // namespace

int Rows::add_item(DType dtype, int tensor, int step) {
  if (item_count_ == kMaxItems) {
    full_ = true;
    return 0;
  }
  Item& item = items_[item_count_];
  item.dtype = dtype;
  item.tensor = static_cast<int8_t>(tensor);
  item.step = static_cast<int8_t>(step);
  return item_count_++;
}

int Rows::input(const TensorObject& t) {
  int made = input(memory_of(t));
  if (!full_) objects_[tensor_count_ - 1] = &t;
  return made;
}
int Rows::input(const Tensor& t) {
  if (tensor_count_ == kMaxTensors) {
    full_ = true;
    return 0;
  }
  tensors_[tensor_count_] = t;
  return add_item(t.dtype, tensor_count_++, -1);
}

int Rows::number(const Value& v, DType dtype) {
  int made = add_item(dtype, -1, -1);
  number_into(v, dtype, items_[made].bytes);
  return made;
}

int Rows::node(const char* kernel, DType dtype, int a, int b, int d) {
  Key key(kernel, dtype);
  const KernelEntry* entry = find_kernel(key);
  RowFn row = entry ? row_function(*entry, call_.machine->isa) : nullptr;
  if (!row) {
    if (!missing_[0]) set_text(missing_, sizeof missing_, "%s", key.text);
    return a;
  }
  trace_kernel(call_.machine->runner.trace, entry);
  Step& step = steps_[step_count_];
  int made = add_item(entry->result, -1, step_count_);
  if (full_) return 0;
  ++step_count_;
  step.row = row;
  step.kernel = entry;
  step.item = made;
  step.in[0] = a, step.in[1] = b, step.in[2] = d;
  step.inputs = b < 0 ? 1 : d < 0 ? 2 : 3;
  return made;
}
int Rows::with(int node, double first, double second, double third) {
  if (step_count_ == 0) return node;
  double* args = steps_[step_count_ - 1].args;
  args[0] = first, args[1] = second, args[2] = third;
  return node;
}

int Rows::cast(int value, DType to) {
  DType from = items_[value].dtype;
  if (from == to) return value;
  if (items_[value].tensor < 0 && items_[value].step < 0) return number(number_at(from, items_[value].bytes), to);
  char kernel[24];
  set_text(kernel, sizeof kernel, "cast.%s", kDTypeNames[static_cast<int>(from)]);
  return node(kernel, to, value);
}

Status broadcast_shapes(const Call& c, Shape* to, const Shape& with) {
  int wrong = broadcast(to, with.dims, with.rank);
  if (wrong < 0) return PEN_OK;
  return c.fail("sizes that broadcast with each other", "%lld against %lld in dim %d from the end",
                static_cast<long long>(with.dims[wrong]), static_cast<long long>(to->dims[to->rank - with.rank + wrong]),
                with.rank - wrong);
}

Status broadcast_batches(const Call& c, const Tensor& a, const Tensor& b, Shape* to) {
  *to = {};
  if (broadcast(to, a.dims, a.rank - 2) < 0 && broadcast(to, b.dims, b.rank - 2) < 0) return PEN_OK;
  return c.fail("batches that can be broadcast", "others, of rank %d and %d", a.rank, b.rank);
}

Status Rows::broadcast_inputs(Shape* shape) const {
  for (int i = 0; i < tensor_count_; ++i) {
    Shape with;
    with.rank = tensors_[i].rank;
    memcpy(with.dims, tensors_[i].dims, sizeof with.dims);
    PEN_TRY(broadcast_shapes(call_, shape, with));
  }
  return PEN_OK;
}

void result_strides(const Shape& shape, const Tensor* operands, int count, int64_t* strides) {
  const int rank = shape.rank;
  int order[kMaxRank];
  bool all_dense = true;
  for (int i = 0; i < count && all_dense; ++i) {
    int64_t expected = 1;
    all_dense = operands[i].rank == rank;
    for (int d = rank - 1; d >= 0 && all_dense; --d) {
      all_dense = operands[i].dims[d] == shape.dims[d] && (shape.dims[d] == 1 || operands[i].strides[d] == expected);
      expected *= shape.dims[d];
    }
  }
  for (int k = 0; k < rank; ++k) order[k] = rank - 1 - k;
  auto compare = [&](int a, int b) {
    for (int i = 0; i < count; ++i) {
      int64_t sa = broadcast_stride(shape, a, operands[i], operands[i].rank) * dtype_size(operands[i].dtype);
      int64_t sb = broadcast_stride(shape, b, operands[i], operands[i].rank) * dtype_size(operands[i].dtype);
      if (sa == 0 || sb == 0) continue;
      if (sa != sb) return sa < sb ? -1 : 1;
      if (shape.dims[a] > shape.dims[b]) return 1;
    }
    return 0;
  };
  for (int k = 1; k < rank && !all_dense; ++k)
    for (int at = k, before = k - 1; before >= 0; --before) {
      int decided = compare(order[before], order[at]);
      if (decided < 0) break;
      if (decided == 0) continue;
      int kept = order[before];
      order[before] = order[at];
      order[at] = kept;
      at = before;
    }
  int64_t step = 1;
  for (int k = 0; k < rank; ++k) {
    strides[order[k]] = step;
    step *= shape.dims[order[k]] > 1 ? shape.dims[order[k]] : 1;
  }
}

struct Rows::Walk : Loops<kMaxTensors> {
  const Rows* rows;
  int last;  // the step that writes the result
  int64_t elements, tasks;
  char* data;
  int64_t size;
  char* scratch;   // for each thread, kChunk elements of each step but the last
  int64_t most;    // elements that all steps do before the next ones
  Runner* runner;  // null: no step loops, and nobody is asked between

  // `n` elements side by side in the result, from these places on. False: the caller wants the run to end.
  bool row(char* to, const char* const* from, int64_t n, char* between, int worker) const {
    const Rows& r = *rows;
    for (int64_t at = 0; at < n;) {
      if (runner && is_to_end(runner, worker)) return false;
      int64_t count = n - at > most ? most : n - at;
      for (int s = 0; s <= last; ++s) {
        const Step& step = r.steps_[s];
        const void* in_data[3];
        int64_t steps[3];
        for (int k = 0; k < step.inputs; ++k) {
          const Item& item = r.items_[step.in[k]];
          if (item.tensor >= 0) {
            steps[k] = in[item.tensor][0];
            in_data[k] = from[item.tensor] + at * steps[k] * dtype_size(item.dtype);
          } else if (item.step >= 0) {
            steps[k] = 1;
            in_data[k] = between + item.step * kChunk * 8;
          } else {
            steps[k] = 0;
            in_data[k] = item.bytes;
          }
        }
        step.row(s == last ? to + at * size : between + s * kChunk * 8, in_data, steps, count, step.args);
      }
      at += count;
    }
    return true;
  }

  void run(int64_t begin, int64_t end, int worker) const {
    char* between = scratch ? scratch + worker * last * kChunk * 8 : nullptr;
    int64_t at = begin % dims[0], outer = begin / dims[0], index[kMaxRank + 1], to = 0, from[kMaxTensors] = {};
    for (int d = 1; d < rank; ++d) {
      index[d] = outer % dims[d];
      outer /= dims[d];
      to += index[d] * out[d];
      for (int i = 0; i < rows->tensor_count_; ++i) from[i] += index[d] * in[i][d];
    }
    while (begin < end) {
      int64_t count = dims[0] - at < end - begin ? dims[0] - at : end - begin;
      const char* data_in[kMaxTensors];
      for (int i = 0; i < rows->tensor_count_; ++i)
        data_in[i] = rows->tensors_[i].data + (from[i] + at * in[i][0]) * dtype_size(rows->tensors_[i].dtype);
      if (!row(data + (to + at) * size, data_in, count, between, worker)) return;
      begin += count;
      at = 0;
      for (int d = 1; d < rank; ++d) {
        int64_t back = ++index[d] == dims[d] ? dims[d] : 0;
        to += (1 - back) * out[d];
        for (int i = 0; i < rows->tensor_count_; ++i) from[i] += (1 - back) * in[i][d];
        if (!back) break;
        index[d] = 0;
      }
    }
  }
};

Status Rows::check(int value) {
  if (missing_[0])
    return report(&call_.machine->error, {PEN_ERROR_KERNEL, "", call_.op->name, "", "a kernel that this library has", missing_,
                                          call_.machine->source, "Use a library built with it: a full build of this version"});
  if (full_) return call_.fail("fewer steps", "%d", item_count_);
  if (items_[value].step < 0 && items_[value].tensor < 0) return call_.fail("a tensor among the operands", "numbers alone");
  return PEN_OK;
}

// A result's tensor: as torch would have it, or an image that lies as those do that it is made of.
TensorObject* Rows::fresh(DType dtype, const Shape& shape, bool row_major) const {
  Tensor seen[kMaxTensors];  // as code sees them
  bool nhwc = false;
  for (int i = 0; i < tensor_count_; ++i) {
    seen[i] = tensors_[i];
    if (!objects_[i] || !objects_[i]->storage->pitch) continue;
    row_major_strides(seen[i].rank, seen[i].dims, seen[i].strides);
    nhwc = true;
  }
  int64_t strides[kMaxRank], plain[kMaxRank], bytes = dtype_size(dtype);
  for (int d = 0; d < shape.rank; ++d)  // expanded inputs of two shapes may broadcast to anything
    if (mul_overflows(bytes, shape.dims[d] > 1 ? shape.dims[d] : 1, &bytes)) return nullptr;
  row_major_strides(shape.rank, shape.dims, plain);
  result_strides(shape, seen, tensor_count_, strides);
  nhwc = nhwc && !row_major && call_.nhwc && shape.rank == 4;
  for (int d = 0; d < shape.rank; ++d) nhwc = nhwc && (shape.dims[d] == 1 || plain[d] == strides[d]);
  if (nhwc) return image_create(*call_.machine, dtype, shape.dims);
  TensorObject* made = tensor_create(dtype, shape.rank, shape.dims);
  if (made && !row_major) memcpy(made->shape.strides, strides, sizeof strides);
  return made;
}

// What the elements of a step that loops take: as many steps as their numbers say.
Status Rows::spend_loops(const Step& step, int64_t elements) const {
  int item = step.in[step.kernel->loops - 1];
  while (items_[item].step >= 0) item = steps_[items_[item].step].in[0];  // it was cast
  const Item& from = items_[item];
  Tensor t = {};
  if (from.tensor >= 0) t = tensors_[from.tensor];
  const int64_t numbers = t.numel(), repeats = elements / numbers;
  int64_t index[kMaxRank] = {}, at = 0;
  for (int64_t i = 0; i < numbers; ++i) {
    int64_t steps = special::steps_of(number_at(from.dtype, from.tensor < 0 ? from.bytes : t.data + at * dtype_size(from.dtype)).number());
    if (mul_overflows(steps, repeats, &steps)) steps = INT64_MAX;
    PEN_TRY(steps >> 32 ? call_.spend(steps) : call_.walk(1 + steps));
    for (int d = t.rank - 1; d >= 0; --d) {
      at += t.strides[d];
      if (++index[d] < t.dims[d]) break;
      at -= index[d] * t.strides[d];
      index[d] = 0;
    }
  }
  return PEN_OK;
}

Status Rows::compute(int value, const Tensor& out) {
  PEN_TRY(finish(call_.machine));
  Walk w;
  w.rows = this;
  w.elements = out.numel();
  w.data = out.data;
  w.size = dtype_size(out.dtype);
  w.scratch = nullptr;
  w.last = items_[value].step;
  if (w.elements == 0) return PEN_OK;
  PEN_TRY(call_.spend(w.elements));
  w.most = w.last > 0 ? kChunk : INT64_MAX;
  w.runner = nullptr;
  for (int s = 0; s <= w.last; ++s) {
    if (!steps_[s].kernel->loops) continue;
    PEN_TRY(spend_loops(steps_[s], w.elements));
    w.most = kLoopingPiece;
    w.runner = &call_.machine->runner;
  }
  w.make(out, tensor_count_, [&](int i) -> const Tensor& { return tensors_[i]; });
  ThreadPool* pool = call_.machine->runner.pool;
  if (w.last > 0) {
    size_t bytes = static_cast<size_t>(pool_threads(pool)) * static_cast<size_t>(w.last) * kChunk * 8;
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, bytes) != 0) return call_.out_of_memory();
    w.scratch = static_cast<char*>(memory);
  }
  w.tasks = task_count(w.elements, kGrain);
  bool done = true;
  if (w.tasks == 1) {
    w.run(0, w.elements, 0);
    done = !w.runner || !w.runner->cancelled;
  } else {
    done = run_tasks(
        &call_.machine->runner, w.tasks,
        [](void* context, int64_t begin, int64_t end, int worker) {
          const Walk& walk = *static_cast<const Walk*>(context);
          walk.run(part(walk.elements, walk.tasks, begin).begin, part(walk.elements, walk.tasks, end - 1).end, worker);
        },
        &w);
  }
  free(w.scratch);
  return done ? PEN_OK : report_cancelled(&call_.machine->runner);
}

Status Rows::run(int value, TensorObject** made, bool row_major) {
  *made = nullptr;
  PEN_TRY(check(value));
  Shape shape;
  PEN_TRY(broadcast_inputs(&shape));
  TensorObject* t = fresh(items_[value].dtype, shape, row_major);
  if (!t) return call_.out_of_memory();
  Status status;
  if (items_[value].tensor >= 0) {  // an input as it is
    Tensor from = t->shape;
    from.data = tensors_[items_[value].tensor].data;
    for (int d = 0; d < shape.rank; ++d)
      from.strides[d] = broadcast_stride(shape, d, tensors_[items_[value].tensor], tensors_[items_[value].tensor].rank);
    status = move_elements(call_, memory_of(*t), from);
  } else {
    status = compute(value, memory_of(*t));
  }
  if (status != PEN_OK) {
    heap_release(t);
    return status;
  }
  *made = t;
  return PEN_OK;
}

// Whether a result can be written straight into `to`: it lies densely, and inputs lie elsewhere or exactly as it does.
bool Rows::fits_in(const TensorObject& to, DType dtype, const Shape& shape) const {
  const Storage& storage = *to.storage;
  if (to.dtype() != dtype || to.rank() != shape.rank || storage.read_only || to.quantizer) return false;
  int64_t reach = 1, numel = 1;
  const Tensor own = memory_of(to);
  for (int d = 0; d < shape.rank; ++d) {
    if (to.dim(d) != shape.dims[d] || shape.dims[d] == 0) return false;
    reach += (to.dim(d) - 1) * own.strides[d];
    numel *= to.dim(d);
  }
  if (!storage.pitch) {
    if (reach != numel) return false;
    int64_t strides[kMaxRank];
    result_strides(shape, &own, 1, strides);  // its own, if it is dense in some order; else elements share a place
    for (int d = 0; d < shape.rank; ++d)
      if (shape.dims[d] > 1 && strides[d] != own.strides[d]) return false;
  }
  for (int i = 0; i < tensor_count_; ++i) {
    const Tensor& t = tensors_[i];
    int64_t last = 0;
    for (int d = 0; d < t.rank; ++d) last += (t.dims[d] - 1) * t.strides[d];
    if (t.data + (last + 1) * dtype_size(t.dtype) <= own.data || t.data >= own.data + reach * dtype_size(dtype)) continue;
    if (t.data != own.data || t.dtype != dtype || t.rank != own.rank) return false;
    for (int d = 0; d < t.rank; ++d)
      if (t.dims[d] != own.dims[d] || (t.dims[d] > 1 && t.strides[d] != own.strides[d])) return false;
  }
  return true;
}

// Where this is one step on the result of a convolution that waits (images.h), and that result is written in place or seen by nobody
// else, the step becomes the convolution's own: an activation, or a sum with an image of the same size.
bool Rows::join(int value) {
  Waiting& w = call_.machine->waiting;
  const OpEntry& op = *call_.op;
  if (!w.op || w.act[0] || op.outs || items_[value].step != 0 || step_count_ != 1 || items_[value].dtype != DType::f32) return false;
  const Step& step = steps_[0];
  TensorObject& made = *w.made.tensor();
  auto object = [&](int i) { return items_[step.in[i]].tensor < 0 ? nullptr : objects_[items_[step.in[i]].tensor]; };
  const int at = step.inputs == 2 && object(0) != &made ? 1 : 0;
  // Two references: the call's argument and ours.
  if (step.inputs > 2 || object(at) != &made || (op.writes < 0 ? made.refs != 2 : op.writes != 0 || &call_.tensor(0) != &made))
    return false;
  const char* name = step.kernel->key;
  const size_t length = strlen(name) - strlen(".f32");
  if (step.inputs == 1) {
    if (length >= sizeof w.act) return false;
    memcpy(w.act, name, length);
    w.act[length] = 0;
    for (int i = 0; i < 3; ++i) w.act_args[i] = step.args[i];
    return true;
  }
  const TensorObject* other = object(1 - at);
  if (!other || other == &made || !w.residual.is_none() || !sums_ || other->dtype() != DType::f32 || other->rank() != 4 ||
      (op.writes < 0 && !tensor_is_contiguous(*other)))
    return false;
  for (int d = 0; d < 4; ++d)
    if (other->dim(d) != made.dim(d)) return false;
  w.residual = Value::share(const_cast<TensorObject*>(other));
  return true;
}

Status Rows::give(int value) {
  TensorObject* made;
  const int writes = call_.op->writes;
  if (call_.machine->waiting.op) {
    PEN_TRY(check(value));
    if (join(value)) {
      call_.results[0] = call_.machine->waiting.made;
      return call_.machine->waiting.act[0] ? finish(call_.machine) : PEN_OK;  // nothing can follow an activation
    }
  }
  if (writes >= 0 && items_[value].step >= 0) {
    PEN_TRY(check(value));
    Shape shape;
    PEN_TRY(broadcast_inputs(&shape));
    TensorObject& to = call_.tensor(writes);
    if (fits_in(to, items_[value].dtype, shape)) {
      call_.results[0] = call_.args[writes];
      return compute(value, memory_of(to));
    }
  }
  PEN_TRY(run(value, &made));
  call_.results[0] = Value::own(made);
  return PEN_OK;
}

bool carrier_of(const char* kernel, DType dtype, DType* carrier) {
  auto has = [&](DType d) { return find_kernel(Key(kernel, d)) != nullptr; };
  *carrier = dtype;
  if (has(dtype)) return true;
  bool is_float = is_floating(dtype);
  if (dtype == DType::f16 || dtype == DType::bf16) *carrier = DType::f32;
  if (!is_float && dtype != DType::i64) *carrier = DType::i32;
  if (*carrier != dtype && has(*carrier)) return true;
  *carrier = DType::i64;
  if (!is_float && has(*carrier)) return true;
  *carrier = DType::f32;
  if (dtype != DType::f64 && has(DType::f32)) return true;
  *carrier = DType::f64;
  return has(DType::f64);
}

}  // namespace pen
