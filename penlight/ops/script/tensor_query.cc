// What code asks a tensor about: sizes, strides, dtype, device. Nothing is computed.
#include "penlight/ops/script/script.h"

namespace pen {

static Status give_ints(Call& c, const int64_t* values, int count) {
  Value made = Value::own(list_create(count));
  if (made.is_none()) return c.out_of_memory();
  for (int i = 0; i < count; ++i)
    if (!list_append(made.list(), Value(values[i]))) return c.out_of_memory();
  return c.give(static_cast<Value&&>(made));
}

PEN_OP(dim, "[quantized][nhwc]", "aten::dim(Tensor self) -> int", "aten::ndimension(Tensor self) -> int") {
  return c.give(int64_t{c.tensor(0).rank()});
}
PEN_OP(numel, "[quantized][nhwc]", "aten::numel(Tensor self) -> int") { return c.give(c.tensor(0).numel()); }
PEN_OP(size, "[quantized][nhwc]", "aten::size(Tensor self) -> int[]", "aten::sym_size(Tensor self) -> SymInt[]") {
  return give_ints(c, c.tensor(0).shape.dims, c.tensor(0).rank());
}
// Of rank 0 there is no dim to ask for, unlike elsewhere.
static Status ask(Call& c, const int64_t* values) {
  int dim, rank = c.tensor(0).rank();
  if (rank == 0) return c.fail("a tensor with dims", "rank 0");
  PEN_TRY(c.dim(1, rank, &dim));
  return c.give(values[dim]);
}
PEN_OP(size_int, "[quantized][nhwc]", "aten::size.int(Tensor self, int dim) -> int", "aten::sym_size.int(Tensor self, int dim) -> SymInt") {
  return ask(c, c.tensor(0).shape.dims);
}
PEN_OP(stride, "[quantized][nhwc]", "aten::stride(Tensor self) -> int[]") {
  return give_ints(c, c.tensor(0).shape.strides, c.tensor(0).rank());
}
PEN_OP(stride_int, "[quantized][nhwc]", "aten::stride.int(Tensor self, int dim) -> int") { return ask(c, c.tensor(0).shape.strides); }
PEN_OP(len_tensor, "[quantized][nhwc]", "aten::len.Tensor(Tensor t) -> int") {
  if (c.tensor(0).rank() == 0) return c.raise("len() of a 0-d tensor");
  return c.give(c.tensor(0).dim(0));
}
PEN_OP(storage_offset, "[quantized][nhwc]", "aten::storage_offset(Tensor self) -> int") {
  return c.give(c.tensor(0).offset / dtype_size(c.tensor(0).dtype()));
}
PEN_OP(element_size, "[quantized][nhwc]", "aten::element_size(Tensor self) -> int", "prim::itemsize(Tensor a) -> int") {
  return c.give(int64_t{dtype_size(c.tensor(0).dtype())});
}
PEN_OP(nbytes, "[quantized][nhwc]", "prim::nbytes(Tensor a) -> int") {
  return c.give(c.tensor(0).numel() * int64_t{dtype_size(c.tensor(0).dtype())});
}
// ---- kind and place ----
PEN_OP(dtype, "[quantized][nhwc]", "prim::dtype(Tensor a) -> int") { return c.give(code_of_dtype(c.tensor(0))); }
PEN_OP(layout, "[quantized][nhwc]", "prim::layout(Tensor a) -> Layout") { return c.give(int64_t{0}); }  // strided
PEN_OP(device, "[quantized][nhwc]", "prim::device(Tensor a) -> Device") { return c.give(string_create("cpu")); }
PEN_OP(is_cpu, "[quantized][nhwc]", "prim::is_cpu(Tensor a) -> bool") { return c.give(true); }
PEN_OP(is_elsewhere, "[quantized][nhwc]", "prim::is_cuda(Tensor a) -> bool", "prim::is_xla(Tensor a) -> bool",
       "prim::is_mkldnn(Tensor a) -> bool", "prim::is_vulkan(Tensor a) -> bool", "prim::is_mps(Tensor a) -> bool",
       "prim::is_meta(Tensor a) -> bool", "prim::is_ipu(Tensor a) -> bool", "prim::is_xpu(Tensor a) -> bool",
       "prim::is_mtia(Tensor a) -> bool", "prim::is_maia(Tensor a) -> bool", "prim::is_ort(Tensor a) -> bool",
       "prim::is_hpu(Tensor a) -> bool", "prim::is_sparse(Tensor a) -> bool", "prim::is_sparse_csr(Tensor a) -> bool",
       "prim::is_nested(Tensor a) -> bool", "prim::requires_grad(Tensor a) -> bool", "aten::is_complex(Tensor self) -> bool") {
  return c.give(false);
}
PEN_OP(is_leaf, "[quantized][nhwc]", "aten::is_leaf(Tensor self) -> bool") { return c.give(true); }
PEN_OP(is_quantized, "[quantized][nhwc]", "prim::is_quantized(Tensor a) -> bool") { return c.give(c.tensor(0).quantizer != nullptr); }
PEN_OP(get_device, "[quantized][nhwc]", "aten::get_device(Tensor self) -> int") { return c.give(int64_t{-1}); }
PEN_OP(is_floating_point, "[quantized][nhwc]", "aten::is_floating_point(Tensor self) -> bool") {
  return c.give(is_floating(c.tensor(0).dtype()));
}
PEN_OP(is_signed, "[quantized][nhwc]", "aten::is_signed(Tensor self) -> bool") {
  DType d = c.tensor(0).dtype();
  return c.give(d != DType::u8 && d != DType::boolean);
}
PEN_OP(name, "[quantized]", "prim::name(Tensor a) -> str?", "prim::grad(Tensor a) -> Tensor(*)") { return c.give(Value()); }
PEN_OP(data, "[quantized]", "prim::data(Tensor(a) a) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  return c.give(tensor_view(t, t.rank(), t.shape.dims, t.shape.strides, t.offset));
}

// ---- devices are strings: "cpu", "cuda:1" ----
PEN_OP(device_of_str, "aten::device(str a) -> Device") {
  const StringObject& s = *c.args[0].string();
  int64_t at = 0;
  while (at < s.size && ((s.text[at] >= 'a' && s.text[at] <= 'z') || s.text[at] == '_')) ++at;
  bool good = at > 0;
  if (at < s.size) {
    good &= s.text[at] == ':' && at + 1 < s.size && s.size - at < 6;
    for (int64_t i = at + 1; i < s.size; ++i) good &= s.text[i] >= '0' && s.text[i] <= '9';
  }
  static const char* kTypes[] = {"cpu", "cuda", "hip", "mkldnn", "vulkan", "metal", "mps", "meta", "xla", "xpu", "opengl", "opencl"};
  bool known = false;
  for (const char* type : kTypes) known |= static_cast<int64_t>(strlen(type)) == at && strncmp(type, s.text, static_cast<size_t>(at)) == 0;
  good &= known;
  if (!good) return c.raise("Invalid device string: '%.100s'", s.text);
  return c.give(Value(c.args[0]));
}
PEN_OP(device_with_index, "aten::device.with_index(str type, int index) -> Device") {
  return c.give(string_format("%.100s:%lld", c.text(0), static_cast<long long>(c.integer(1))));
}
PEN_OP(device_index, "prim::index(Device self) -> int?") {
  const char* at = c.text(0);
  while (*at && *at != ':') ++at;
  if (!*at) return c.give(Value());
  int64_t index = 0;
  for (++at; *at >= '0' && *at <= '9' && index < 100000; ++at) index = index * 10 + (*at - '0');
  return c.give(index);
}
PEN_OP(device_type, "prim::type(Device self) -> str") {
  int64_t size = 0;
  while (c.text(0)[size] && c.text(0)[size] != ':') ++size;
  return script::give_text(c, c.text(0), size);
}

// ---- shapes as lists ----
PEN_OP(infer_size, "aten::_infer_size(int[] a, int[] b) -> int[]", "aten::broadcast_shapes(int[] a, int[] b) -> int[]") {
  const ListObject &a = c.list(0), &b = c.list(1);
  int64_t rank = a.count > b.count ? a.count : b.count;
  Value made = Value::own(list_create(rank));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t d = 0; d < rank; ++d) {
    int64_t i = d - (rank - a.count), j = d - (rank - b.count);
    int64_t m = i < 0 ? 1 : a.items[i].integer(), n = j < 0 ? 1 : b.items[j].integer();
    if (m != n && m != 1 && n != 1)
      return c.raise("The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %lld",
                     static_cast<long long>(n), static_cast<long long>(m), static_cast<long long>(d));
    if (!list_append(made.list(), Value(m == 1 ? n : m))) return c.out_of_memory();
  }
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(size_if_not_equal, "aten::_size_if_not_equal(int[] self_size, int[] other_size) -> int[]?") {
  int64_t compared = 0;  // with the arguments, which are flat
  return c.give(values_equal(c.args[0], c.args[1], &compared) == 1 ? Value() : Value(c.args[0]));
}

}  // namespace pen
