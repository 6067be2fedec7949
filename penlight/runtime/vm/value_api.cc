// The C interface to values, and single operators.
#include "penlight/runtime/vm/value_api.h"

#include "penlight/runtime/exec/backend.h"
#include "penlight/runtime/vm/machine.h"

using namespace pen;

namespace {

// A count as values have it; -1: more than any has.
int64_t count_of(size_t count) { return count > (size_t{1} << 31) ? -1 : static_cast<int64_t>(count); }
bool all_there(pen_value* const* items, size_t count) {
  if ((!items && count) || count_of(count) < 0) return false;
  for (size_t i = 0; i < count; ++i) {
    if (!items[i]) return false;
    alive(items[i]);
  }
  return true;
}
struct Ends {  // a run
  Machine* machine;
  ~Ends() { machine_end(machine); }
};
template <class T>
pen_value* box_own(T* object) {
  if (!object) return nullptr;
  Value v = Value::own(object);
  return box(v);
}

}  // namespace

struct pen_operators : Handle<HandleKind::operators> {
  Machine machine;
};

extern "C" {

pen_value* pen_value_none(void) { return box(Value()); }
pen_value* pen_value_bool(int32_t value) { return box(Value(value != 0)); }
pen_value* pen_value_int(int64_t value) { return box(Value(value)); }
pen_value* pen_value_float(double value) { return box(Value(value)); }
pen_value* pen_value_string(const char* text, size_t size) {
  return text || size == 0 ? box_own(string_create(text, count_of(size))) : nullptr;
}

constexpr int64_t kFarthest = int64_t{1} << 43;  // elements, from the first to the last

pen_value* pen_value_tensor(const pen_tensor* tensor, void (*release)(void*), void* owner) {
  if (!tensor || tensor->rank < 0 || tensor->rank > kMaxRank || tensor->dtype < 0 || tensor->dtype >= kDTypeCount) return nullptr;
  if (tensor->rank > 0 && !tensor->dims) return nullptr;
  Tensor shape;
  shape.dtype = static_cast<DType>(tensor->dtype);
  shape.rank = tensor->rank;
  int64_t reach = 0, span, bytes = dtype_size(shape.dtype);
  bool empty = false;
  for (int d = 0; d < shape.rank; ++d) {
    shape.dims[d] = tensor->dims[d];
    // Strides may be 0, so that dims may be anything: their product must be a number.
    if (shape.dims[d] < 0 || mul_overflows(bytes, shape.dims[d] > 1 ? shape.dims[d] : 1, &bytes)) return nullptr;
    empty |= shape.dims[d] == 0;
  }
  row_major_strides(shape.rank, shape.dims, shape.strides);
  for (int d = 0; d < shape.rank && !empty; ++d) {
    // That of a dim of one leads nowhere, but tells channels-last images from others, as in torch. What no memory has is not kept.
    const bool idle = tensor->strides && shape.dims[d] == 1 && tensor->strides[d] >= 0 && tensor->strides[d] <= kFarthest;
    if (tensor->strides && (shape.dims[d] > 1 || idle)) shape.strides[d] = tensor->strides[d];
    if (shape.strides[d] < 0 || mul_overflows(shape.dims[d] - 1, shape.strides[d], &span) || add_overflows(reach, span, &reach) ||
        reach > kFarthest)
      return nullptr;
  }
  if (!tensor->data && !empty) return nullptr;
  if (reinterpret_cast<uintptr_t>(tensor->data) % static_cast<uintptr_t>(dtype_size(shape.dtype)) != 0) return nullptr;
  Storage* storage = storage_borrow(tensor->data, empty ? 0 : (reach + 1) * dtype_size(shape.dtype), false, release, owner);
  if (!storage) return nullptr;
  TensorObject* t = tensor_on(storage, shape, 0);
  if (!t) storage->release = nullptr;  // the caller keeps the memory where no value came of it
  pen_value* boxed = nullptr;
  if (t) {
    Value v = Value::own(t);
    boxed = box(v);
    if (!boxed) storage->release = nullptr;
  }
  storage_release(storage);
  return boxed;
}
#if defined(__wasm__)
// For JavaScript, which has no function to give: memory of malloc's, freed with the last tensor on it.
PEN_API pen_value* pen_value_owned_tensor(const pen_tensor* tensor) { return pen_value_tensor(tensor, free, tensor->data); }
#endif

pen_status pen_value_make_constant(pen_value* tensor) {
  alive(tensor);
  if (!tensor || tensor->value.tag() != Tag::tensor) return PEN_ERROR_ARGUMENT;
  Storage* storage = tensor->value.tensor()->storage;
  if (!storage->owned) storage->read_only = storage->constant = true;
  return PEN_OK;
}
pen_status pen_value_make_read_only(pen_value* tensor) {
  alive(tensor);
  if (!tensor || tensor->value.tag() != Tag::tensor) return PEN_ERROR_ARGUMENT;
  Storage* storage = tensor->value.tensor()->storage;
  if (!storage->owned) storage->read_only = true;
  return PEN_OK;
}

int32_t pen_value_is_constant(const pen_value* value) {
  alive(value);
  return value && value->value.tag() == Tag::tensor && value->value.tensor()->storage->read_only;
}

pen_value* pen_value_list(pen_value* const* items, size_t count) {
  if (!all_there(items, count)) return nullptr;
  ListObject* list = list_create(count_of(count));
  for (size_t i = 0; list && i < count; ++i) {
    if (list_append(list, items[i]->value)) continue;
    heap_release(list);
    return nullptr;
  }
  return box_own(list);
}
pen_value* pen_value_tuple(pen_value* const* items, size_t count) {
  if (!all_there(items, count)) return nullptr;
  TupleObject* tuple = tuple_create(count_of(count));
  for (size_t i = 0; tuple && i < count; ++i) tuple->items[i] = items[i]->value;
  return box_own(tuple);
}
pen_value* pen_value_dict(pen_value* const* keys, pen_value* const* values, size_t count) {
  if (!all_there(keys, count) || !all_there(values, count)) return nullptr;
  DictObject* dict = dict_create();
  for (size_t i = 0; dict && i < count; ++i) {
    if (dict_can_hold(keys[i]->value) && dict_set(dict, keys[i]->value, values[i]->value)) continue;
    heap_release(dict);
    return nullptr;
  }
  return box_own(dict);
}

int32_t pen_value_kind(const pen_value* value) {
  alive(value);
  return value ? static_cast<int32_t>(value->value.tag()) : PEN_KIND_NONE;
}
int64_t pen_value_as_int(const pen_value* value) {
  alive(value);
  return value && (value->value.tag() == Tag::integer || value->value.tag() == Tag::boolean) ? value->value.integer() : 0;
}
double pen_value_as_float(const pen_value* value) {
  alive(value);
  return value && value->value.is_number() ? value->value.number() : 0;
}
const char* pen_value_text(const pen_value* value, size_t* size) {
  alive(value);
  if (!value || value->value.tag() != Tag::string) return nullptr;
  if (size) *size = static_cast<size_t>(value->value.string()->size);
  return value->value.string()->text;
}
pen_status pen_value_as_tensor(const pen_value* value, pen_tensor* tensor) {
  alive(value);
  if (!value || !tensor || value->value.tag() != Tag::tensor) return PEN_ERROR_ARGUMENT;
  const TensorObject& t = *value->value.tensor();
  *tensor = {t.data(), static_cast<int32_t>(t.dtype()), t.rank(), t.shape.dims, t.shape.strides};
  return PEN_OK;
}
size_t pen_value_count(const pen_value* value) {
  alive(value);
  if (!value) return 0;
  const Value& v = value->value;
  switch (v.tag()) {
    case Tag::list:
      return static_cast<size_t>(v.list()->count);
    case Tag::tuple:
      return static_cast<size_t>(v.tuple()->count);
    case Tag::dict:
      return static_cast<size_t>(v.dict()->count);
    case Tag::object:
      return static_cast<size_t>(v.object()->count);
    default:
      return 0;
  }
}
static const DictObject::Entry& dict_entry(DictObject* dict, size_t index) {
  dict_close_gaps(dict);
  return dict->entries[index];
}
pen_value* pen_value_item(const pen_value* value, size_t index) {
  if (index >= pen_value_count(value)) return nullptr;
  const Value& v = value->value;
  switch (v.tag()) {
    case Tag::list:
      return box(v.list()->items[index]);
    case Tag::tuple:
      return box(v.tuple()->items[index]);
    case Tag::dict:
      return box(dict_entry(v.dict(), index).value);
    default:
      return box(v.object()->slots[index]);
  }
}
pen_value* pen_value_key(const pen_value* value, size_t index) {
  alive(value);
  if (!value || value->value.tag() != Tag::dict || index >= pen_value_count(value)) return nullptr;
  return box(dict_entry(value->value.dict(), index).key);
}
const char* pen_value_type(const pen_value* value) {
  alive(value);
  if (!value) return "";
  const Value& v = value->value;
  if (v.tag() == Tag::object && v.object()->type_name) return v.object()->type_name;
  if (v.tag() == Tag::tuple && v.tuple()->type) return v.tuple()->type->name;
  return "";
}
const char* pen_value_field(const pen_value* value, size_t index) {
  alive(value);
  if (!value) return "";
  const Value& v = value->value;
  const ClassInfo* type = v.tag() == Tag::object ? v.object()->type : v.tag() == Tag::tuple ? v.tuple()->type : nullptr;
  return type && index < static_cast<size_t>(type->field_count) ? type->fields[index] : "";
}

pen_status pen_value_quantize(pen_value* tensor, const pen_quantization* q) {
  alive(tensor);
  if (!tensor || !q || !q->scales || !q->zero_points || tensor->value.tag() != Tag::tensor) return PEN_ERROR_ARGUMENT;
  TensorObject* t = tensor->value.tensor();
  DType d = t->dtype();
  if (d != DType::u8 && d != DType::i8 && d != DType::i32) return PEN_ERROR_ARGUMENT;
  if (q->axis < 0 ? q->count != 1 : q->axis >= t->rank() || static_cast<int64_t>(q->count) != t->dim(q->axis)) return PEN_ERROR_ARGUMENT;
  const Levels levels = levels_of(d);
  for (size_t i = 0; i < q->count; ++i)
    if (q->zero_points[i] < levels.low || q->zero_points[i] > levels.high) return PEN_ERROR_ARGUMENT;
  Quantizer* made =
      q->axis < 0 ? quantizer_create(q->scales[0], q->zero_points[0]) : quantizer_create(q->axis, static_cast<int64_t>(q->count));
  if (!made) return PEN_ERROR_MEMORY;
  for (size_t i = 0; made->scales && i < q->count; ++i) {
    made->scales[i] = q->scales[i];
    made->zero_points[i] = q->zero_points[i];
  }
  tensor_set_quantizer(t, made);
  return PEN_OK;
}
int32_t pen_value_quantization(const pen_value* tensor, pen_quantization* out) {
  alive(tensor);
  if (!tensor || !out || tensor->value.tag() != Tag::tensor || !tensor->value.tensor()->quantizer) return 0;
  const Quantizer& q = *tensor->value.tensor()->quantizer;
  *out = {q.axis, q.axis < 0 ? 1 : static_cast<size_t>(q.channels), q.axis < 0 ? &q.scale : q.scales,
          q.axis < 0 ? &q.zero_point : q.zero_points};
  return 1;
}

// ---- single operators ----
pen_status pen_operators_create(const pen_session_options* options, pen_operators** out, pen_error* error) {
  if (!out) return report(error, PEN_ERROR_ARGUMENT, "operators", "room for them", "NULL");
  *out = nullptr;
  pen_session_options own;
  PEN_TRY(take_options(options, &own, sizeof own, error));
  const Backend* backend;
  const char* which;
  PEN_TRY(choose_backend(own.device, &backend, &which, error));
  if (backend != &kCpu)
    return report(error, PEN_ERROR_ARGUMENT, "device", "cpu, where operators run that are called by themselves", own.device);
  if (own.threads < 0) return report(error, PEN_ERROR_ARGUMENT, "threads", "0 (one per core) or more", "a negative number");
  Isa isa;
  PEN_TRY(choose_isa(own.isa, &isa, error));
  pen_operators* made = static_cast<pen_operators*>(calloc(1, sizeof(pen_operators)));
  if (made) handle_begin(made);
  if (!made || !machine_create(&made->machine, nullptr, isa, own.threads, own.memory_limit, own.interrupted, own.interrupt_context)) {
    pen_operators_destroy(made);
    return report(error, PEN_ERROR_MEMORY, "operators", "memory", "none");
  }
  *out = made;
  return PEN_OK;
}
void pen_operators_destroy(pen_operators* operators) {
  if (!operators) return;
  handle_end(operators);
  machine_destroy(&operators->machine);
  free(operators);
}
pen_status pen_operators_run(pen_operators* operators, const char* name, pen_value* const* args, size_t count, pen_value** results,
                             size_t* result_count) {
  const Inside inside(operators);
  constexpr size_t kMost = 64;
  if (!operators) return PEN_ERROR_ARGUMENT;
  Machine* m = &operators->machine;
  if (result_count) *result_count = 0;
  PEN_TRY(machine_begin(m));
  Ends ends = {m};
  if (!name) return report(&m->error, PEN_ERROR_ARGUMENT, "operator", "its name", "NULL");
  if (!results || !result_count) return report(&m->error, PEN_ERROR_ARGUMENT, name, "room for results", "NULL");
  const OpEntry* op = find_operator(name);
  if (!op) return report(&m->error, {PEN_ERROR_KERNEL, "operator", name, "", "an operator that this library has", "none of this name"});
  if (count > kMost) return report(&m->error, {PEN_ERROR_ARGUMENT, "operator", name, "", "at most 64 arguments", "more"});
  Value values[kMost], made[8];
  if (!all_there(args, count)) return report(&m->error, {PEN_ERROR_ARGUMENT, "operator", name, "", "values as arguments", "NULL"});
  for (size_t i = 0; i < count; ++i) values[i] = args[i]->value;
  Account* before = account_enter(m->account);
  Status status = call_operator(m, *op, values, static_cast<int>(count), made);
  account_enter(before);
  PEN_TRY(status);
  for (size_t i = 0; i < op->result_count; ++i) {
    results[i] = box(made[i]);
    if (results[i]) continue;
    while (i > 0) pen_value_release(results[--i]);
    return report(&m->error, {PEN_ERROR_MEMORY, "operator", name, "", "memory", "none"});
  }
  *result_count = op->result_count;
  return PEN_OK;
}
const pen_error* pen_operators_error(const pen_operators* operators) {
  const Inside inside(operators);
  return operators ? &operators->machine.error : nullptr;
}
int32_t pen_operator_count(void) { return kOperatorCount; }
const char* pen_operator_name(int32_t index) { return index >= 0 && index < kOperatorCount ? kOperators[index].name.text() : nullptr; }
#if defined(PEN_TRACE)
pen_value* pen_value_hold(const pen_value* tensor) {
  alive(tensor);
  return tensor && tensor->value.tag() == Tag::tensor ? box_own(tensor_hold(*tensor->value.tensor())) : nullptr;
}
pen_status pen_operators_set_trace(pen_operators* operators, pen_trace* trace) {
  const Inside inside(operators);
  return operators ? machine_set_trace(&operators->machine, trace) : PEN_ERROR_ARGUMENT;
}
int32_t pen_trace_used_operator(const pen_trace* trace, int32_t index) {
  alive(trace);
  return trace && trace->operators && index >= 0 && index < kOperatorCount ? trace->operators[index] : 0;
}
#endif

}  // extern "C"
