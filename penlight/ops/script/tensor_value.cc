// Between tensors and Python's values: torch.tensor([[1, 2], [3, 4]]), as_tensor, tolist.
#include "penlight/ops/script/script.h"

namespace pen {

PEN_OP(num_to_tensor, "prim::NumToTensor.Scalar(Scalar a) -> Tensor", "prim::NumToTensor.bool(bool a) -> Tensor",
       "prim::NumToTensor(Scalar a) -> Tensor") {
  Tag tag = c.args[0].tag();
  return c.give(tensor_of(c.args[0], tag == Tag::real ? DType::f64 : tag == Tag::boolean ? DType::boolean : DType::i64));
}

// What torch.tensor(x) makes of a number where no dtype is given.
static DType default_dtype(Tag tag) { return tag == Tag::real ? DType::f32 : tag == Tag::boolean ? DType::boolean : DType::i64; }

PEN_OP(tensor_of_number, "aten::tensor.int(int t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
       "aten::tensor.float(float t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
       "aten::tensor.bool(bool t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
       "aten::as_tensor.int(int t, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
       "aten::as_tensor.float(float t, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
       "aten::as_tensor.bool(bool t, *, ScalarType? dtype=None, Device? device=None) -> Tensor") {
  DType dtype;
  PEN_TRY(c.dtype(1, default_dtype(c.args[0].tag()), &dtype));
  // A float is a float32 on its way to any dtype, as in torch.
  bool real = c.args[0].tag() == Tag::real;
  return c.give(tensor_of(real ? Value(static_cast<double>(static_cast<float>(c.number(0)))) : c.args[0], dtype));
}

namespace {

// The shape of nested lists, by their first items, and the kind of the first number inside.
struct Nested {
  int rank = 0;
  int64_t dims[kMaxRank];
  Tag tag = Tag::none;
};
Status measure(const Call& c, const ListObject& list, Nested* shape) {
  const ListObject* at = &list;
  while (true) {
    if (shape->rank == kMaxRank) return c.fail("lists nested at most 8 deep", "more");
    shape->dims[shape->rank++] = at->count;
    if (at->count == 0) return PEN_OK;
    const Value& first = at->items[0];
    if (first.tag() != Tag::list) {
      if (!first.is_number()) return c.fail("lists of ints, floats or bools", "%s in them", first.tag_name());
      shape->tag = first.tag();
      return PEN_OK;
    }
    at = first.list();
  }
}
// Recursion as deep as `shape`.
Status fill(const Call& c, const ListObject& list, const Nested& shape, int depth, char** at) {
  if (list.count != shape.dims[depth])
    return c.raise("Expected sequence of length %lld at dim %d (got %lld)", static_cast<long long>(shape.dims[depth]), depth,
                   static_cast<long long>(list.count));
  bool innermost = depth == shape.rank - 1;
  PEN_TRY(c.walk(1 + list.count));
  for (int64_t i = 0; i < list.count; ++i) {
    const Value& v = list.items[i];
    if (!innermost) {
      if (v.tag() != Tag::list) return c.fail("lists nested evenly", "%s beside lists", v.tag_name());
      PEN_TRY(fill(c, *v.list(), shape, depth + 1, at));
      continue;
    }
    if (v.tag() != shape.tag)
      return c.fail("lists of one kind of number", "%s and %s", kTagNames[static_cast<int>(shape.tag)], v.tag_name());
    if (v.tag() == Tag::boolean) {
      *reinterpret_cast<uint8_t*>(*at) = v.boolean();
      *at += 1;
    } else if (v.tag() == Tag::real) {
      *reinterpret_cast<float*>(*at) = static_cast<float>(v.real());
      *at += 4;
    } else {
      *reinterpret_cast<int64_t*>(*at) = v.integer();
      *at += 8;
    }
  }
  return PEN_OK;
}

}  // namespace

// Numbers are gathered in their default dtype (int64, float32, bool), then cast at once: to float64 as well, as in torch. Lists do not know
// what they would hold: an empty one makes float32, Python's rule.
PEN_OP(tensor_of_list, "aten::tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
       "aten::as_tensor.list(t[] data, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
       "aten::_list_to_tensor(int[] self) -> Tensor") {
  Nested shape;
  PEN_TRY(measure(c, c.list(0), &shape));
  Tag tag = shape.tag == Tag::none ? Tag::real : shape.tag;
  DType stored = default_dtype(tag), dtype = stored;
  if (c.op->param_count == 1)
    dtype = DType::i32;  // _list_to_tensor
  else
    PEN_TRY(c.dtype(1, dtype, &dtype));
  Value made = Value::own(tensor_create(stored, shape.rank, shape.dims));
  if (made.is_none()) return c.out_of_memory();
  char* at = made.tensor()->data();
  PEN_TRY(fill(c, c.list(0), shape, 0, &at));
  if (dtype == stored) return c.give(static_cast<Value&&>(made));
  Status status;
  Value cast = Value::own(tensor_cast(c, *made.tensor(), dtype, &status));
  PEN_TRY(status);
  return c.give(static_cast<Value&&>(cast));
}
// Itself where nothing changes.
PEN_OP(as_tensor, "aten::as_tensor(Tensor(a) data, *, ScalarType? dtype=None, Device? device=None) -> Tensor(b|a)") {
  DType dtype;
  PEN_TRY(c.dtype(1, c.tensor(0).dtype(), &dtype));
  if (dtype == c.tensor(0).dtype()) return c.give(Value(c.args[0]));
  Status status;
  Value cast = Value::own(tensor_cast(c, c.tensor(0), dtype, &status));
  PEN_TRY(status);
  return c.give(static_cast<Value&&>(cast));
}

// ---- to lists ----
static Status nest(const Call& c, const TensorObject& t, int depth, int64_t* at, Value* to) {
  if (depth == t.rank()) {
    int64_t i = (*at)++;
    *to = t.dtype() == DType::f64   ? Value(t.as<double>()[i])
          : t.dtype() == DType::i64 ? Value(t.as<int64_t>()[i])
                                    : Value(t.as<uint8_t>()[i] != 0);
    return PEN_OK;
  }
  PEN_TRY(c.walk(1 + t.dim(depth)));
  *to = Value::own(list_create(t.dim(depth)));
  if (to->is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < t.dim(depth); ++i) {
    Value item;
    PEN_TRY(nest(c, t, depth + 1, at, &item));
    if (!list_append(to->list(), item)) return c.out_of_memory();
  }
  return PEN_OK;
}
// The annotation in the source says how deep the lists are and what they hold: 0 int, 1 float, 2 bool.
PEN_OP(tolist, "prim::tolist(Tensor t, int dim, int type) -> any") {
  const TensorObject& t = c.tensor(0);
  int64_t type = c.integer(2);
  if (type < 0 || type > 2) return c.fail("a list of ints, floats or bools (types 0 to 2)", "type %lld", static_cast<long long>(type));
  DType stored = type == 0 ? DType::i64 : type == 1 ? DType::f64 : DType::boolean;
  if (type == 1 ? !is_floating(t.dtype()) : t.dtype() != stored)
    return c.raise("Output annotation element type and runtime tensor element type must match for tolist(): %s vs %s",
                   dtype_name(type == 1 ? DType::f32 : stored), dtype_name(t.dtype()));
  if (c.integer(1) != t.rank()) return c.raise("Output annotation list dimension and runtime tensor dimension must match for tolist()");
  Status status;
  Value plain = Value::own(tensor_cast(c, t, stored, &status));
  PEN_TRY(status);
  Value made;
  int64_t at = 0;
  PEN_TRY(nest(c, *plain.tensor(), 0, &at, &made));
  return c.give(static_cast<Value&&>(made));
}

}  // namespace pen
