// einsum of the VM: operands are taken in one by one, each as a batched product of matrices over the letters that end there.
#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/flat.h"

namespace pen {

namespace {

// Letters are numbers: a-z 0 …, A-Z 26 …, and the dims of "..." from the last one on: 52, 53, …
constexpr int kLetters = 52 + kMaxRank, kEllipsis = -2, kMaxSubscripts = 64;

struct Subscripts {
  int list[kMaxSubscripts];
  int count = 0;
};

int letter_of(char ch) { return ch >= 'a' && ch <= 'z' ? ch - 'a' : ch >= 'A' && ch <= 'Z' ? 26 + ch - 'A' : -1; }

// Up to `end`; -2 stands for "...".
Status parse(const Call& c, const char** at, char end, Subscripts* to) {
  *to = {};
  for (; **at && **at != end && !(end == ',' && **at == '-'); ++*at) {
    char ch = **at;
    if (ch == ' ') continue;
    int letter = letter_of(ch);
    if (ch == '.') {
      if ((*at)[1] != '.' || (*at)[2] != '.') return c.fail("an equation with \"...\"", "a single dot");
      for (int i = 0; i < to->count; ++i)
        if (to->list[i] == kEllipsis) return c.fail("one \"...\" for an operand", "two");
      *at += 2;
      letter = kEllipsis;
    } else if (letter < 0) {
      return c.fail("an equation of letters, \"...\", commas and \"->\"", "'%c'", ch);
    }
    if (to->count == kMaxSubscripts) return c.fail("at most 64 subscripts of an operand", "more");
    to->list[to->count++] = letter;
  }
  return PEN_OK;
}

struct Operand {
  Value tensor;
  Subscripts letters;  // one for each dim, all different
};

// A view with one dim for each letter: "..." is written out, a letter that comes twice is a diagonal.
Status bring_in(const Call& c, const Value& v, const Subscripts& given, Operand* to) {
  const TensorObject& x = *v.tensor();
  int named = 0;
  bool ellipsis = false;
  for (int i = 0; i < given.count; ++i) given.list[i] == kEllipsis ? ellipsis = true : ++named != 0;
  int rest = x.rank() - named;
  if (rest < 0 || (rest > 0 && !ellipsis)) return c.fail("a subscript for each dim of the operand", "%d for rank %d", named, x.rank());
  int64_t dims[kMaxRank], strides[kMaxRank];
  int d = 0;
  to->letters = {};
  auto add = [&](int letter) {
    int64_t size = x.dim(d), stride = x.shape.strides[d];
    ++d;
    for (int k = 0; k < to->letters.count; ++k) {
      if (to->letters.list[k] != letter) continue;
      if (dims[k] != size) return false;
      strides[k] += stride;
      return true;
    }
    dims[to->letters.count] = size;
    strides[to->letters.count] = stride;
    to->letters.list[to->letters.count++] = letter;
    return true;
  };
  bool fits = true;
  for (int i = 0; i < given.count; ++i)
    if (given.list[i] == kEllipsis)
      for (int k = 0; k < rest; ++k) fits &= add(52 + rest - 1 - k);
    else
      fits &= add(given.list[i]);
  if (!fits) return c.fail("equal sizes of dims with one letter", "others");
  to->tensor = Value::own(tensor_view(x, to->letters.count, dims, strides, x.offset));
  return to->tensor.is_none() ? c.out_of_memory() : PEN_OK;
}

int find(const Subscripts& s, int letter) {
  for (int i = 0; i < s.count; ++i)
    if (s.list[i] == letter) return i;
  return -1;
}

// Sums the dims of letters that `needed` does not name.
void sum_lost(Calls& t, Operand* o, const bool* needed) {
  int64_t dims[kMaxRank];
  int n = 0;
  Subscripts left;
  for (int i = 0; i < o->letters.count; ++i)
    if (needed[o->letters.list[i]])
      left.list[left.count++] = o->letters.list[i];
    else
      dims[n++] = i;
  if (n == 0) return;
  Value source = o->tensor;
  const TensorObject& x = *source.tensor();
  o->tensor = t("aten::sum.dim_IntList", source, t.ints_of(dims, n), false, code_of_dtype(x.dtype()));
  o->letters = left;
}

// [shared, own, contracted] of one side, reshaped to three dims.
Value as_matrices(Calls& t, const Operand& o, const int* shared, int shared_count, const int* own, int own_count, const int* over,
                  int over_count, bool turned) {
  const TensorObject& x = *o.tensor.tensor();
  int64_t order[kMaxRank], sizes[3] = {1, 1, 1};
  int n = 0;
  auto add = [&](const int* letters, int count, int64_t* size) {
    for (int i = 0; i < count; ++i) {
      int d = find(o.letters, letters[i]);
      order[n++] = d;
      *size *= x.dim(d);
    }
  };
  add(shared, shared_count, &sizes[0]);
  add(turned ? over : own, turned ? over_count : own_count, &sizes[1]);
  add(turned ? own : over, turned ? own_count : over_count, &sizes[2]);
  return t("aten::reshape", t("aten::permute", o.tensor, t.ints_of(order, n)), t.ints_of(sizes, 3));
}

Status multiply(const Call& c, Calls& t, Operand* a, Operand* b, const bool* needed) {
  int shared[kMaxRank], own_a[kMaxRank], own_b[kMaxRank], over[kMaxRank], n[4] = {0, 0, 0, 0};
  int64_t dims[kMaxRank];
  // A dim of size 1 that the other side has larger is broadcast: it is dropped here.
  Operand* both[] = {a, b};
  for (int s = 0; s < 2; ++s) {
    Operand &o = *both[s], &other = *both[1 - s];
    int64_t left[kMaxRank], strides[kMaxRank];
    Subscripts letters;
    const TensorObject& x = *o.tensor.tensor();
    for (int i = 0; i < o.letters.count; ++i) {
      int at = find(other.letters, o.letters.list[i]);
      int64_t theirs = at < 0 ? -1 : other.tensor.tensor()->dim(at);
      if (x.dim(i) == 1 && theirs > 1) continue;
      if (theirs >= 0 && theirs != 1 && theirs != x.dim(i))
        return c.fail("equal sizes of dims with one letter", "%lld and %lld", static_cast<long long>(x.dim(i)),
                      static_cast<long long>(theirs));
      left[letters.count] = x.dim(i);
      strides[letters.count] = x.shape.strides[i];
      letters.list[letters.count++] = o.letters.list[i];
    }
    if (letters.count == o.letters.count) continue;
    Value view = Value::own(tensor_view(x, letters.count, left, strides, x.offset));
    if (view.is_none()) return c.out_of_memory();
    o.tensor = static_cast<Value&&>(view);
    o.letters = letters;
  }
  for (int i = 0; i < a->letters.count; ++i) {
    int letter = a->letters.list[i];
    bool common = find(b->letters, letter) >= 0;
    if (common && needed[letter])
      shared[n[0]++] = letter;
    else if (common)
      over[n[3]++] = letter;
    else
      own_a[n[1]++] = letter;
  }
  for (int i = 0; i < b->letters.count; ++i)
    if (find(a->letters, b->letters.list[i]) < 0) own_b[n[2]++] = b->letters.list[i];
  if (n[0] + n[1] + n[2] > kMaxRank) return c.fail("results of rank 8 at most on the way", "%d", n[0] + n[1] + n[2]);
  Value x = as_matrices(t, *a, shared, n[0], own_a, n[1], over, n[3], false),
        y = as_matrices(t, *b, shared, n[0], own_b, n[2], over, n[3], true);
  Operand made;
  auto add = [&](const Operand& o, const int* letters, int count) {
    for (int i = 0; i < count; ++i) {
      dims[made.letters.count] = o.tensor.tensor()->dim(find(o.letters, letters[i]));
      made.letters.list[made.letters.count++] = letters[i];
    }
  };
  add(*a, shared, n[0]);
  add(*a, own_a, n[1]);
  add(*b, own_b, n[2]);
  made.tensor = t("aten::reshape", t("aten::bmm", x, y), t.ints_of(dims, made.letters.count));
  PEN_TRY(t.status);
  *a = static_cast<Operand&&>(made);
  return PEN_OK;
}

}  // namespace

PEN_OP(einsum, "aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor") {
  const ListObject& operands = c.list(1);
  if (operands.count < 1 || operands.count > 32) return c.fail("1 to 32 operands", "%lld", static_cast<long long>(operands.count));
  const char* at = c.text(0);
  Operand given[32];
  int widest = 0, seen[kLetters] = {};
  for (int64_t i = 0; i < operands.count; ++i) {
    Subscripts s;
    if (i > 0) {
      if (*at != ',') return c.fail("an equation with as many parts as operands", "fewer");
      ++at;
    }
    PEN_TRY(parse(c, &at, ',', &s));
    PEN_TRY(bring_in(c, operands.items[i], s, &given[i]));
    for (int k = 0; k < s.count; ++k)
      if (s.list[k] >= 0) ++seen[s.list[k]];
    for (int k = 0; k < given[i].letters.count; ++k)
      if (given[i].letters.list[k] >= 52 && given[i].letters.list[k] - 51 > widest) widest = given[i].letters.list[k] - 51;
  }
  if (*at == ',') return c.fail("an equation with as many parts as operands", "more");
  Subscripts out;
  if (*at == '-') {
    if (at[1] != '>') return c.fail("\"->\" before the result", "'-' alone");
    at += 2;
    Subscripts s;
    PEN_TRY(parse(c, &at, '\0', &s));
    for (int i = 0; i < s.count; ++i) {
      if (s.list[i] != kEllipsis && (!seen[s.list[i]] || find(out, s.list[i]) >= 0))
        return c.fail("each letter of the result once, and from the operands", "another");
      for (int k = widest - 1; s.list[i] == kEllipsis && k >= 0; --k) out.list[out.count++] = 52 + k;
      if (s.list[i] != kEllipsis) out.list[out.count++] = s.list[i];
    }
  } else {  // all letters that come once, in order of the alphabet (capitals first), after the dims of "..."
    for (int k = widest - 1; k >= 0; --k) out.list[out.count++] = 52 + k;
    for (int k = 0; k < 52; ++k)
      if (int letter = (k + 26) % 52; seen[letter] == 1) out.list[out.count++] = letter;
  }
  if (out.count > kMaxRank) return c.fail("a result of rank 8 at most", "%d", out.count);
  Calls t(c);
  Operand all = given[0];
  for (int64_t i = 0; i < operands.count; ++i) {
    bool needed[kLetters] = {};  // by the result and by what is still to come
    for (int k = 0; k < out.count; ++k) needed[out.list[k]] = true;
    for (int64_t j = i + 1; j < operands.count; ++j)
      for (int k = 0; k < given[j].letters.count; ++k) needed[given[j].letters.list[k]] = true;
    if (i == 0) {
      sum_lost(t, &all, needed);
    } else {
      bool mine[kLetters] = {};
      for (int k = 0; k < kLetters; ++k) mine[k] = needed[k] || find(all.letters, k) >= 0;
      sum_lost(t, &given[i], mine);
      PEN_TRY(t.status);
      PEN_TRY(multiply(c, t, &all, &given[i], needed));
      sum_lost(t, &all, needed);
    }
    PEN_TRY(t.status);
  }
  int64_t order[kMaxRank];
  for (int k = 0; k < out.count; ++k) {
    order[k] = find(all.letters, out.list[k]);
    if (order[k] < 0) return c.fail("letters of the result in the operands", "another");
  }
  Value made = t("aten::permute", all.tensor, t.ints_of(order, out.count));
  return t.give(c, static_cast<Value&&>(made));
}

}  // namespace pen
