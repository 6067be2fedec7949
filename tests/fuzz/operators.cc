// Every operator of the VM, found in its table, with arguments drawn for its schema: odd shapes and strides, empty, NaN and inf, huge
// integers, wrong kinds; and what earlier calls gave, so that views, lists and packed weights meet operators that write.
//   operators SECONDS FIRST CRASH CORPUS          sessions FIRST, FIRST + 1, ... until the time is up; "-" is no corpus
//   operators --file FILE...                      these sessions as they are
// A session is a row of calls on one pen_operators: for each an operator's name and bytes that its arguments are drawn from. So a file
// says a session whole, in any build, and fewer calls or bytes are a session again, which is how one that crashes is made small.
// One that met an outcome for the first time (operator, and what came: the kind of result or the words of the error) is kept in CORPUS,
// which later runs mutate. Built under AddressSanitizer and UBSan. A session that crashes or hangs is written to CRASH.
#include <dirent.h>
#include <sanitizer/lsan_interface.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>

#include "tests/file/exercise.h"
#define PEN_PLATFORM_CHECK           // keeps platform.h's declarations apart from libc's
#include "penlight/runtime/vm/op.h"  // the table of operators

namespace {

using Bytes = std::vector<uint8_t>;
constexpr int64_t kMaxKept = 4096;  // elements of a result that later calls may get
constexpr size_t kMaxCalls = 24, kMaxBytes = 96, kMaxSeeds = 2000;

struct Step {
  std::string name;
  Bytes bytes;
};
using Session = std::vector<Step>;

// ---- sessions as files: the name's length and the name, the bytes' length and the bytes, of each call ----
Bytes to_file(const Session& session) {
  Bytes out;
  for (const Step& s : session) {
    out.push_back(static_cast<uint8_t>(s.name.size()));
    out.insert(out.end(), s.name.begin(), s.name.end());
    out.push_back(static_cast<uint8_t>(s.bytes.size()));
    out.insert(out.end(), s.bytes.begin(), s.bytes.end());
  }
  return out;
}
Session from_file(const Bytes& b) {
  Session made;
  for (size_t at = 0; at < b.size();) {
    size_t n = std::min<size_t>(b[at], b.size() - at - 1);
    Step s = {std::string(b.begin() + static_cast<long>(at + 1), b.begin() + static_cast<long>(at + 1 + n)), {}};
    at += 1 + n;
    if (at < b.size()) {
      n = std::min<size_t>(b[at], b.size() - at - 1);
      s.bytes.assign(b.begin() + static_cast<long>(at + 1), b.begin() + static_cast<long>(at + 1 + n));
      at += 1 + n;
    }
    made.push_back(s);
  }
  return made;
}

// ---- arguments ----
struct Entropy {  // zeros after its end: the plainest choice
  const Bytes& bytes;
  size_t at = 0;
  unsigned byte() { return at < bytes.size() ? bytes[at++] : 0; }
  unsigned below(unsigned n) { return n ? byte() % n : 0; }
  bool one_in(unsigned n) { return byte() % n == n - 1; }
};

struct Drawer {
  Entropy& e;
  const std::vector<pen_value*>& kept;
  std::vector<pen_value*> made;  // arguments so far
  int64_t sizes[2] = {1, 1};     // that tensors of this call have mostly, so that they fit each other
  int rank = 2;
  bool one_tensor = false;  // for most arguments, of small integers: what is written is also the index that says where

  Drawer(Entropy& entropy, const std::vector<pen_value*>& earlier) : e(entropy), kept(earlier) {
    static const int64_t kSizes[] = {2, 1, 3, 4, 5, 7, 8, 9, 0, 16, 17, 33};
    for (int64_t& s : sizes) s = kSizes[e.below(12)];
    const unsigned way = e.byte();
    rank = static_cast<int>(way % 6);
    one_tensor = way >= 156 && way < 204;  // one in five
    if (one_tensor) rank = e.one_in(4) ? 2 : 1;
  }

  static pen_value* again(const pen_value* v) {  // a reference of its own to the same value
    pen_value* one = const_cast<pen_value*>(v);
    pen_value* list = pen_value_list(&one, 1);
    pen_value* made = list ? pen_value_item(list, 0) : nullptr;
    pen_value_release(list);
    return made;
  }
  pen_value* of_kind(int kind) {  // among results and arguments
    std::vector<pen_value*> found;
    for (const std::vector<pen_value*>* from : {&kept, const_cast<const std::vector<pen_value*>*>(&made)})
      for (pen_value* v : *from)
        if (v && (kind < 0 || pen_value_kind(v) == kind)) found.push_back(v);
    return found.empty() ? nullptr : again(found[e.below(static_cast<unsigned>(found.size()))]);
  }

  int64_t integer(const std::string& name) {
    static const int64_t kSmall[] = {0, 1, -1, 2, 3, -2, 4, 5, 7, 6, 11, 16, 8};
    static const int64_t kHuge[] = {int64_t{1} << 45,
                                    -(int64_t{1} << 45),
                                    int64_t{1} << 62,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT32_MAX,
                                    INT32_MIN,
                                    INT64_MAX - 1,
                                    65536,
                                    1 << 20,
                                    -65537,
                                    1000};
    if (name == "dtype" && !e.one_in(8)) {
      static const int64_t kDtypes[] = {6, 4, 3, 11, 5, 7, 0, 1, 2, 15, 12, 13, 14, 8, 9, 10};
      return kDtypes[e.below(16)];
    }
    if (e.one_in(16)) return kHuge[e.below(12)];
    return kSmall[e.below(13)];
  }
  double real() {
    static const double kReals[] = {
        0, 1, 0.5, -1, 2, -2.5, 1e-5, 3, 1e30, -1e30, 1e300, 1e-300, -0.0, 255, __builtin_inf(), -__builtin_inf(), __builtin_nan("")};
    return kReals[e.below(17)];
  }
  pen_value* text() {
    static const char* const kWords[] = {
        "sum",       "mean",         "amax",     "amin",      "prod",     "add",     "multiply",     "constant", "reflect",
        "replicate", "circular",     "floor",    "trunc",     "none",     "tanh",    "ij",           "xy",       "bilinear",
        "nearest",   "bicubic",      "linear",   "trilinear", "cpu",      "ortho",   "forward",      "backward", "fro",
        "nuc",       "same",         "valid",    "reduced",   "complete", "left",    "right",        "",         "{} {:>9999999} {0}",
        "%s%n%d",    "\xc3\xbf\xff", "aAbB1 ,.", "a,b->ab",   "ij,jk",    "...i->i", "bij,bjk->bik", "12",       "-0x1e999"};
    const char* word = kWords[e.below(sizeof kWords / sizeof *kWords)];
    return pen_value_string(word, strlen(word));
  }
  pen_value* tensor(const std::string& name) {
    if (one_tensor && !made.empty() && made[0] && pen_value_kind(made[0]) == PEN_KIND_TENSOR && e.byte() < 128) return again(made[0]);
    if (e.one_in(3))
      if (pen_value* v = of_kind(PEN_KIND_TENSOR)) return v;
    static const int kDtypes[] = {PEN_F32, PEN_I64, PEN_F32, PEN_F64, PEN_BOOL, PEN_I32, PEN_U8, PEN_F16, PEN_BF16, PEN_I8, PEN_I16};
    bool index = one_tensor || (name.compare(0, 3, "ind") == 0 && !e.one_in(8));
    int dtype = index ? int{PEN_I64} : kDtypes[e.below(11)];
    unsigned way = e.byte();
    int r = way % 4 == 3 ? static_cast<int>(e.below(9)) : rank;
    int64_t dims[8], strides[8];
    int order[8];
    for (int d = 0; d < r; ++d) {
      dims[d] = e.one_in(4) ? static_cast<int64_t>(e.below(r > 5 ? 3 : 6)) : sizes[d % 2];
      if (r > 4) dims[d] = std::min<int64_t>(dims[d], 3);
      if (r == 4) dims[d] = std::min<int64_t>(dims[d], 9);
      order[d] = d;
    }
    if (way / 4 % 4 == 3)
      for (int d = 1; d < r; ++d) std::swap(order[d], order[e.below(static_cast<unsigned>(d) + 1)]);
    int64_t stride = way / 16 % 8 == 7 ? 2 : 1, reach = 1;
    bool empty = false;
    for (int i = r - 1; i >= 0; --i) {
      bool still = way / 128 == 1 && e.one_in(3);
      strides[order[i]] = still ? 0 : stride;
      if (!still) stride *= std::max<int64_t>(dims[order[i]], 1);
      if (way == 126) stride += 1;
    }
    for (int d = 0; d < r; ++d) {
      reach += std::max<int64_t>(dims[d] - 1, 0) * strides[d];
      empty |= dims[d] == 0;
      if (dims[d] <= 1 && way == 127) strides[d] = int64_t{1} << 62;  // allowed: nobody goes there
    }
    if (empty && way % 4 == 2) reach = 0;
    char* data = nullptr;
    size_t size = kElementSize[dtype];
    if (posix_memalign(reinterpret_cast<void**>(&data), 64, std::max<size_t>(static_cast<size_t>(reach) * size, 1)) != 0) return nullptr;
    Rng numbers(e.byte());
    fill(numbers, dtype, data, static_cast<size_t>(reach));
    if (index && (one_tensor ? made.empty() : way % 2))  // mostly inside
      for (int64_t i = 0; i < reach; ++i) reinterpret_cast<int64_t*>(data)[i] &= 1;
    pen_tensor t = {data, dtype, r, dims, strides};
    pen_value* value = pen_value_tensor(&t, free, data);
    if (!value) return free(data), nullptr;
    if (e.one_in(16)) {
      double scales[4] = {0.1, 0.05, 2, real()};
      int64_t zeros[4] = {0, 3, 128, integer("")};
      int axis = r ? static_cast<int>(e.below(static_cast<unsigned>(r))) : -1;
      int many = r && dims[axis] <= 4 && e.one_in(3);
      pen_quantization q = {many ? axis : -1, many ? static_cast<size_t>(dims[axis]) : 1, scales + (e.one_in(8) ? 3 : 0),
                            zeros + (e.one_in(8) ? 3 : 0)};
      if (q.count == 1 || (q.scales == scales && q.zero_points == zeros)) pen_value_quantize(value, &q);
    }
    if (e.one_in(16)) pen_value_make_constant(value);
    return value;
  }
  pen_value* number() {
    switch (e.below(4)) {
      case 0:
        return pen_value_float(real());
      case 1:
        return pen_value_bool(static_cast<int>(e.below(2)));
      default:
        return pen_value_int(integer(""));
    }
  }
  pen_value* list(pen::Kind of, const std::string& name, bool optional) {
    unsigned way = e.byte();
    size_t n = way % 4 == 0 ? 2 : way % 4 == 1 ? static_cast<size_t>(rank) : way % 4 == 2 ? 1 : e.below(10);
    std::vector<pen_value*> items(n);
    for (pen_value*& item : items) item = optional && e.one_in(3) ? pen_value_none() : plain(of, name);
    for (pen_value*& item : items)
      if (!item) item = pen_value_none();
    pen_value* made_list = way == 255 ? pen_value_tuple(items.data(), n) : pen_value_list(items.data(), n);
    for (pen_value* item : items) pen_value_release(item);
    return made_list;
  }
  pen_value* anything(int depth = 0) {
    switch (e.below(depth < 2 ? 10 : 6)) {
      case 0:
        return tensor("");
      case 1:
        return pen_value_int(integer(""));
      case 2:
        return text();
      case 3:
        return number();
      case 4:
        if (pen_value* v = of_kind(-1)) return v;
        return tensor("");
      case 5:
        return pen_value_none();
      case 6:
      case 7: {
        std::vector<pen_value*> items(e.below(5));
        bool alike = e.one_in(2);
        for (pen_value*& item : items) {
          item = alike && &item != &items[0] && items[0] ? again(items[0]) : anything(depth + 1);
          if (!item) item = pen_value_none();
        }
        pen_value* v = e.one_in(3) ? pen_value_tuple(items.data(), items.size()) : pen_value_list(items.data(), items.size());
        for (pen_value* item : items) pen_value_release(item);
        return v;
      }
      case 8:
        return list(e.one_in(2) ? pen::Kind::integers : pen::Kind::strings, "", false);
      default: {
        pen_value *keys[3], *values[3];
        size_t n = e.below(4);
        for (size_t i = 0; i < n; ++i) keys[i] = e.one_in(2) ? text() : number(), values[i] = anything(depth + 1);
        pen_value* v = pen_value_dict(keys, values, n);
        for (size_t i = 0; i < n; ++i) pen_value_release(keys[i]), pen_value_release(values[i]);
        return v;
      }
    }
  }
  pen_value* plain(pen::Kind kind, const std::string& name) {
    switch (kind) {
      case pen::Kind::tensor:
      case pen::Kind::tensors:
        return tensor(name);
      case pen::Kind::integer:
      case pen::Kind::integers:
        return pen_value_int(integer(name));
      case pen::Kind::real:
      case pen::Kind::reals:
        return pen_value_float(real());
      case pen::Kind::boolean:
      case pen::Kind::booleans:
        return pen_value_bool(static_cast<int>(e.below(2)));
      case pen::Kind::string:
      case pen::Kind::strings:
        return text();
      case pen::Kind::number:
        return number();
      case pen::Kind::object:
        if (pen_value* v = of_kind(PEN_KIND_OBJECT)) return v;
        return anything();
      case pen::Kind::dict:
        if (pen_value* v = e.one_in(2) ? of_kind(PEN_KIND_DICT) : nullptr) return v;
        return anything();
      case pen::Kind::tuple:
      case pen::Kind::list:
        if (pen_value* v = e.one_in(2) ? of_kind(kind == pen::Kind::list ? PEN_KIND_LIST : PEN_KIND_TUPLE) : nullptr) return v;
        return list(e.one_in(2) ? pen::Kind::tensors : pen::Kind::any, name, false);
      default:
        return anything();
    }
  }
  pen_value* argument(const pen::Param& p) {
    std::string name = p.name.text();
    if (e.byte() == 255) return anything();
    bool many = p.kind == pen::Kind::integers || p.kind == pen::Kind::reals || p.kind == pen::Kind::booleans ||
                p.kind == pen::Kind::tensors || p.kind == pen::Kind::strings;
    if (p.optional && p.kind != pen::Kind::tensors && e.one_in(3)) return pen_value_none();
    return many ? list(p.kind, name, p.optional && p.kind == pen::Kind::tensors) : plain(p.kind, name);
  }
};

// ---- what came out ----
std::unordered_set<uint64_t> outcomes;
bool note(const char* name, const char* text) {  // whether it is new; numbers in words are not told apart
  uint64_t h = 0xcbf29ce484222325u;
  auto add = [&](char c) { h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u; };
  for (const char* p = name; *p; ++p) add(*p);
  add('\n');
  for (const char* p = text; *p; ++p)
    if (*p < '0' || *p > '9') add(*p);
  return outcomes.insert(h).second;
}

struct Counts {
  long sessions = 0, calls = 0, results = 0;
  std::vector<bool> seen = std::vector<bool>(static_cast<size_t>(pen::kOperatorCount));  // operators that gave a result
  size_t operators = 0;
} counts;
volatile uint64_t sink;

// A timer ticks each second, and a call that sees thirty of them hangs: an alarm for each would be two calls of the system's. What may take
// long by its nature (a polynomial of degree ten million) is asked to end before.
constexpr int kNoCall = INT32_MAX, kHang = 30, kLong = 5;
volatile int ticks, call_began = kNoCall;

int64_t elements(const pen_value* v, int depth = 0) {  // of all tensors in it
  pen_tensor t;
  int64_t n = 1;
  if (pen_value_as_tensor(v, &t) == PEN_OK) {
    for (int d = 0; d < t.rank; ++d)
      if (__builtin_mul_overflow(n, std::max<int64_t>(t.dims[d], 1), &n)) return INT64_MAX;
    return n;
  }
  size_t count = pen_value_count(v);
  if (count > 64 || depth > 3) return INT64_MAX;
  for (size_t i = 0; i < count; ++i) {
    pen_value* item = pen_value_item(v, i);
    int64_t more = item ? elements(item, depth + 1) : 0;
    pen_value_release(item);
    if (__builtin_add_overflow(n, more, &n)) return INT64_MAX;
  }
  return n;
}

// The field has two names in the runtime's history.
template <class Options>
auto limit_memory(Options& options, uint64_t bytes, int) -> decltype(options.memory_limit, void()) {
  options.memory_limit = bytes;
}
template <class Options>
auto limit_memory(Options& options, uint64_t bytes, long) -> decltype(options.arena_limit, void()) {
  options.arena_limit = bytes;
}

// A container that the caller made and that was put into itself is the caller's to empty: nobody else would free it.
bool is_deep(const pen_value* v, int depth, int* visits) {
  if (depth > 12 || ++*visits > 500) return true;
  size_t count = pen_value_kind(v) >= PEN_KIND_LIST ? pen_value_count(v) : 0;
  bool deep = false;
  for (size_t i = 0; i < count && !deep; ++i) {
    pen_value* item = pen_value_item(v, i);
    deep = item && is_deep(item, depth + 1, visits);
    pen_value_release(item);
  }
  return deep;
}
void take_apart(pen_operators* operators, pen_value* v, int depth = 0) {
  int kind = pen_value_kind(v), visits = 0;
  if (kind < PEN_KIND_LIST || depth > 12 || !is_deep(v, 0, &visits)) return;
  for (size_t i = 0; i < pen_value_count(v); ++i) {
    pen_value* item = pen_value_item(v, i);
    if (item) take_apart(operators, item, depth + 1);
    pen_value_release(item);
  }
  pen_value* none[8] = {};
  size_t count = 0;
  for (const char* clear : {"aten::clear.t", "aten::clear.str", "aten::clear.int", "aten::clear.bool", "aten::clear.float"})
    pen_operators_run(operators, clear, &v, 1, none, &count);
}

bool run(const Session& session) {  // whether something new came out
  ++counts.sessions;
  unsigned first = session.empty() || session[0].bytes.empty() ? 0 : session[0].bytes.back();
  int isas = 0;
  while (pen_isa_name(isas)) ++isas;
  pen_session_options options = {};
  options.size = sizeof options;
  options.threads = first % 32 == 31 ? 2 : 1;
  options.plan_cache = 2;
  options.isa = pen_isa_name(static_cast<int>(first % static_cast<unsigned>(isas)));
  limit_memory(options, 4 << 20, 0);
  options.interrupted = [](void*) -> int32_t { return call_began != kNoCall && ticks - call_began >= kLong; };
  pen_operators* operators;
  pen_error error;
  if (pen_operators_create(&options, &operators, &error) != PEN_OK) return false;
  std::vector<pen_value*> kept;
  bool fresh = false;
  for (const Step& step : session) {
    const pen::OpEntry* op = pen::find_operator(step.name.c_str());
    if (!op) continue;
    Entropy entropy = {step.bytes};
    Drawer drawer(entropy, kept);
    for (int i = 0; i < op->param_count; ++i) {
      if (op->param(i).has_default && entropy.one_in(4)) break;
      pen_value* v = drawer.argument(op->param(i));
      drawer.made.push_back(v ? v : pen_value_none());
    }
    for (unsigned n = op->variadic ? entropy.below(4) : entropy.byte() == 255; n > 0; --n) {
      pen_value* v = drawer.anything();
      drawer.made.push_back(v ? v : pen_value_none());
    }
    pen_value* results[8] = {};
    size_t result_count = 0;
    ++counts.calls;
    call_began = ticks;
    if (pen_operators_run(operators, step.name.c_str(), drawer.made.data(), drawer.made.size(), results, &result_count) == PEN_OK) {
      ++counts.results;
      const size_t number = static_cast<size_t>(op - pen::kOperators);
      if (!counts.seen[number]) counts.seen[number] = true, ++counts.operators;
      std::string told;
      for (size_t i = 0; i < result_count && i < 8; ++i) {
        sink = sink + read_value(results[i]);
        pen_tensor t;
        told += static_cast<char>('A' + pen_value_kind(results[i]));
        if (pen_value_as_tensor(results[i], &t) == PEN_OK)
          told += static_cast<char>('a' + t.dtype), told += static_cast<char>('a' + t.rank);
        if (elements(results[i]) <= kMaxKept)
          kept.push_back(results[i]);
        else
          pen_value_release(results[i]);
      }
      fresh |= note(step.name.c_str(), told.c_str());
    } else {
      const pen_error* e = pen_operators_error(operators);
      if (!e->message[0]) {
        fprintf(stderr, "%s: an error without words, status %d\n", step.name.c_str(), static_cast<int>(e->status));
        abort();
      }
      fresh |= note(step.name.c_str(), e->message);
    }
    for (pen_value* v : drawer.made) take_apart(operators, v), pen_value_release(v);
    while (kept.size() > 8) {  // an old one, not always the oldest
      size_t i = kept.size() % 3;
      take_apart(operators, kept[i]);
      pen_value_release(kept[i]);
      kept.erase(kept.begin() + static_cast<long>(i));
    }
  }
  for (pen_value* v : kept) take_apart(operators, v);
  bool before = first & 1;  // results live on without what made them
  if (before) pen_operators_destroy(operators);
  for (pen_value* v : kept) sink = sink + read_value(v), pen_value_release(v);
  if (!before) pen_operators_destroy(operators);
  call_began = kNoCall;
  return fresh;
}

// ---- sessions made ----
Step any_step(Rng& rng) {
  Step s = {pen::kOperators[rng.below(static_cast<uint64_t>(pen::kOperatorCount))].name.text(), {}};
  s.bytes.resize(rng.below(kMaxBytes));
  bool tame = rng.one_in(2);  // most choices are rare ones in the upper half
  for (uint8_t& b : s.bytes) b = static_cast<uint8_t>(tame && !rng.one_in(6) ? rng.below(16) * 12 : rng.next());
  return s;
}
Session make(const std::vector<Session>& seeds, Rng& rng) {
  Session made;
  if (seeds.empty() || rng.one_in(2)) {
    for (uint64_t n = 1 + rng.below(kMaxCalls); n > 0; --n) made.push_back(any_step(rng));
    return made;
  }
  made = seeds[rng.below(seeds.size())];
  for (uint64_t n = 1 + rng.below(6); n > 0; --n) {
    size_t at = rng.below(made.size() + 1);
    if (at == made.size() || rng.one_in(8)) {
      made.insert(made.begin() + static_cast<long>(at), any_step(rng));
      continue;
    }
    Step& s = made[at];
    switch (rng.below(7)) {
      case 0:
        s.name = any_step(rng).name;
        break;
      case 1: {  // a whole call, or the tail, of another session
        const Session& other = seeds[rng.below(seeds.size())];
        size_t from = other.empty() ? 0 : rng.below(other.size());
        if (rng.one_in(3)) made.resize(at);
        made.insert(made.begin() + static_cast<long>(at), other.begin() + static_cast<long>(from),
                    rng.one_in(2) || other.empty() ? other.end() : other.begin() + static_cast<long>(from + 1));
        break;
      }
      case 2:
        made.insert(made.begin() + static_cast<long>(rng.below(at + 1)), Step(s));
        break;
      case 3:
        made.erase(made.begin() + static_cast<long>(at));
        break;
      case 4:
        if (!s.bytes.empty()) s.bytes.erase(s.bytes.begin() + static_cast<long>(rng.below(s.bytes.size())));
        break;
      default:
        for (uint64_t k = 1 + rng.below(3); k > 0 && !s.bytes.empty(); --k)
          s.bytes[rng.below(s.bytes.size())] = static_cast<uint8_t>(rng.next());
    }
    if (made.empty()) made.push_back(any_step(rng));
    if (made.size() > kMaxCalls) made.resize(kMaxCalls);
  }
  return made;
}

// ---- files ----
Session& current = *new Session;  // never destroyed: a leak is told of at the very end
const char* crash_path = "";
long current_index;
void write_file(const std::string& path, const Bytes& b) {
  FILE* f = fopen(path.c_str(), "wb");
  if (!f) return;
  fwrite(b.data(), 1, b.size(), f);
  fclose(f);
}
Bytes read_file(const std::string& path) {
  FILE* f = fopen(path.c_str(), "rb");
  Bytes b;
  if (!f) return b;
  uint8_t buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;) b.insert(b.end(), buffer, buffer + n);
  fclose(f);
  return b;
}
void tell(const char* end) {
  printf("executions %ld sessions %ld results %ld operators %zu next %ld%s\n", counts.calls, counts.sessions, counts.results,
         counts.operators, current_index, end);
  fflush(stdout);
}
void on_signal(int signal) {
  if (signal == SIGALRM) {
    int now = ticks + 1;
    ticks = now;
    if (call_began == kNoCall || now - call_began < kHang) return;
    fprintf(stderr, "a hang: more than %d seconds for one call\n", kHang);
  }
  write_file(crash_path, to_file(current));
  fprintf(stderr, "session %ld, written to %s\n", current_index, crash_path);
  tell("");
  _exit(3);
}
void start_ticks() {
  signal(SIGALRM, on_signal);
  itimerval each_second = {{1, 0}, {1, 0}};
  setitimer(ITIMER_REAL, &each_second, nullptr);
}

// Leaks: looked for now and then, as that takes as long as fifty sessions. Which session it was, replays tell, each of half of those that
// it may be, in a process of its own.
constexpr size_t kLeakSessions = 2048;
std::vector<Session>& recent = *new std::vector<Session>;
bool leaks(const char* self, size_t begin, size_t end) {
  std::string path = std::string(crash_path) + ".leak";
  std::vector<std::string> words = {self, "--file"};
  for (size_t i = begin; i < end; ++i) {
    words.push_back(path + std::to_string(i - begin));
    write_file(words.back(), to_file(recent[i]));
  }
  pid_t child = fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (std::string& w : words) arguments.push_back(&w[0]);
    arguments.push_back(nullptr);
    execv(self, arguments.data());
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  for (size_t i = 2; i < words.size(); ++i) unlink(words[i].c_str());
  return status != 0;
}
void look_for_leaks(const char* self) {
  if (__lsan_do_recoverable_leak_check() == 0) return recent.clear();
  size_t begin = 0, end = recent.size();
  while (end - begin > 1) {
    size_t middle = begin + (end - begin) / 2;
    if (leaks(self, begin, middle))
      end = middle;
    else
      begin = middle;
  }
  if (begin < end) current = recent[begin];
  write_file(crash_path, to_file(current));
  fprintf(stderr, "a leak; session %ld or before, written to %s\n", current_index, crash_path);
  tell("");
  _exit(3);
}
double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGABRT, on_signal);
  start_ticks();
  if (argc > 2 && strcmp(argv[1], "--file") == 0) {
    crash_path = "/dev/null";
    for (int i = 2; i < argc; ++i) run(current = from_file(read_file(argv[i])));
    return tell(""), 0;
  }
  if (argc != 5) return fprintf(stderr, "operators SECONDS FIRST CRASH CORPUS\n"), 2;
  crash_path = argv[3];
  std::string corpus = argv[4];
  std::vector<Session> seeds;
  if (DIR* folder = corpus == "-" ? nullptr : opendir(corpus.c_str())) {
    std::vector<std::string> names;
    while (dirent* entry = readdir(folder))
      if (entry->d_name[0] != '.') names.push_back(entry->d_name);
    closedir(folder);
    std::sort(names.begin(), names.end());
    Rng rng(static_cast<uint64_t>(atol(argv[2])) + 1);
    while (names.size() > kMaxSeeds) names.erase(names.begin() + static_cast<long>(rng.below(names.size())));
    for (const std::string& name : names) seeds.push_back(from_file(read_file(corpus + "/" + name)));
    Bytes known = read_file(corpus + "/.outcomes");
    for (size_t i = 0; i + 8 <= known.size(); i += 8) {
      uint64_t h;
      memcpy(&h, known.data() + i, 8);
      outcomes.insert(h);
    }
  }
  double start = now(), until = start + atof(argv[1]), next_word = start + 1;
  for (current_index = atol(argv[2]); now() < until; ++current_index) {
    Rng rng(static_cast<uint64_t>(current_index));
    current = make(seeds, rng);
    if (run(current) && corpus != "-") write_file(corpus + "/" + std::to_string(current_index), to_file(current));
    recent.push_back(std::move(current));
    if (recent.size() == kLeakSessions) look_for_leaks(argv[0]);
    if (now() > next_word) tell(""), next_word = now() + 1;
  }
  if (corpus != "-") {
    Bytes known;
    for (uint64_t h : outcomes) known.insert(known.end(), reinterpret_cast<uint8_t*>(&h), reinterpret_cast<uint8_t*>(&h) + 8);
    write_file(corpus + "/.outcomes", known);
  }
  look_for_leaks(argv[0]);
  tell(" end");
  return 0;
}
