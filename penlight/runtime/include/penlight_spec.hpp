// How a method's arguments and results nest, for bindings: the JSON of pen_model_input_spec or pen_model_output_spec (SPEC.md,
// "Containers") comes in, flat nodes in preorder go out, by which a binding flattens a caller's containers and builds its results.
// Read once per method, strictly: a text that is no spec, names a tensor that the method lacks or nests too deep is an error in words.
// C++17 alone: no C++ library, no exceptions, no libc header; memory is malloc's.
//
//   penlight::Spec spec;
//   if (!spec.read_outputs(pen_model_output_spec(model, "forward"), pen_model_output_count(model, "forward"))) puts(spec.error());
//   for (uint32_t part = 1; part < spec[0].end; part = spec[part].end) …   // the parts of a container at node 0
#ifndef PENLIGHT_SPEC_HPP_
#define PENLIGHT_SPEC_HPP_

#include "penlight_spec_text.hpp"

namespace penlight {

enum class SpecKind : uint8_t {
  kArguments,    // node 0 of an input spec: positional arguments, then named ones; a part's key is its name
  kTensor,       // flat tensor number `tensor`
  kComplex,      // of two flat tensors: `tensor` has the real part, `imaginary` the other
  kNone,         //
  kBool,         // constants, the same in every call: `integer` is 0 or 1,
  kInt,          // `integer`,
  kFloat,        // `number`,
  kString,       // `text`,
  kOpaque,       // another, known by its `text`
  kDim,          // outputs: an int that follows from the inputs' sizes, see Spec::dim
  kItem,         // outputs: the number in flat tensor number `tensor`
  kTuple,        //
  kList,         //
  kDict,         // parts have keys, which are strings, ints and bools
  kOrderedDict,  // parts have strings as keys
  kNamedTuple    // named `text`; parts have strings as keys
};

struct SpecNode {
  SpecKind kind;
  SpecKind key_kind;    // kString, kInt or kBool where its container knows it by a key; else kNone
  uint32_t count;       // of its parts
  uint32_t end;         // number of the node after the last one below it
  int32_t tensor;       //
  int32_t imaginary;    //
  int64_t integer;      //
  double number;        //
  const char* text;     // UTF-8, a 0 at its end; never NULL
  size_t text_bytes;    // without that
  const char* key;      // likewise; of ints and bools "", and key_integer is it
  size_t key_bytes;     //
  int64_t key_integer;  //
};

class Spec {
 public:
  static constexpr uint32_t kDepthLimit = 64, kNodeLimit = 8192;

  Spec() = default;
  Spec(const Spec&) = delete;
  Spec(Spec&& other) noexcept { take(other); }
  Spec& operator=(const Spec&) = delete;
  Spec& operator=(Spec&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  ~Spec() { clear(); }

  // Of a method with so many flat inputs or outputs. False: error() says why, and there are no nodes.
  bool read_inputs(const char* json, int32_t tensors) { return read(json, tensors, true); }
  bool read_outputs(const char* json, int32_t tensors) { return read(json, tensors, false); }
  const char* error() const { return message_; }

  uint32_t count() const { return nodes_ ? nodes_[0].end : 0; }
  const SpecNode& operator[](uint32_t node) const { return nodes_[node]; }

  // The part of an input spec that a positional argument goes to, 0: there is none. Named arguments of the captured call may be
  // positional parameters too. `positional`: how many must be there, as Python sees it; named ones are asked for with needed().
  uint32_t positional() const { return positional_; }
  uint32_t argument(uint32_t position) const {
    uint32_t part = 1;
    if (position < positional_) {
      while (position--) part = nodes_[part].end;
      return part;
    }
    if (position >= name_count_) return 0;
    const SpecNode& name = nodes_[count() + position];
    for (uint32_t i = 0; i < nodes_[0].count; ++i, part = nodes_[part].end)
      if (i >= positional_ && same(nodes_[part].key, nodes_[part].key_bytes, name.text, name.text_bytes)) return part;
    return 0;
  }
  // False for an argument that was None or a constant when the model was captured: it may be left out, there is only that choice.
  bool needed(uint32_t part) const {
    SpecKind kind = nodes_[part].kind;
    return kind != SpecKind::kNone && (kind < SpecKind::kBool || kind > SpecKind::kOpaque);
  }

  // The value of a kDim where the inputs have these shapes. NULL, or what is wrong, in words.
  const char* dim(const SpecNode& node, const pen_tensor* inputs, int32_t input_count, int64_t* value) const {
    spec_text::DimReader reader{node.text, inputs, input_count, nullptr, 0};
    *value = reader.all();
    return reader.problem;
  }

  // A part in words, for messages: "dict(image: tensor, boxes: list of 5)". Cut off where there is no room.
  void describe(uint32_t node, char* out, size_t size) const {
    Words words{out, size, 0};
    describe(node, words, 0);
  }

 private:
  using Words = spec_text::Words;

  void clear() {
    __builtin_free(nodes_);
    __builtin_free(texts_);
    nodes_ = nullptr;
    texts_ = nullptr;
    used_ = room_ = positional_ = name_count_ = 0;
  }
  void take(Spec& other) {
    __builtin_memcpy(static_cast<void*>(this), &other, sizeof *this);
    other.nodes_ = nullptr;
    other.texts_ = nullptr;
    other.used_ = other.room_ = 0;
  }
  static bool same(const char* a, size_t a_bytes, const char* b, size_t b_bytes) {
    return a_bytes == b_bytes && __builtin_memcmp(a, b, a_bytes) == 0;
  }

  bool read(const char* json, int32_t tensors, bool inputs);
  bool fail(const char* expected);
  void blank();
  bool takes(char c);
  bool text(const char** out, size_t* bytes);
  bool escape();
  bool put(uint32_t code);
  bool unit(uint32_t* code);
  bool utf8();
  bool number(SpecNode* node);
  bool constant(SpecNode* node);
  bool index(int32_t* tensor);
  bool spec(uint32_t* made, uint32_t depth);
  bool form(uint32_t self, uint32_t depth);
  bool sequence(uint32_t self, uint32_t depth);
  bool fields(uint32_t self, uint32_t depth);
  bool items(uint32_t self, uint32_t depth);
  bool fresh(uint32_t self, uint32_t part);
  bool arguments();
  bool formats();
  bool whole(int32_t tensors);
  bool node(uint32_t* made);
  void describe(uint32_t node, Words& words, uint32_t depth) const;

  SpecNode* nodes_ = nullptr;  // those of the spec, then the names of positional parameters
  char* texts_ = nullptr;      // all strings, decoded, a 0 after each
  uint32_t used_ = 0, room_ = 0, positional_ = 0, name_count_ = 0;
  char message_[256] = "";
  // while it is read:
  const char *json_ = "", *at_ = "";
  char* text_end_ = nullptr;
  int32_t tensors_ = 0;
  bool is_inputs_ = false;
};

inline bool Spec::fail(const char* expected) {
  if (message_[0]) return false;
  Words words{message_, sizeof message_, 0};
  words.add(is_inputs_ ? "input spec" : "output spec").add(", byte ").add(int64_t(at_ - json_)).add(": expected ").add(expected);
  words.add(", got ");
  size_t shown = 0;
  while (shown < 24 && at_[shown] >= ' ' && at_[shown] < 127) ++shown;  // words stay ASCII
  if (shown)
    words.add("'").add(at_, shown).add("'");
  else
    words.add(*at_ ? "a byte that is no text" : "its end");
  return false;
}

inline void Spec::blank() {
  while (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r') ++at_;
}

// Takes a sign that comes next, past white space.
inline bool Spec::takes(char c) {
  blank();
  if (*at_ != c) return false;
  ++at_;
  return true;
}

inline bool Spec::node(uint32_t* made) {
  if (used_ >= kNodeLimit) return fail("at most 8192 parts");
  if (used_ == room_) {
    uint32_t room = room_ ? 2 * room_ : 16;
    void* grown = __builtin_realloc(nodes_, room * sizeof(SpecNode));
    if (!grown) return fail("memory for its parts");
    nodes_ = static_cast<SpecNode*>(grown);
    room_ = room;
  }
  nodes_[used_] = SpecNode{SpecKind::kNone, SpecKind::kNone, 0, used_ + 1, 0, 0, 0, 0, "", 0, "", 0, 0};
  *made = used_++;
  return true;
}

inline bool Spec::put(uint32_t code) {
  if (code >= 0x800 && code < 0x10000) *text_end_++ = char(0xE0 | code >> 12);
  if (code >= 0x10000) {
    *text_end_++ = char(0xF0 | code >> 18);
    *text_end_++ = char(0x80 | (code >> 12 & 63));
  }
  if (code >= 0x800) *text_end_++ = char(0x80 | (code >> 6 & 63));
  if (code >= 0x80 && code < 0x800) *text_end_++ = char(0xC0 | code >> 6);
  *text_end_++ = char(code < 0x80 ? code : 0x80 | (code & 63));
  return true;
}

inline bool Spec::unit(uint32_t* code) {
  *code = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    char c = *at_, low = char(c | 32);
    if (!(c >= '0' && c <= '9') && !(low >= 'a' && low <= 'f')) return fail("four hexadecimal digits after \\u");
    *code = *code * 16 + uint32_t(c <= '9' ? c - '0' : low - 'a' + 10);
  }
  return true;
}

inline bool Spec::escape() {
  const char* letters = "\"\\/bfnrt";
  const char* meaning = "\"\\/\b\f\n\r\t";
  for (int i = 0; letters[i]; ++i)
    if (*at_ == letters[i]) {
      ++at_;
      return put(uint32_t(meaning[i]));
    }
  if (*at_ != 'u') return fail("an escape that JSON has");
  ++at_;
  uint32_t code, low;
  if (!unit(&code)) return false;
  if (code >= 0xD800 && code < 0xDC00) {
    if (at_[0] != '\\' || at_[1] != 'u') return fail("the second half of a surrogate pair");
    at_ += 2;
    if (!unit(&low)) return false;
    if (low < 0xDC00 || low > 0xDFFF) return fail("the second half of a surrogate pair before this");
    return put(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00));
  }
  return code >= 0xDC00 && code < 0xE000 ? fail("the first half of a surrogate pair before this") : put(code);
}

inline bool Spec::utf8() {
  auto byte = [this](int i) { return uint32_t(uint8_t(at_[i])); };
  uint32_t first = byte(0);
  int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  uint32_t code = first & (0x3Fu >> more);
  bool valid = first >= 0xC2 && first <= 0xF4;
  for (int i = 1; valid && i <= more; ++i) {
    valid = byte(i) >> 6 == 2;
    code = code << 6 | (byte(i) & 63);
  }
  const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  if (!valid || code < least[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return fail("UTF-8");
  at_ += more + 1;
  return put(code);
}

inline bool Spec::text(const char** out, size_t* bytes) {
  if (!takes('"')) return fail("a string");
  *out = text_end_;
  while (*at_ != '"') {
    bool fine;
    if (*at_ == '\\')
      ++at_, fine = escape();
    else if (uint8_t(*at_) >= 0x80)
      fine = utf8();
    else
      fine = uint8_t(*at_) >= ' ' ? put(uint32_t(uint8_t(*at_++))) : fail("the rest of a string");
    if (!fine) return false;
  }
  ++at_;
  *bytes = size_t(text_end_ - *out);
  *text_end_++ = 0;
  return true;
}

inline bool Spec::number(SpecNode* node) {
  auto is_digit = [this] { return *at_ >= '0' && *at_ <= '9'; };
  const char* words[] = {"NaN", "Infinity", "-Infinity"};  // as Python writes them
  for (int i = 0; i < 3; ++i)
    if (__builtin_strncmp(at_, words[i], __builtin_strlen(words[i])) == 0) {
      node->kind = SpecKind::kFloat;
      node->number = i == 0 ? __builtin_nan("") : i == 1 ? __builtin_inf() : -__builtin_inf();
      at_ += __builtin_strlen(words[i]);
      return true;
    }
  const char* start = at_;
  auto short_enough = [&] { return at_ = start, fail("a number of at most 64 bits, or 19 digits"); };
  bool minus = *at_ == '-';
  if (minus) ++at_;
  if (!is_digit()) return fail("a value");
  if (*at_ == '0' && at_[1] >= '0' && at_[1] <= '9') return fail("a number without a 0 before it");
  uint64_t digits = 0;
  int64_t exponent = 0, power = 0;
  bool over = false, whole = true;
  auto more = [&] {
    over |= __builtin_mul_overflow(digits, uint64_t(10), &digits) || __builtin_add_overflow(digits, uint64_t(*at_ - '0'), &digits);
  };
  for (; is_digit(); ++at_) more();
  if (*at_ == '.') {
    whole = false;
    ++at_;
    if (!is_digit()) return fail("a digit after a decimal point");
    for (; is_digit(); ++at_, --exponent) more();
  }
  if (*at_ == 'e' || *at_ == 'E') {
    whole = false;
    ++at_;
    bool down = *at_ == '-';
    if (down || *at_ == '+') ++at_;
    if (!is_digit()) return fail("an exponent");
    for (; is_digit(); ++at_) power = power < 10000 ? 10 * power + (*at_ - '0') : power;
    exponent += down ? -power : power;
  }
  if (over || (whole && digits > uint64_t(INT64_MAX) + minus)) return short_enough();
  node->kind = whole ? SpecKind::kInt : SpecKind::kFloat;
  node->integer = whole ? int64_t(minus ? 0 - digits : digits) : 0;
  node->number = whole ? 0 : minus ? -spec_text::decimal(digits, exponent) : spec_text::decimal(digits, exponent);
  return true;
}

// A number, a bool or a string.
inline bool Spec::constant(SpecNode* node) {
  blank();
  bool is_true = __builtin_strncmp(at_, "true", 4) == 0;
  if (is_true || __builtin_strncmp(at_, "false", 5) == 0) {
    at_ += is_true ? 4 : 5;
    node->kind = SpecKind::kBool;
    node->integer = is_true;
    return true;
  }
  if (*at_ != '"') return number(node);
  node->kind = SpecKind::kString;
  return text(&node->text, &node->text_bytes);
}

inline bool Spec::index(int32_t* tensor) {
  blank();
  const char* start = at_;
  SpecNode value{};
  if (!number(&value)) return false;
  if (value.kind == SpecKind::kInt && value.integer >= 0 && value.integer < tensors_) {
    *tensor = int32_t(value.integer);
    return true;
  }
  at_ = start;
  char expected[64];
  Words{expected, sizeof expected, 0}.add("the number of one of ").add(int64_t(tensors_)).add(" tensors");
  return fail(expected);
}

inline bool Spec::spec(uint32_t* made, uint32_t depth) {
  if (depth > kDepthLimit) return fail("at most 64 containers inside each other");
  if (!node(made)) return false;
  uint32_t self = *made;
  bool fine;
  if (!takes('{')) {
    nodes_[self].kind = SpecKind::kTensor;
    int32_t tensor = 0;
    fine = index(&tensor);
    nodes_[self].tensor = tensor;
  } else {
    fine = form(self, depth) && (takes('}') || fail("the end of a form, which has one key"));
  }
  nodes_[self].end = used_;
  return fine;
}

inline bool Spec::form(uint32_t self, uint32_t depth) {
  struct Form {
    const char* name;
    SpecKind kind;
  };
  const Form forms[] = {{"complex", SpecKind::kComplex},
                        {"none", SpecKind::kNone},
                        {"const", SpecKind::kInt},  // or another constant
                        {"opaque", SpecKind::kOpaque},
                        {"dim", SpecKind::kDim},
                        {"item", SpecKind::kItem},
                        {"tuple", SpecKind::kTuple},
                        {"list", SpecKind::kList},
                        {"dict", SpecKind::kDict},
                        {"ordered_dict", SpecKind::kOrderedDict},
                        {"dict_items", SpecKind::kArguments},  // a kDict, in another form
                        {"namedtuple", SpecKind::kNamedTuple}};
  const char* name;
  size_t bytes;
  const char* start = at_;
  if (!text(&name, &bytes)) return false;
  const Form* found = nullptr;
  for (const Form& form : forms)
    if (same(name, bytes, form.name, __builtin_strlen(form.name))) found = &form;
  bool given = found && (found->kind == SpecKind::kDim || found->kind == SpecKind::kItem);  // of results only
  if (!found || (is_inputs_ && given)) {
    at_ = start;
    return fail(given ? "a form that arguments may have" : "a form that SPEC.md lists under Containers");
  }
  if (!takes(':')) return fail("a colon");
  blank();
  SpecNode made = nodes_[self];  // not by reference: nodes move as they grow
  made.kind = found->kind;
  bool fine = true;
  switch (found->kind) {
    case SpecKind::kComplex:
      fine = (takes('[') || fail("a list of two")) && index(&made.tensor) && (takes(',') || fail("a comma")) && index(&made.imaginary) &&
             (takes(']') || fail("the end of a list of two"));
      break;
    case SpecKind::kNone:
      fine = __builtin_strncmp(at_, "true", 4) == 0 || fail("true");
      if (fine) at_ += 4;
      break;
    case SpecKind::kInt:
      fine = constant(&made);
      break;
    case SpecKind::kOpaque:
      fine = text(&made.text, &made.text_bytes);
      break;
    case SpecKind::kDim: {
      start = at_;
      fine = text(&made.text, &made.text_bytes);
      int64_t value;
      const char* problem = fine ? dim(made, nullptr, 0, &value) : nullptr;
      if (fine && __builtin_strlen(made.text) != made.text_bytes)
        problem = "a dim expression has a letter or sign that has no meaning there";
      if (problem) {
        at_ = start;
        char expected[128];
        Words{expected, sizeof expected, 0}.add("a dim expression (").add(problem).add(")");
        fine = fail(expected);
      }
      break;
    }
    case SpecKind::kItem:
      fine = index(&made.tensor);
      break;
    case SpecKind::kNamedTuple:
      fine = (takes('[') || fail("a list of a name and fields")) && text(&made.text, &made.text_bytes) && (takes(',') || fail("a comma"));
      break;
    default:
      break;
  }
  if (!fine) return false;
  if (found->kind == SpecKind::kArguments) made.kind = SpecKind::kDict;
  nodes_[self] = made;
  if (found->kind == SpecKind::kTuple || found->kind == SpecKind::kList) return sequence(self, depth);
  if (found->kind == SpecKind::kArguments) return items(self, depth);
  if (found->kind == SpecKind::kDict || found->kind == SpecKind::kOrderedDict) return fields(self, depth);
  return found->kind != SpecKind::kNamedTuple || (fields(self, depth) && (takes(']') || fail("the end of a list of a name and fields")));
}

inline bool Spec::sequence(uint32_t self, uint32_t depth) {
  if (!takes('[')) return fail("a list of specs");
  for (bool first = true; !takes(']'); first = false) {
    uint32_t part;
    if (!first && !takes(',')) return fail("a comma, or the end of a list");
    if (!spec(&part, depth + 1)) return false;
    ++nodes_[self].count;
  }
  return true;
}

// A part with its key is one of `self`: no other part of it has this key.
inline bool Spec::fresh(uint32_t self, uint32_t part) {
  const SpecNode& made = nodes_[part];
  uint32_t i = nodes_[self].kind == SpecKind::kArguments ? positional_ : 0, other = self + 1;
  for (uint32_t skipped = 0; skipped < i; ++skipped) other = nodes_[other].end;
  for (; i < nodes_[self].count; ++i, other = nodes_[other].end) {
    const SpecNode& before = nodes_[other];
    if (before.key_kind == made.key_kind && before.key_integer == made.key_integer &&
        same(before.key, before.key_bytes, made.key, made.key_bytes))
      return fail("keys that are not the same");
  }
  ++nodes_[self].count;
  return true;
}

inline bool Spec::fields(uint32_t self, uint32_t depth) {
  if (!takes('{')) return fail("specs by their names");
  for (bool first = true; !takes('}'); first = false) {
    const char* key;
    size_t bytes;
    uint32_t part;
    if (!first && !takes(',')) return fail("a comma, or the end of a dict");
    if (!text(&key, &bytes) || !(takes(':') || fail("a colon")) || !spec(&part, depth + 1)) return false;
    nodes_[part].key_kind = SpecKind::kString;
    nodes_[part].key = key;
    nodes_[part].key_bytes = bytes;
    if (!fresh(self, part)) return false;
  }
  return true;
}

inline bool Spec::items(uint32_t self, uint32_t depth) {
  if (!takes('[')) return fail("a list of keys and specs");
  for (bool first = true; !takes(']'); first = false) {
    SpecNode key{};
    key.text = "";
    uint32_t part;
    if (!first && !takes(',')) return fail("a comma, or the end of a dict");
    if (!takes('[')) return fail("a list of a key and a spec");
    if (!constant(&key)) return false;
    if (key.kind == SpecKind::kFloat) return fail("a key that is a string, an int or a bool before this");
    if (!(takes(',') || fail("a comma")) || !spec(&part, depth + 1)) return false;
    if (!takes(']')) return fail("the end of a list of a key and a spec");
    SpecNode& made = nodes_[part];
    made.key_kind = key.kind, made.key = key.text, made.key_bytes = key.text_bytes, made.key_integer = key.integer;
    if (!fresh(self, part)) return false;
  }
  return true;
}

inline bool Spec::arguments() {
  auto member = [this](char before, const char* name) {
    const char* found;
    size_t bytes;
    if (!takes(before) || !text(&found, &bytes) || !same(found, bytes, name, __builtin_strlen(name)) || !takes(':'))
      return fail("args, kwargs, names of arguments and, where there is one, channels_last, in this order");
    return true;
  };
  uint32_t self;
  if (!node(&self)) return false;
  nodes_[0].kind = SpecKind::kArguments;
  if (!member('{', "args") || !sequence(0, 1)) return false;
  positional_ = nodes_[0].count;
  if (!member(',', "kwargs") || !fields(0, 1)) return false;
  nodes_[0].end = used_;
  if (!member(',', "names") || !(takes('[') || fail("a list of names"))) return false;
  for (uint32_t part = 1; !takes(']'); ++name_count_) {
    if (name_count_ && !takes(',')) return fail("a comma, or the end of a list");
    uint32_t made = 0;
    if (!node(&made) || !text(&nodes_[made].text, &nodes_[made].text_bytes)) return false;
    if (name_count_ >= positional_) continue;
    nodes_[part].key_kind = SpecKind::kString;
    nodes_[part].key = nodes_[made].text;
    nodes_[part].key_bytes = nodes_[made].text_bytes;
    part = nodes_[part].end;
  }
  blank();
  if (*at_ == ',' && (!member(',', "channels_last") || !formats())) return false;
  return takes('}') || fail("the end of the arguments");
}

// Two lists of results, which torch gives with the strides of channels_last: where no input has those, and where one has. They are
// for callers with torch's tensors: bindings give every result in the order of its dims.
inline bool Spec::formats() {
  for (int list = 0; list < 2; ++list) {
    if (!takes(list ? ',' : '[') || !takes('[')) return fail("two lists of results");
    for (bool first = true; !takes(']'); first = false) {
      if (!first && !takes(',')) return fail("a comma, or the end of a list");
      blank();
      const char* start = at_;
      SpecNode result{};
      if (!number(&result)) return false;
      if (result.kind != SpecKind::kInt || result.integer < 0) return at_ = start, fail("the number of a result");
    }
  }
  return takes(']') || fail("the end of two lists of results");
}

// Every flat input has its place: a run could not be without it.
inline bool Spec::whole(int32_t tensors) {
  if (tensors == 0) return true;
  char* placed = static_cast<char*>(__builtin_calloc(size_t(tensors), 1));
  if (!placed) return fail("memory");
  for (uint32_t i = 0; i < count(); ++i) {
    if (nodes_[i].kind == SpecKind::kTensor || nodes_[i].kind == SpecKind::kComplex) placed[nodes_[i].tensor] = 1;
    if (nodes_[i].kind == SpecKind::kComplex) placed[nodes_[i].imaginary] = 1;
  }
  int32_t missing = 0;
  while (missing < tensors && placed[missing]) ++missing;
  __builtin_free(placed);
  if (missing == tensors) return true;
  char expected[64];
  Words{expected, sizeof expected, 0}.add("a place for input ").add(int64_t(missing));
  return fail(expected);
}

inline bool Spec::read(const char* json, int32_t tensors, bool inputs) {
  clear();
  message_[0] = 0;
  json_ = at_ = json ? json : "";
  tensors_ = tensors < 0 ? 0 : tensors;
  is_inputs_ = inputs;
  text_end_ = texts_ =
      static_cast<char*>(__builtin_malloc(__builtin_strlen(json_) + 1));  // decoded text is shorter than its quotes and escapes
  uint32_t root;
  bool fine = texts_ ? (inputs ? arguments() : spec(&root, 0)) : fail("memory");
  if (fine) {
    blank();
    fine = *at_ == 0 || fail("nothing more");
  }
  if (fine && inputs) fine = whole(tensors_);
  if (!fine) clear();
  return fine;
}

inline void Spec::describe(uint32_t node, Words& words, uint32_t depth) const {
  const SpecNode& self = nodes_[node];
  switch (self.kind) {
    case SpecKind::kTensor:
      words.add("tensor");
      return;
    case SpecKind::kComplex:
      words.add("complex tensor");
      return;
    case SpecKind::kNone:
      words.add("None");
      return;
    case SpecKind::kBool:
      words.add(self.integer ? "True" : "False");
      return;
    case SpecKind::kInt:
      words.add(self.integer);
      return;
    case SpecKind::kFloat:
    case SpecKind::kItem:
      words.add("number");
      return;
    case SpecKind::kString:
      words.add("'").add(self.text, self.text_bytes).add("'");
      return;
    case SpecKind::kOpaque:
    case SpecKind::kDim:
      words.add(self.text, self.text_bytes);
      return;
    default:
      break;
  }
  const char* names[] = {"tuple", "list", "dict", "ordered_dict"};
  bool is_sequence = self.kind == SpecKind::kTuple || self.kind == SpecKind::kList;
  if (self.kind == SpecKind::kNamedTuple)
    words.add(self.text, self.text_bytes);
  else if (self.kind != SpecKind::kArguments)
    words.add(names[int(self.kind) - int(SpecKind::kTuple)]);
  if (is_sequence && (self.count > 4 || depth > 8)) {
    words.add(" of ").add(int64_t(self.count));
    return;
  }
  words.add("(");
  uint32_t part = node + 1;
  for (uint32_t i = 0; i < self.count && words.used + 1 < words.size; ++i, part = nodes_[part].end) {
    if (i) words.add(", ");
    if (nodes_[part].key_kind == SpecKind::kString) words.add(nodes_[part].key, nodes_[part].key_bytes).add(": ");
    if (nodes_[part].key_kind == SpecKind::kInt) words.add(nodes_[part].key_integer).add(": ");
    if (nodes_[part].key_kind == SpecKind::kBool) words.add(nodes_[part].key_integer ? "True: " : "False: ");
    describe(part, words, depth + 1);
  }
  words.add(")");
}

}  // namespace penlight

#endif  // PENLIGHT_SPEC_HPP_
