// Flags from the command line: one table for parsing and for --help.
#include "penlight/programs/speed_benchmark_torch/flags.h"

namespace benchmark {
namespace {

enum class Kind { text, integer, number, boolean };
struct Flag {
  const char* name;
  Kind kind;
  size_t offset;  // in Flags
  const char* help;
};
#define FLAG(name, kind, help) {#name, Kind::kind, offsetof(Flags, name), help}
const Flag kFlags[] = {
    FLAG(model, text, "the .pen file to time"),
    FLAG(input_dims, text, "sizes of the inputs, 1,3,224,224 or 1,3,224,224;1,10 (default: those of the model, where it fixes them)"),
    {"input_dim", Kind::text, offsetof(Flags, input_dims), "the same"},
    FLAG(input_type, text,
         "of each input: float, uint8_t, int64, or f32, f16, f64, i8, u8, i16, i32, i64, bool, bf16 (default: the model's)"),
    FLAG(input_memory_format, text, "of each input: contiguous_format (the default) or channels_last"),
    FLAG(no_inputs, boolean, "call the method without arguments"),
    FLAG(use_bundled_input, integer, "run on the bundled input with this number instead"),
    FLAG(use_caching_allocator, boolean, "changes nothing here: a planned run allocates nothing"),
    FLAG(print_output, boolean, "run once beforehand and print the result"),
    FLAG(warmup, integer, "runs before those that are timed (default 0)"),
    FLAG(iter, integer, "runs that are timed (default 10)"),
    FLAG(report_pep, boolean, "print one line for AI-PEP per timed run"),
    FLAG(pytext_len, integer, "above 0: one more input, an int64 tensor that holds this number"),
    FLAG(vulkan, boolean, "run on the GPU: as --device=vulkan"),
    FLAG(method, text, "which method to run (default forward)"),
    FLAG(threads, integer, "threads to use (default 0: one per core)"),
    FLAG(isa, text, "instruction set to use, such as avx2 (default: the best there is)"),
    FLAG(device, text, "what it runs on: cpu, vulkan, vulkan:1, vulkan:part of a name"),
    FLAG(f16, boolean, "on a GPU: values stored as f16"),
    FLAG(seconds, number, "time runs for so long instead of --iter times; at least 5"),
    FLAG(json, text, "write all numbers to this file too; -: JSON alone to stdout, all else to stderr"),
    FLAG(profile, boolean, "also show where the time goes, operator by operator"),
    FLAG(help, boolean, "show this"),
};
#undef FLAG
const char* const kKindNames[] = {"text", "a whole number", "a number", "true or false"};

const Flag* find(const char* name, size_t size) {
  for (const Flag& flag : kFlags)
    if (strlen(flag.name) == size && memcmp(flag.name, name, size) == 0) return &flag;
  return nullptr;
}

bool parse_bool(const char* text, bool* value) {
  static const char* const words[] = {"true", "True", "TRUE", "1", "false", "False", "FALSE", "0"};
  for (int i = 0; i < 8; ++i) {
    if (strcmp(text, words[i]) != 0) continue;
    *value = i < 4;
    return true;
  }
  return false;
}

bool set(const Flag& flag, const char* text, Flags* flags) {
  void* to = reinterpret_cast<char*>(flags) + flag.offset;
  char* end = nullptr;
  bool fine = true;
  switch (flag.kind) {
    case Kind::text:
      *static_cast<const char**>(to) = text;
      break;
    case Kind::integer:
      fine = parse_int(text, text + strlen(text), static_cast<int64_t*>(to));
      break;
    case Kind::number:
      *static_cast<double*>(to) = strtod(text, &end);
      fine = end != text && !*end;
      break;
    case Kind::boolean:
      fine = parse_bool(text, static_cast<bool*>(to));
      break;
  }
  return fine || fail("--%s: expected %s, got '%s'", flag.name, kKindNames[static_cast<int>(flag.kind)], text);
}

bool check(const Flags& f) {
  if (f.warmup < 0) return fail("Number of warm up runs should be non negative, provided %lld.", static_cast<long long>(f.warmup));
  if (f.iter < 0) return fail("Number of main runs should be non negative, provided %lld.", static_cast<long long>(f.iter));
  if (f.threads < 0 || f.threads > 1024)
    return fail("--threads: expected 0 (one per core) to 1024, got %lld", static_cast<long long>(f.threads));
  if (!(f.seconds >= 0 && f.seconds < 1e9)) return fail("--seconds: expected a time of 0 or more, got %g", f.seconds);
  if (f.use_bundled_input > INT32_MAX) return fail("--use_bundled_input: expected a number below 2147483648");
  if (f.vulkan && *f.device && strncmp(f.device, "vulkan", 6) != 0)
    return fail("--vulkan and --device=%s: one of them is too many", f.device);
  if (!*f.model && !f.help) return fail("--model is missing: the .pen file to time. --help shows all flags");
  return true;
}

}  // namespace

bool parse_int(const char* text, const char* end, int64_t* value) {
  bool negative = text < end && *text == '-';
  if (negative) ++text;
  if (text == end) return false;
  int64_t result = 0;
  for (; text < end; ++text) {
    if (*text < '0' || *text > '9') return false;
    if (__builtin_mul_overflow(result, int64_t{10}, &result) || __builtin_add_overflow(result, int64_t{*text - '0'}, &result)) return false;
  }
  *value = negative ? -result : result;
  return true;
}

bool parse_flags(int count, char** words, Flags* flags) {
  for (int i = 1; i < count; ++i) {
    const char* word = words[i];
    if (strncmp(word, "--", 2) != 0 || !word[2])
      return fail("expected --name=value or --name value, got '%s'. --help shows all flags", word);
    const char* name = word + 2;
    const char* end = name;
    while (*end && *end != '=') ++end;
    const Flag* flag = find(name, static_cast<size_t>(end - name));
    if (!flag) return fail("there is no flag --%.*s. --help shows all flags", static_cast<int>(end - name), name);
    const char* value = *end ? end + 1 : nullptr;
    bool next = !value && i + 1 < count;
    if (flag->kind == Kind::boolean) {
      bool ignored;
      if (!value) value = next && parse_bool(words[i + 1], &ignored) ? words[++i] : "true";
    } else if (!value) {
      if (!next) return fail("--%s: its value is missing", flag->name);
      value = words[++i];
    }
    if (!set(*flag, value, flags)) return false;
  }
  return check(*flags);
}

void show_usage() {
  say(kStdout,
      "Times a model: speed_benchmark_torch of PyTorch Mobile, for .pen files.\n"
      "  ./speed_benchmark_torch --model=model.pen --use_bundled_input=0 --warmup=5 --iter=20\n"
      "  ./speed_benchmark_torch --model=model.pen --input_dims=\"1,3,224,224\" --input_type=float --warmup=5 --iter=20\n\n");
  for (const Flag& flag : kFlags) say(kStdout, "  --%-22s %s\n", flag.name, flag.help);
}

}  // namespace benchmark
