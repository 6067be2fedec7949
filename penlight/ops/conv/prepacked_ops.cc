// What optimize_for_mobile makes of convolutions and linear layers: operators on an object that holds the weights
// (capture/lite/packed.py says under which names), with limits of the result. XNNPACK's, Vulkan's and Metal's differ in names
// only; the packing is the machine's own.
#include "penlight/ops/conv/convolution.h"
#include "penlight/ops/matmul/product.h"

namespace pen {

namespace {

struct Attributes {
  const Call& c;
  const Instance* object;

  Status wrong(const char* name, const char* expected) const {
    char text[96];
    set_text(text, sizeof text, "packed weights with %s \"%s\"", expected, name);
    return c.fail(text, "an object of class %s without it", object->type_name ? object->type_name : "?");
  }
  Status find(const char* name, Tag tag, const char* kind, const Value** to) const {
    *to = instance_attribute(object, name);
    return *to && (*to)->tag() == tag ? PEN_OK : wrong(name, kind);
  }
  Status tensor(const char* name, const TensorObject** to) const {
    const Value* v;
    PEN_TRY(find(name, Tag::tensor, "a tensor", &v));
    *to = v->tensor();
    return PEN_OK;
  }
  Status optional(const char* name, const TensorObject** to) const {
    const Value* v = instance_attribute(object, name);
    *to = nullptr;
    return !v || v->is_none() ? PEN_OK : tensor(name, to);
  }
  // For each side of the planes.
  Status sides(const char* name, int spatial, int64_t missing, int64_t* to) const {
    const Value* v;
    PEN_TRY(find(name, Tag::list, "a list", &v));
    const ListObject& l = *v->list();
    int first = spatial == 1 ? 1 : 0;
    if (first) to[0] = missing;
    for (int i = 0; i < spatial; ++i) {
      int64_t at = l.count == 1 ? 0 : l.count == spatial ? i : -1;
      if (at < 0 || l.items[at].tag() != Tag::integer) return wrong(name, "a number a side in");
      to[first + i] = l.items[at].integer();
    }
    return PEN_OK;
  }
  Status limits(Limits* to) const {
    const Value *low = instance_attribute(object, "output_min"), *high = instance_attribute(object, "output_max");
    *to = {false, -__builtin_inf(), __builtin_inf()};
    auto read = [&](const Value* v, const char* name, double* limit) {
      if (!v || v->is_none()) return PEN_OK;
      if (!v->is_number()) return wrong(name, "a number");
      *limit = v->number();
      to->limited = true;
      return PEN_OK;
    };
    PEN_TRY(read(low, "output_min", &to->low));
    return read(high, "output_max", &to->high);
  }
};

Status run_conv(Call& c, bool transposed) {
  Attributes a = {c, c.args[1].object()};
  const TensorObject *w, *b;
  PEN_TRY(a.tensor("weight", &w));
  PEN_TRY(a.optional("bias", &b));
  int spatial = w->rank() - 2, sides = spatial == 3 ? 3 : 2;
  if (spatial < 1 || spatial > 3) return c.fail("a weight of rank 3 to 5", "rank %d", w->rank());
  Convolution v = {};
  const Value* groups;
  int64_t more[3] = {0, 0, 0};
  Limits limits;
  PEN_TRY(a.find("groups", Tag::integer, "a number", &groups));
  PEN_TRY(a.sides("stride", spatial, 1, v.stride));
  PEN_TRY(a.sides("padding", spatial, 0, v.before));
  PEN_TRY(a.sides("dilation", spatial, 1, v.dilation));
  PEN_TRY(a.limits(&limits));
  const Value* turned = instance_attribute(a.object, "transposed");
  v.transposed = transposed || (turned && turned->tag() == Tag::boolean && turned->boolean());
  if (v.transposed) PEN_TRY(a.sides("output_padding", spatial, 0, more));
  v.groups = groups->integer();
  v.limited = limits.limited;
  v.low = limits.low;
  v.high = limits.high;
  for (int i = 0; i < sides; ++i)
    if (__builtin_sub_overflow(v.before[i], more[i], &v.after[i])) return a.wrong("output_padding", "a small");
  return convolve(c, c.tensor(0), *w, b, v);
}

Status run_linear(Call& c, bool turned) {
  Attributes a = {c, c.args[1].object()};
  const TensorObject *w, *b;
  Limits limits;
  PEN_TRY(a.tensor("weight", &w));
  PEN_TRY(a.optional("bias", &b));
  PEN_TRY(a.limits(&limits));
  if (!turned) return give_linear(c, c.tensor(0), *w, b, limits);
  if (w->rank() != 2) return c.fail("a weight of rank 2", "rank %d", w->rank());
  int64_t dims[] = {w->dim(1), w->dim(0)}, strides[] = {w->shape.strides[1], w->shape.strides[0]};
  Value view = Value::own(tensor_view(*w, 2, dims, strides, w->offset));
  if (view.is_none()) return c.out_of_memory();
  return give_linear(c, c.tensor(0), *view.tensor(), b, limits);
}

// An object of this class with the call's arguments as attributes, `names` in their order. Null: no such argument.
constexpr const char* kConvFields[] = {"weight", "bias",       "stride",     "padding",        "dilation",
                                       "groups", "output_min", "output_max", "output_padding", "transposed"};
constexpr const char* kLinearFields[] = {"weight", "bias", "output_min", "output_max"};
constexpr ClassInfo kClasses[] = {{"__torch__.torch.classes.xnnpack.Conv2dOpContext", kConvFields, 10},
                                  {"__torch__.torch.classes.xnnpack.TransposeConv2dOpContext", kConvFields, 10},
                                  {"__torch__.torch.classes.xnnpack.LinearOpContext", kLinearFields, 4},
                                  {"__torch__.torch.classes.vulkan.Conv2dPackedContext", kConvFields, 10},
                                  {"__torch__.torch.classes.vulkan.LinearPackedContext", kLinearFields, 4},
                                  {"__torch__.torch.classes.metal.Conv2dOpContext", kConvFields, 10},
                                  {"__torch__.torch.classes.metal.LinearOpContext", kLinearFields, 4}};

// `fields`: the attribute of each argument. Weights are shared, as immutable values are.
Status make_object(Call& c, const ClassInfo& type, const char* const* fields, int count, bool transposed) {
  Instance* made = instance_create(type.name, &type, type.field_count);
  if (!made) return c.out_of_memory();
  Value kept = Value::own(made);
  for (int i = 0; i < count; ++i) made->slots[instance_slot(made, fields[i])] = c.args[i];
  int turned = instance_slot(made, "transposed"), more = instance_slot(made, "output_padding");
  if (turned >= 0) made->slots[turned] = Value(transposed);
  if (more >= 0 && made->slots[more].is_none()) {
    ListObject* zeros = list_create(2);
    made->slots[more] = Value::own(zeros);
    for (int i = 0; i < c.tensor(0).rank() - 2; ++i)
      if (!zeros || !list_append(zeros, Value(int64_t{0}))) return c.out_of_memory();
  }
  return c.give(static_cast<Value&&>(kept));
}
constexpr const char* kTransposedFields[] = {"weight",   "bias",   "stride",     "padding",   "output_padding",
                                             "dilation", "groups", "output_min", "output_max"};

}  // namespace

PEN_OP(conv2d_clamp_run, "[nhwc]",
       "{prepacked::conv2d_clamp_run,vulkan_prepack::conv2d_clamp_run,vulkan_prepack::run_conv2d_context,vulkan_prepack::run_conv1d_"
       "context,metal_prepack::conv2d_run}(Tensor X, object W_prepack) -> Tensor") {
  return run_conv(c, false);
}
PEN_OP(conv2d_transpose_clamp_run, "[nhwc]",
       "{prepacked::conv2d_transpose_clamp_run,vulkan_prepack::conv2d_transpose_clamp_run,vulkan_prepack::run_tconv2d_context}(Tensor X, "
       "object W_prepack) -> Tensor") {
  return run_conv(c, true);
}
PEN_OP(linear_clamp_run, "{prepacked::linear_clamp_run,metal_prepack::linear_run}(Tensor X, object W_prepack) -> Tensor") {
  return run_linear(c, false);
}
// Vulkan's weight is [in, out].
PEN_OP(vulkan_linear_run, "{vulkan_prepack::linear_run,vulkan_prepack::run_linear_context}(Tensor X, object BW_prepack) -> Tensor") {
  return run_linear(c, true);
}

PEN_OP(conv2d_clamp_prepack,
       "{prepacked::conv2d_clamp_prepack,vulkan_prepack::conv2d_clamp_prepack,vulkan_prepack::create_conv2d_context,metal_prepack::conv2d_"
       "prepack}(Tensor W, Tensor? B, int[2] stride, int[2] padding, int[2] dilation, int groups, Scalar? output_min=None, Scalar? "
       "output_max=None) -> object",
       "vulkan_prepack::create_conv1d_context(Tensor W, Tensor? B, int[1] stride, int[1] padding, int[1] dilation, int groups) -> object") {
  static const int kMakers[] = {0, 3, 3, 5};  // XNNPACK, Vulkan, Metal
  return make_object(c, kClasses[c.form() == 0 ? kMakers[c.word()] : 3], kConvFields, c.op->param_count, false);
}
PEN_OP(conv2d_transpose_clamp_prepack,
       "{prepacked::conv2d_transpose_clamp_prepack,vulkan_prepack::conv2d_transpose_clamp_prepack,vulkan_prepack::create_tconv2d_context}("
       "Tensor W, Tensor? B, int[2] stride, int[2] padding, int[2] output_padding, int[2] dilation, int groups, Scalar? output_min=None, "
       "Scalar? output_max=None) -> object") {
  return make_object(c, kClasses[c.word() == 0 ? 1 : 3], kTransposedFields, 9, true);
}
PEN_OP(linear_clamp_prepack,
       "{prepacked::linear_clamp_prepack,metal_prepack::linear_prepack}(Tensor W, Tensor? B=None, Scalar? output_min=None, Scalar? "
       "output_max=None) -> object",
       "{vulkan_prepack::linear_prepack,vulkan_prepack::create_linear_context}(Tensor W, Tensor? B=None) -> object") {
  return make_object(c, kClasses[c.form() == 1 ? 4 : c.word() == 0 ? 2 : 6], kLinearFields, c.op->param_count, false);
}

// ([sizes of the weight], [sizes of the bias] or None)
PEN_OP(unpack_prepacked_sizes, "prepacked::{unpack_prepacked_sizes_conv2d,unpack_prepacked_sizes_linear}(Any W_prepack) -> Any") {
  if (c.args[0].tag() != Tag::object) return c.fail("packed weights", "%s", c.args[0].tag_name());
  Attributes a = {c, c.args[0].object()};
  const TensorObject *w, *b;
  PEN_TRY(a.tensor("weight", &w));
  PEN_TRY(a.optional("bias", &b));
  auto sizes = [](const TensorObject& t) {
    ListObject* list = list_create(t.rank());
    Value made = Value::own(list);
    for (int d = 0; list && d < t.rank(); ++d)
      if (!list_append(list, Value(t.dim(d)))) return Value();
    return made;
  };
  TupleObject* pair = tuple_create(2);
  if (!pair) return c.out_of_memory();
  pair->items[0] = sizes(*w);
  if (b) pair->items[1] = sizes(*b);
  Value made = Value::own(pair);
  if (pair->items[0].is_none() || (b && pair->items[1].is_none())) return c.out_of_memory();
  return c.give(static_cast<Value&&>(made));
}

// Models for Metal and Vulkan end in these: here everything lies in the host's memory.
PEN_OP(copy_to_host, "metal::copy_to_host(Tensor X) -> Tensor") { return c.give(Value(c.args[0])); }

}  // namespace pen
