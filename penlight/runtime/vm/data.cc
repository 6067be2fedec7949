#include "penlight/runtime/vm/data.h"

namespace pen {

static Storage* storage_of(Data* d, uint32_t constant) {
  Storage*& s = d->storages[constant];
  if (s) return s;
  const format::Constant& c = d->model->constants[constant];
  int64_t bytes = static_cast<int64_t>(c.size);
  Packed packed = {};
  if (c.groups) {  // packed, as the loader has checked
    describe_packed(d->model->string(c.layout), c.rank, d->model->ints.data + c.dims, c.groups, &packed);
    bytes = packed.outputs * packed.inputs * packed.taps * 4;
  }
  s = storage_borrow(const_cast<uint8_t*>(d->model->data) + c.offset, bytes, true, nullptr, nullptr);
  if (!s) return nullptr;
  s->constant = true;
  s->packed = packed;
  d->any_packed |= c.groups != 0;
  return s;
}

static TensorObject* make_tensor(Data* d, const format::Datum& datum) {
  const int64_t* n = d->model->ints.data + datum.start;  // the loader proved all of it
  Tensor shape;
  shape.dtype = static_cast<DType>(n[1]);
  shape.rank = static_cast<int>(n[3]);
  for (int i = 0; i < shape.rank; ++i) {
    shape.dims[i] = n[4 + i];
    shape.strides[i] = n[4 + shape.rank + i];
  }
  Storage* storage = storage_of(d, static_cast<uint32_t>(n[0]));
  int64_t offset = shape.numel() ? n[2] * dtype_size(shape.dtype) : 0;  // an empty one may begin anywhere
  TensorObject* t = storage ? tensor_on(storage, shape, offset) : nullptr;
  const int64_t* q = n + 4 + 2 * shape.rank;
  if (!t || q[0] == -2) return t;
  double first;
  memcpy(&first, &q[2 + q[1]], sizeof first);
  Quantizer* made = q[0] == -1 ? quantizer_create(first, q[2]) : quantizer_create(static_cast<int32_t>(q[0]), q[1]);
  if (!made) {
    heap_release(t);
    return nullptr;
  }
  for (int64_t i = 0; made->scales && i < q[1]; ++i) {
    made->zero_points[i] = q[2 + i];
    memcpy(&made->scales[i], &q[2 + q[1] + i], sizeof(double));
  }
  tensor_set_quantizer(t, made);
  return t;
}

static bool make(Data* d, uint32_t index) {
  const Model& m = *d->model;
  const format::Datum& datum = m.data_values[index];
  auto part = [&](uint32_t i) -> const Value& { return d->values[m.indices[datum.start + i]]; };
  Value& v = d->values[index];
  switch (static_cast<format::DatumKind>(datum.kind)) {
    case format::DatumKind::none:
      return true;
    case format::DatumKind::boolean:
      v = Value(datum.number != 0);
      return true;
    case format::DatumKind::integer:
      v = Value(datum.number);
      return true;
    case format::DatumKind::real: {
      double real;
      memcpy(&real, &datum.number, sizeof real);
      v = Value(real);
      return true;
    }
    case format::DatumKind::str: {
      uint32_t s = static_cast<uint32_t>(datum.number);
      v = Value::own(string_create(m.string(s), m.strings[s].size));
      return !v.is_none();
    }
    case format::DatumKind::tensor:
      v = Value::own(make_tensor(d, datum));
      return !v.is_none();
    case format::DatumKind::list: {
      ListObject* list = list_create(datum.count);
      v = Value::own(list);
      for (uint32_t i = 0; list && i < datum.count; ++i)
        if (!list_append(list, part(i))) return false;
      return list != nullptr;
    }
    case format::DatumKind::tuple: {
      TupleObject* tuple = tuple_create(datum.count);
      v = Value::own(tuple);
      for (uint32_t i = 0; tuple && i < datum.count; ++i) tuple->items[i] = part(i);
      if (tuple && datum.type != format::kNone) tuple->type = &m.class_info[datum.type];
      return tuple != nullptr;
    }
    case format::DatumKind::dict: {
      DictObject* dict = dict_create();
      v = Value::own(dict);
      for (uint32_t i = 0; dict && i < datum.count; i += 2)
        if (!dict_set(dict, part(i), part(i + 1))) return false;
      return dict != nullptr;
    }
    case format::DatumKind::object: {
      const ClassInfo& type = m.class_info[datum.type];
      Instance* object = instance_create(type.name, &type, static_cast<int32_t>(datum.count));
      v = Value::own(object);
      for (uint32_t i = 0; object && i < datum.count; ++i) object->slots[i] = part(i);
      return object != nullptr;
    }
  }
  return true;
}

bool data_create(Data* d, const Model& model, uint32_t root) {
  uint32_t count = model.data_values.count;
  d->model = &model;
  d->values = static_cast<Value*>(calloc(count + 1, sizeof(Value)));
  d->storages = static_cast<Storage**>(calloc(model.constants.count + 1, sizeof(Storage*)));
  uint8_t* needed = static_cast<uint8_t*>(calloc(count + 1, 1));
  bool made = d->values && d->storages && needed;
  if (made && root != format::kNone) needed[root] = 1;
  for (uint32_t i = count; made && i-- > 0;) {  // parts have smaller numbers
    if (root == format::kNone) needed[i] = 1;
    const format::Datum& datum = model.data_values[i];
    bool whole = datum.kind >= static_cast<uint32_t>(format::DatumKind::list);
    for (uint32_t k = 0; needed[i] && whole && k < datum.count; ++k) needed[model.indices[datum.start + k]] = 1;
  }
  for (uint32_t i = 0; made && i < count; ++i)
    if (needed[i]) made = make(d, i);
  free(needed);
  if (!made) data_destroy(d);
  return made;
}

void data_destroy(Data* d) {
  for (uint32_t i = 0; d->values && i < d->model->data_values.count; ++i) d->values[i] = Value();
  for (uint32_t i = 0; d->storages && i < d->model->constants.count; ++i) storage_release(d->storages[i]);
  free(d->values);
  free(d->storages);
  *d = {};
}

}  // namespace pen
