// All-ones inputs, from the flags' texts: `;` between inputs, `,` between sizes.
#include "penlight/programs/speed_benchmark_torch/tensors.h"

namespace benchmark {
namespace {

struct DType {
  const char* name;
  size_t bytes;
  uint64_t one;  // its bits
};
// In the order of pen_dtype.
constexpr DType kDTypes[] = {{"f32", 4, 0x3f800000}, {"f16", 2, 0x3c00}, {"f64", 8, 0x3ff0000000000000},
                             {"i8", 1, 1},           {"u8", 1, 1},       {"i16", 2, 1},
                             {"i32", 4, 1},          {"i64", 8, 1},      {"bool", 1, 1},
                             {"bf16", 2, 0x3f80}};
constexpr int kDTypeCount = sizeof kDTypes / sizeof kDTypes[0];
constexpr size_t kMostBytes = size_t{1} << (sizeof(size_t) == 8 ? 40 : 30);

// One item of a list after the other; empty items are skipped, as in the original.
struct Items {
  const char* next;
  char separator;
  const char* begin = nullptr;
  const char* end = nullptr;

  bool step() {
    while (*next == separator) ++next;
    begin = end = next;
    while (*end && *end != separator) ++end;
    next = end;
    return begin != end;
  }
  bool is(const char* text) const { return strlen(text) == size() && memcmp(begin, text, size()) == 0; }
  size_t size() const { return static_cast<size_t>(end - begin); }
  int width() const { return static_cast<int>(end - begin); }
};

int count_items(const char* text) {
  Items items = {text, ';'};
  int count = 0;
  while (items.step()) ++count;
  return count;
}

bool parse_type(const Items& item, int32_t* dtype) {
  *dtype = item.is("float") ? PEN_F32 : item.is("uint8_t") ? PEN_U8 : item.is("int64") ? PEN_I64 : -1;
  for (int32_t i = 0; i < kDTypeCount && *dtype < 0; ++i)
    if (item.is(kDTypes[i].name)) *dtype = i;
  return *dtype >= 0 || fail(
                            "Unsupported input type: %.*s. Expected float, uint8_t, int64, or one of f32, f16, f64, i8, u8, i16, i32, i64, "
                            "bool, bf16",
                            item.width(), item.begin);
}

bool parse_dims(const Items& item, Input* input) {
  Items sizes = {item.begin, ','};
  while (sizes.step() && sizes.begin < item.end) {
    if (sizes.end > item.end) sizes.end = sizes.next = item.end;
    if (input->tensor.rank == kMaxRank)
      return fail("--input_dims: at most %d sizes in an input, got '%.*s'", kMaxRank, item.width(), item.begin);
    int64_t* dim = &input->dims[input->tensor.rank++];
    if (!parse_int(sizes.begin, sizes.end, dim) || *dim < 0)
      return fail("--input_dims: expected sizes of 0 or more between commas, such as 1,3,224,224, got '%.*s'", item.width(), item.begin);
  }
  return true;
}

// Memory full of ones, in the order of the strides.
bool fill(Input* input) {
  pen_tensor* t = &input->tensor;
  const DType& type = kDTypes[t->dtype];
  size_t count = 1;
  bool empty = false;
  for (int d = 0; d < t->rank; ++d) empty = empty || input->dims[d] == 0;
  for (int d = 0; d < t->rank && !empty; ++d) {
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(input->dims[d]), &count) || count > kMostBytes / type.bytes)
      return fail("an input is too large for this machine's memory: check --input_dims");
  }
  if (empty) count = 0;
  input->owned = malloc(count * type.bytes + 1);
  if (!input->owned) return fail("no memory for an input of %zu bytes: check --input_dims", count * type.bytes);
  for (size_t i = 0; i < count; ++i) {
    uint8_t* to = static_cast<uint8_t*>(input->owned) + i * type.bytes;
    for (size_t b = 0; b < type.bytes; ++b) to[b] = static_cast<uint8_t>(type.one >> 8 * b);  // all targets are little-endian
  }
  t->data = input->owned;
  t->dims = input->dims;
  return true;
}

void lay_channels_last(Input* input) {
  const int64_t* d = input->dims;  // without an element, they may be as large as they like: nothing is multiplied then
  bool empty = !d[0] || !d[1] || !d[2] || !d[3];
  const int64_t strides[] = {empty ? 1 : d[1] * d[2] * d[3], 1, empty ? 1 : d[1] * d[3], empty ? 1 : d[1]};
  memcpy(input->strides, strides, sizeof strides);
  input->tensor.strides = input->strides;
}

// Sizes that the method fixes itself.
bool declared_dims(const pen_tensor_info& info, Input* input) {
  input->tensor.rank = info.rank;
  for (int d = 0; d < info.rank; ++d) {
    if (info.dims[d] < 0)
      return fail("Input dims must be specified. Size %d of input '%s' is free: give --input_dims, or --use_bundled_input", d, info.name);
    input->dims[d] = info.dims[d];
  }
  return true;
}

}  // namespace

const char* dtype_name(int32_t dtype) { return dtype >= 0 && dtype < kDTypeCount ? kDTypes[dtype].name : "?"; }

void add_dims(Text* text, const int64_t* dims, int32_t rank) {
  text->add("[");
  for (int d = 0; d < rank; ++d) text->add("%s%lld", d ? ", " : "", static_cast<long long>(dims[d]));
  text->add("]");
}

Inputs::~Inputs() {
  for (int i = 0; i < count; ++i) free(items[i].owned);
}

bool make_inputs(const Flags& flags, const pen_model* model, Inputs* inputs) {
  const int planned = pen_model_input_count(model, flags.method);  // -1: not a planned method
  const bool has_dims = *flags.input_dims != 0;
  if (!has_dims && planned < 0 && flags.pytext_len <= 0)
    return fail(
        "Input dims must be specified. Method '%s' is interpreted, so the file does not say how large its inputs are: give --input_dims, "
        "--use_bundled_input, or --no_inputs",
        flags.method);
  const int extra = flags.pytext_len > 0 ? 1 : 0;
  const int count = has_dims ? count_items(flags.input_dims) : planned < extra ? 0 : planned - extra;
  if (count + extra > kMaxInputs) return fail("at most %d inputs, got %d", kMaxInputs, count + extra);
  if (*flags.input_type && count_items(flags.input_type) != count)
    return fail("Input dims and type should have the same number of items. %d inputs, but --input_type names %d", count,
                count_items(flags.input_type));
  if (*flags.input_memory_format && count_items(flags.input_memory_format) != count)
    return fail("Input dims and format should have the same number of items. %d inputs, but --input_memory_format names %d", count,
                count_items(flags.input_memory_format));
  Items dims = {flags.input_dims, ';'}, types = {flags.input_type, ';'}, formats = {flags.input_memory_format, ';'};
  for (int i = 0; i < count; ++i) {
    Input* input = &inputs->items[inputs->count++];
    pen_tensor_info info = {};
    info.dtype = PEN_F32;
    pen_model_input_info(model, flags.method, i, &info);  // leaves it as it is where there is no such input
    input->tensor.dtype = info.dtype;
    if (has_dims ? !dims.step() || !parse_dims(dims, input) : !declared_dims(info, input)) return false;
    if (*flags.input_type && (!types.step() || !parse_type(types, &input->tensor.dtype))) return false;
    if (!fill(input)) return false;
    if (*flags.input_memory_format && formats.step()) {
      if (formats.is("channels_last")) {
        if (input->tensor.rank != 4)
          return fail("channels_last memory format only available on 4D tensors! Input %d has %d sizes", i, input->tensor.rank);
        lay_channels_last(input);
      } else if (!formats.is("contiguous_format")) {
        return fail("Unsupported input memory format: %.*s. Expected contiguous_format or channels_last", formats.width(), formats.begin);
      }
    }
  }
  if (extra) {
    Input* input = &inputs->items[inputs->count++];
    input->tensor.dtype = PEN_I64;
    input->tensor.rank = 1;
    input->dims[0] = 1;
    if (!fill(input)) return false;
    memcpy(input->owned, &flags.pytext_len, sizeof flags.pytext_len);
  }
  return true;
}

}  // namespace benchmark
