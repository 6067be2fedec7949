// VM code and values: bundled inputs, and methods that a module interprets. The only file that calls pen_value_*, pen_module_*
// and pen_model_function_* / _bundle*: a library without VM has none of them.
#include "penlight/programs/speed_benchmark_torch/runner.h"

namespace benchmark {

struct Bundle {
  pen_bundle values;
};
struct Interpreted {
  pen_module* module;
  const char* method;
  pen_value* args[kMaxInputs];
  size_t count;
  pen_value* result;
};

namespace {

bool same(const char* token, size_t size, const char* text) { return strlen(text) == size && memcmp(token, text, size) == 0; }

// Walks a method's input spec, which is JSON (penlight/ir/containers.py has its forms), along with the arguments that it
// describes, and puts each tensor where the spec says. False where the two do not fit; the caller says so.
struct Placer {
  const char* at;
  Inputs* inputs;
  bool placed[kMaxInputs] = {};

  void space() {
    while (*at == ' ' || *at == ',' || *at == ':') ++at;
  }
  bool take(char c) {
    space();
    if (*at != c) return false;
    ++at;
    return true;
  }
  // The next string or number, without quotes. Escapes stay as they are: such a name fits nothing, and that is said.
  void token(const char** text, size_t* size) {
    space();
    bool quoted = *at == '"';
    const char* begin = at += quoted;
    while (*at && (quoted ? *at != '"' : *at != ',' && *at != ']' && *at != '}')) at += *at == '\\' && at[1] ? 2 : 1;
    *text = begin;
    *size = static_cast<size_t>(at - begin);
    if (quoted && *at) ++at;
  }
  void skip() {
    space();
    if (*at != '[' && *at != '{') {
      const char* text;
      size_t size;
      return token(&text, &size);
    }
    ++at;
    while (*at && !(take(']') || take('}'))) skip();
  }

  bool place(const pen_value* value, int64_t index) {
    pen_tensor t;
    if (!value || index < 0 || index >= kMaxInputs || pen_value_kind(value) != PEN_KIND_TENSOR || pen_value_as_tensor(value, &t) != PEN_OK)
      return false;
    if (t.rank > kMaxRank) return false;
    Input* input = &inputs->items[index];
    memcpy(input->dims, t.dims, sizeof(int64_t) * static_cast<size_t>(t.rank));
    input->tensor = {t.data, t.dtype, t.rank, input->dims, nullptr};
    if (t.strides) {
      memcpy(input->strides, t.strides, sizeof(int64_t) * static_cast<size_t>(t.rank));
      input->tensor.strides = input->strides;
    }
    placed[index] = true;
    if (index >= inputs->count) inputs->count = static_cast<int>(index) + 1;
    return true;
  }
  bool item(const pen_value* container, size_t index) {
    pen_value* value = container && index < pen_value_count(container) ? pen_value_item(container, index) : nullptr;
    bool fine = walk(value);
    pen_value_release(value);
    return fine;
  }
  bool entry(const pen_value* dict, const char* key, size_t size) {
    if (!dict || pen_value_kind(dict) != PEN_KIND_DICT) return false;
    for (size_t i = 0; i < pen_value_count(dict); ++i) {
      pen_value* found = pen_value_key(dict, i);
      char number[32] = "";
      const char* text = number;
      size_t length = 0;
      if (found && pen_value_kind(found) == PEN_KIND_STRING)
        text = pen_value_text(found, &length);
      else if (found)
        length = static_cast<size_t>(snprintf(number, sizeof number, "%lld", static_cast<long long>(pen_value_as_int(found))));
      bool match = length == size && memcmp(text, key, size) == 0;
      pen_value_release(found);
      if (match) return item(dict, i);
    }
    return false;
  }

  bool walk(const pen_value* value) {
    space();
    const char* text;
    size_t size;
    int64_t index = 0;
    if (*at != '{') {
      token(&text, &size);
      return parse_int(text, text + size, &index) && place(value, index);
    }
    ++at;
    token(&text, &size);
    bool fine = true;
    if (same(text, size, "tuple") || same(text, size, "list")) {
      fine = take('[') && value && (pen_value_kind(value) == PEN_KIND_TUPLE || pen_value_kind(value) == PEN_KIND_LIST);
      for (size_t i = 0; fine && !take(']'); ++i) fine = item(value, i);
    } else if (same(text, size, "dict") || same(text, size, "ordered_dict")) {
      for (fine = take('{'); fine && !take('}');) {
        token(&text, &size);
        fine = entry(value, text, size);
      }
    } else if (same(text, size, "dict_items")) {
      for (fine = take('['); fine && !take(']');) {
        fine = take('[');
        token(&text, &size);
        fine = fine && entry(value, text, size) && take(']');
      }
    } else if (same(text, size, "namedtuple")) {
      fine = take('[') && value && pen_value_kind(value) == PEN_KIND_TUPLE;
      token(&text, &size);
      fine = fine && take('{');
      for (size_t i = 0; fine && !take('}'); ++i) {
        token(&text, &size);
        fine = item(value, i);
      }
      fine = fine && take(']');
    } else {  // a constant: the plan has it
      fine = !same(text, size, "complex");
      skip();
    }
    return fine && take('}');
  }

  // Where a name stands in a list of names; past its end where it is not there.
  size_t position(const char* names, const char* name, size_t size) const {
    Placer list = {names, nullptr};
    const char* text;
    size_t length, i = 0;
    for (list.take('['); *list.at && !list.take(']'); ++i) {
      list.token(&text, &length);
      if (length == size && memcmp(text, name, size) == 0) break;
    }
    return i;
  }

  // {"args": […], "kwargs": {…}, "names": […]}: arguments after the positional ones stand for the keywords of those names.
  bool run(const pen_value* args) {
    const char *parts[3] = {}, *text;
    const char* const names[] = {"args", "kwargs", "names"};
    size_t size;
    for (take('{'); *at && !take('}'); skip()) {
      token(&text, &size);
      space();
      for (int i = 0; i < 3; ++i)
        if (same(text, size, names[i])) parts[i] = at;
    }
    if (!parts[0] || !parts[1] || !parts[2]) return false;
    at = parts[0];
    bool fine = take('[');
    for (size_t i = 0; fine && !take(']'); ++i) fine = item(args, i);
    at = parts[1];
    for (fine = fine && take('{'); fine && !take('}');) {
      token(&text, &size);
      size_t i = position(parts[2], text, size);
      if (i < pen_value_count(args))
        fine = item(args, i);
      else
        skip();  // left out: only a constant may be, and a tensor that is missing shows below
    }
    for (int i = 0; i < inputs->count; ++i) fine = fine && placed[i];
    return fine;
  }
};

void add_value(Text* text, const pen_value* value, int depth) {
  if (!value || depth > 64) return text->add("…\n");
  pen_tensor tensor;
  size_t size = 0;
  int32_t kind = pen_value_kind(value);
  switch (kind) {
    case PEN_KIND_NONE:
      return text->add("None\n");
    case PEN_KIND_BOOL:
      return text->add(pen_value_as_int(value) ? "True\n" : "False\n");
    case PEN_KIND_INT:
      return text->add("%lld\n", static_cast<long long>(pen_value_as_int(value)));
    case PEN_KIND_FLOAT:
      return text->add("%.6g\n", pen_value_as_float(value));
    case PEN_KIND_STRING: {
      const char* chars = pen_value_text(value, &size);
      return text->add("%.*s\n", static_cast<int>(size), chars);
    }
    case PEN_KIND_TENSOR:
      if (pen_value_as_tensor(value, &tensor) != PEN_OK) return text->add("a tensor that cannot be read\n");
      pen_quantization quantization;
      if (pen_value_quantization(value, &quantization) && quantization.axis < 0)
        text->add("quantized, scale %.6g, zero point %lld: ", quantization.scales[0], static_cast<long long>(quantization.zero_points[0]));
      return add_tensor(text, tensor);
    default:
      break;
  }
  const char* name = kind == PEN_KIND_LIST    ? "list"
                     : kind == PEN_KIND_DICT  ? "dict"
                     : kind == PEN_KIND_TUPLE ? "tuple"
                                              : pen_value_type(value);
  text->add("%s of %zu:\n", name, pen_value_count(value));
  for (size_t i = 0; i < pen_value_count(value); ++i) {
    pen_value* key = kind == PEN_KIND_DICT ? pen_value_key(value, i) : nullptr;
    pen_value* item = pen_value_item(value, i);
    if (key) add_value(text, key, depth + 1);
    add_value(text, item, depth + 1);
    pen_value_release(key);
    pen_value_release(item);
  }
}

}  // namespace

bool has_function(const pen_model* model, const char* method) {
  for (int32_t i = 0; i < pen_model_function_count(model); ++i)
    if (strcmp(pen_model_function_name(model, i), method) == 0) return true;
  return false;
}

void add_function_names(const pen_model* model, Text* text) {
  for (int32_t i = 0; i < pen_model_function_count(model); ++i) text->add(", %s", pen_model_function_name(model, i));
}

bool bundle_open(const pen_model* model, const char* method, int64_t index, Bundle** bundle) {
  pen_bundle values;
  pen_error error;
  int64_t count = 0;
  for (int32_t i = 0; i < pen_model_bundle_count(model); ++i) {
    if (pen_model_bundle(model, i, &values, &error) != PEN_OK) return fail("%s", error.message);
    pen_value_release(values.outputs);
    values.outputs = nullptr;
    if (strcmp(values.method, method) == 0 && count++ == index && !*bundle) {
      *bundle = static_cast<Bundle*>(malloc(sizeof(Bundle)));
      if (*bundle) {
        (*bundle)->values = values;
        continue;
      }
    }
    pen_value_release(values.args);
  }
  if (*bundle) return true;
  if (!count)
    say(kStderr,
        "Model does not have bundled inputs.  Before saving,\nuse torch.utils.bundled_inputs.augment_model_with_bundled_inputs.\n");
  else if (index >= count)
    say(kStderr, "Model has only %lld bundled inputs.\n", static_cast<long long>(count));
  else
    fail("no memory for a bundled input");
  return false;
}

void bundle_release(Bundle* bundle) {
  if (bundle) pen_value_release(bundle->values.args);
  free(bundle);
}

bool bundle_tensors(const Bundle* bundle, const char* spec, Inputs* inputs) {
  Placer placer = {spec, inputs};
  return placer.run(bundle->values.args) ||
         fail("--use_bundled_input: the bundled input does not fit the arguments that the method was captured with: give --input_dims");
}

bool interpreted_create(const Flags& flags, const pen_model* model, const Inputs& inputs, const Bundle* bundle, Interpreted** made) {
  Interpreted* m = *made = static_cast<Interpreted*>(calloc(1, sizeof(Interpreted)));
  if (!m) return fail("no memory for a module");
  m->method = flags.method;
  pen_module_options options = PEN_MODULE_OPTIONS;
  options.threads = static_cast<int32_t>(flags.threads);
  options.isa = *flags.isa ? flags.isa : nullptr;
  options.device = flags.runs_on();
  options.f16 = flags.f16;
  pen_error error;
  if (pen_module_create(model, &options, &m->module, &error) != PEN_OK) return fail("%s", error.message);
  size_t count = bundle ? pen_value_count(bundle->values.args) : static_cast<size_t>(inputs.count);
  if (count > kMaxInputs) return fail("at most %d arguments, got %zu", kMaxInputs, count);
  for (; m->count < count; ++m->count) {
    m->args[m->count] =
        bundle ? pen_value_item(bundle->values.args, m->count) : pen_value_tensor(&inputs.items[m->count].tensor, nullptr, nullptr);
    if (!m->args[m->count]) return fail("no memory for argument %zu", m->count);
  }
  return true;
}

bool interpreted_run(Interpreted* m) {
  pen_value_release(m->result);
  m->result = nullptr;
  return pen_module_run(m->module, m->method, m->args, m->count, &m->result) == PEN_OK || fail("%s", pen_module_error(m->module)->message);
}

void interpreted_add_result(const Interpreted* m, Text* text) { add_value(text, m->result, 0); }

void interpreted_add_parts(const Interpreted* m, bool json, Text* text) {
  pen_planned_part part;
  if (json) text->add("[");
  for (int32_t i = 0; pen_module_planned_part(m->module, i, &part) == PEN_OK; ++i) {
    const unsigned long long taken = part.taken, unfit = part.unfit, failed = part.failed;
    if (!json) {
      text->add("Planned part %s: ran %llu times by its plan, interpreted %llu times", part.name, taken, unfit + failed);
      if (unfit + failed) text->add(": %s", unfit ? part.unfit_reason : part.failed_reason);
      text->add(" (%s)\n", part.source);
      continue;
    }
    text->add("%s{\"name\": ", i ? ", " : "");
    text->add_json(part.name);
    text->add(", \"source\": ");
    text->add_json(part.source);
    text->add(", \"taken\": %llu, \"unfit\": %llu, \"failed\": %llu, \"unfit_reason\": ", taken, unfit, failed);
    text->add_json(part.unfit_reason);
    text->add(", \"failed_reason\": ");
    text->add_json(part.failed_reason);
    text->add("}");
  }
  if (json) text->add("]");
}

void interpreted_destroy(Interpreted* m) {
  if (!m) return;
  pen_value_release(m->result);
  for (size_t i = 0; i < m->count; ++i) pen_value_release(m->args[i]);
  pen_module_destroy(m->module);
  free(m);
}

}  // namespace benchmark
