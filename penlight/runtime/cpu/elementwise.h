// The loops around elementwise rules: generated files (build/elementwise.py) instantiate them, once per instruction set,
// into row functions (RowFn in exec/kernel.h). f32 rules run on vectors; rows of any other dtypes are plain loops, in
// which the storage classes below say how an element is read and written.
// Tails: partial loads and stores, so the same code computes every element, wherever a row is cut.
#pragma once
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/arithmetic.h"

namespace pen {

// Of every elementwise operator; defined in elementwise.cc.
PEN_SMALL Status elementwise_shape(Shapes& s);
PEN_SMALL Status elementwise_bind(Bind& b);
void elementwise_run(const Run& r);

namespace PEN_ISA {

// --- f32: vectors ----------------------------------------------------------------------------------------------
struct Dense {
  const float* p;
  PEN_INLINE V at(int64_t i) const { return load(p + i); }
  PEN_INLINE V tail(int64_t i, int64_t n) const { return load_partial(p + i, n); }
};
struct Splat {
  V v;
  PEN_INLINE V at(int64_t) const { return v; }
  PEN_INLINE V tail(int64_t, int64_t) const { return v; }
};

template <class Rule, class... Inputs>
static PEN_INLINE void vector_span(const Rule& rule, float* out, int64_t n, Inputs... in) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, rule(in.at(i)...));
  if (i < n) store_partial(out + i, rule(in.tail(i, n - i)...), n - i);
}

template <int... kInput>
struct Inputs {};  // their numbers

// Inputs that are neither dense nor one number are gathered into a buffer first, kGather elements at a time.
constexpr int64_t kGather = 256;
static PEN_INLINE const float* gather(float* buffer, const float* p, int64_t step, int64_t n) {
  if (step == 1) return p;
  for (int64_t i = 0; i < n; ++i) buffer[i] = p[i * step];
  return buffer;
}

// `row` over inputs made dense, for all rules alike: their own code is there once, and begins without making room for buffers.
static __attribute__((noinline, unused)) void gathered_row(RowFn row, int inputs, void* out, const void* const* in, const int64_t* steps,
                                                           int64_t n, const double* args) {
  float buffers[3][kGather];
  const int64_t dense[3] = {1, 1, 1};
  for (int64_t i = 0; i < n; i += kGather) {
    const int64_t count = n - i < kGather ? n - i : kGather;
    const void* gathered[3];
    for (int k = 0; k < inputs; ++k) gathered[k] = gather(buffers[k], static_cast<const float*>(in[k]) + i * steps[k], steps[k], count);
    row(static_cast<float*>(out) + i, gathered, dense, count, args);
  }
}

template <class Rule>
static void vector_row1(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  if (steps[0] != 1) return gathered_row(vector_row1<Rule>, 1, out, in, steps, n, args);
  vector_span(Rule(args), static_cast<float*>(out), n, Dense{static_cast<const float*>(in[0])});
}

template <class Rule>
static void vector_row2(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  const Rule rule(args);
  float* y = static_cast<float*>(out);
  const float *a = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]);
  if (n <= 0) return;
  if (steps[0] == 1 && steps[1] == 1) return vector_span(rule, y, n, Dense{a}, Dense{b});
  if (steps[0] == 1 && steps[1] == 0) return vector_span(rule, y, n, Dense{a}, Splat{set1(*b)});
  if (steps[0] == 0 && steps[1] == 1) return vector_span(rule, y, n, Splat{set1(*a)}, Dense{b});
  gathered_row(vector_row2<Rule>, 2, out, in, steps, n, args);
}

template <class Rule>
static void vector_row3(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  const Rule rule(args);
  float* y = static_cast<float*>(out);
  const float *a = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]), *c = static_cast<const float*>(in[2]);
  if (n <= 0) return;
  if (steps[0] == 1 && steps[1] == 1 && steps[2] == 0) return vector_span(rule, y, n, Dense{a}, Dense{b}, Splat{set1(*c)});
  if (steps[0] == 1 && steps[1] == 1 && steps[2] == 1) return vector_span(rule, y, n, Dense{a}, Dense{b}, Dense{c});
  gathered_row(vector_row3<Rule>, 3, out, in, steps, n, args);
}

// Rules of many instructions: one copy of them, for whole vectors and the tail, whether an input is dense or one number. That is read
// again and again from a buffer; next to such a rule, neither this nor asking whether a vector is whole takes time.
static PEN_INLINE const float* dense_or_splat(const void* in, int64_t step, float* splat) {
  const float* p = static_cast<const float*>(in);
  if (step != 0) return p;
  store(splat, set1(*p));
  return splat;
}
template <class Rule, int... kInput>
static PEN_INLINE void long_span(const Rule& rule, float* y, const void* const* in, const int64_t* steps, int64_t n, Inputs<kInput...>) {
  float splats[sizeof...(kInput)][kLanes];
  const float* p[] = {dense_or_splat(in[kInput], steps[kInput], splats[kInput])...};
  const int64_t step[] = {steps[kInput] * kLanes...};
  for (; n > 0; n -= kLanes, y += kLanes) {
    const bool whole = n >= kLanes;
    const V result = rule((whole ? load(p[kInput]) : load_partial(p[kInput], n))...);
    whole ? store(y, result) : store_partial(y, result, n);
    ((p[kInput] += step[kInput]), ...);
  }
}
template <class Rule, int... kInput>
static PEN_INLINE void long_row(RowFn own, void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args,
                                Inputs<kInput...> inputs) {
  if (n <= 0) return;
  if (((steps[kInput] != 1 && steps[kInput] != 0) || ...)) return gathered_row(own, sizeof...(kInput), out, in, steps, n, args);
  long_span(Rule(args), static_cast<float*>(out), in, steps, n, inputs);
}
template <class Rule>
static void long_row1(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  long_row<Rule>(long_row1<Rule>, out, in, steps, n, args, Inputs<0>());
}
template <class Rule>
static void long_row2(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  long_row<Rule>(long_row2<Rule>, out, in, steps, n, args, Inputs<0, 1>());
}
template <class Rule>
static void long_row3(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  long_row<Rule>(long_row3<Rule>, out, in, steps, n, args, Inputs<0, 1, 2>());
}

// --- other dtypes: numbers -------------------------------------------------------------------------------------
// Floats to integers are cut towards zero. What does not fit has no value in the language: give what x86 and so torch
// give there, the least number, of which the short types keep the low bits.
static PEN_INLINE int64_t to_int64(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? static_cast<int64_t>(x) : INT64_MIN;
}
static PEN_INLINE int32_t to_int32(double x) { return x > -2147483649.0 && x < 2147483648.0 ? static_cast<int32_t>(x) : INT32_MIN; }

template <class T>
struct Number {  // a dtype whose elements the language has
  using Element = T;
  static PEN_INLINE T load(const T* p) { return *p; }
  template <class X>
  static PEN_INLINE T stored(X x) {
    if constexpr (kIsFloat<X> && !kIsFloat<T>)
      return static_cast<T>(sizeof(T) == 8 ? to_int64(x) : to_int32(x));
    else
      return static_cast<T>(x);
  }
};
using F32 = Number<float>;
using F64 = Number<double>;
using I8 = Number<int8_t>;
using U8 = Number<uint8_t>;
using I16 = Number<int16_t>;
using I32 = Number<int32_t>;
using I64 = Number<int64_t>;

struct Bool {
  using Element = uint8_t;
  static PEN_INLINE uint8_t load(const uint8_t* p) { return *p < 1 ? *p : 1; }  // compilers know a vector form of this
  template <class X>
  static PEN_INLINE uint8_t stored(X x) {
    return x != static_cast<X>(0);
  }
};
struct Truth {  // bool that becomes a number: of an int compilers know vector forms
  using Element = uint8_t;
  static PEN_INLINE int32_t load(const uint8_t* p) { return *p < 1 ? *p : 1; }
};
struct Condition {  // bool, for a rule's `condition`
  using Element = uint8_t;
  static PEN_INLINE bool load(const uint8_t* p) { return *p != 0; }
};

static PEN_INLINE uint32_t float_word(float f) {
  uint32_t word;
  __builtin_memcpy(&word, &f, 4);
  return word;
}
static PEN_INLINE float word_float(uint32_t word) {
  float f;
  __builtin_memcpy(&f, &word, 4);
  return f;
}

struct F16 {
  using Element = uint16_t;
  // Exponent and mantissa shifted into place stand for a number 2^112 too small, normal or not: one product mends it.
  static PEN_INLINE float load(const uint16_t* p) {
    uint32_t h = *p, magnitude = (h & 0x7fffu) << 13;
    float scaled = word_float(magnitude) * 5.192296858534828e33f;
    uint32_t word = magnitude >= (0x7c00u << 13) ? magnitude | 0x7f800000u : float_word(scaled);  // inf and NaN
    return word_float(word | (h & 0x8000u) << 16);
  }
  // Nearest, ties to even. Normal results round in the integer sum; for denormal ones, adding 1/2 puts the bits that
  // remain at the end of a float, whose own rounding is the one wanted.
  template <class X>
  static PEN_INLINE uint16_t stored(X x) {
    uint32_t word = float_word(static_cast<float>(x)), sign = word >> 16 & 0x8000u, magnitude = word & 0x7fffffffu, half;
    uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
    uint32_t denormal = float_word(word_float(magnitude) + 0.5f) - 0x3f000000u;
    half = magnitude < 0x38800000u ? denormal : normal;  // below 2^-14
    half = magnitude < 0x477ff000u ? half : 0x7c00u;     // 65520 and up
    half = magnitude > 0x7f800000u ? 0x7e00u : half;
    return static_cast<uint16_t>(sign | half);
  }
};
struct BF16 {
  using Element = uint16_t;
  static PEN_INLINE float load(const uint16_t* p) { return word_float(static_cast<uint32_t>(*p) << 16); }
  template <class X>
  static PEN_INLINE uint16_t stored(X x) {
    uint32_t word = float_word(static_cast<float>(x));
    uint32_t rounded = (word + 0x7fffu + (word >> 16 & 1u)) >> 16;  // nearest, ties to even
    return static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
  }
};

// Rows of cheap rules go in chunks: a loop of constant length over what lies side by side is one that compilers turn into
// vector code. Inputs in other steps, and the end of a row, come through a buffer; what the end computes too much is dropped.
constexpr int64_t kChunk = 128;
// The output may be one of the inputs, element by element: no iteration reads what another has written.
#if defined(__clang__)
#define PEN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PEN_INDEPENDENT _Pragma("GCC ivdep")
#endif

// What a rule computes in one call: whole chunks, one after another.
struct Chunks {
  char* out;
  const char* in[3];
  int64_t steps[3];  // bytes from a chunk of an input to the next; 0: the same again
  int64_t count;
  const double* args;
};
using ChunksFn = void (*)(const Chunks& c);

template <class T>
static PEN_INLINE void fill_chunk(char* to, const void* in, int64_t at, int64_t step, int64_t n) {
  T* y = reinterpret_cast<T*>(to);
  const T* x = static_cast<const T*>(in) + at * step;
  for (int64_t k = 0; k < n; ++k) y[k] = x[k * step];
  for (int64_t k = n; k < kChunk; ++k) y[k] = x[0];
}
static __attribute__((noinline, unused)) void read_chunk(int size, char* to, const void* in, int64_t at, int64_t step, int64_t n) {
  if (size == 1) return fill_chunk<uint8_t>(to, in, at, step, n);
  if (size == 2) return fill_chunk<uint16_t>(to, in, at, step, n);
  if (size == 4) return fill_chunk<uint32_t>(to, in, at, step, n);
  fill_chunk<uint64_t>(to, in, at, step, n);
}

// A row in chunks, for all rules alike: their own code is what computes some. Sizes are those of elements, the output's first.
static __attribute__((noinline, unused)) void chunk_row(ChunksFn compute, int inputs, const uint8_t* sizes, void* out,
                                                        const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  alignas(64) char buffers[3][kChunk * 8], results[kChunk * 8];
  Chunks c = {};
  c.args = args;
  bool gathers = false;
  for (int k = 0; k < inputs && n > 0; ++k) {
    c.in[k] = steps[k] == 1 ? static_cast<const char*>(in[k]) : buffers[k];
    c.steps[k] = steps[k] == 1 ? kChunk * sizes[1 + k] : 0;
    if (steps[k] == 0) read_chunk(sizes[1 + k], buffers[k], in[k], 0, 0, 1);
    gathers |= steps[k] != 0 && steps[k] != 1;
  }
  for (int64_t i = 0; i < n; i += c.count * kChunk) {
    const int64_t left = n - i;
    c.count = left < kChunk || gathers ? 1 : left / kChunk;
    c.out = left < kChunk ? results : static_cast<char*>(out) + i * sizes[0];
    for (int k = 0; k < inputs; ++k) {
      bool buffered = steps[k] != 0 && (steps[k] != 1 || left < kChunk);
      if (buffered) read_chunk(sizes[1 + k], buffers[k], in[k], i, steps[k], left < kChunk ? left : kChunk);
      if (steps[k] == 1) c.in[k] = buffered ? buffers[k] : static_cast<const char*>(in[k]) + i * sizes[1 + k];
    }
    compute(c);
    if (left < kChunk) memcpy(static_cast<char*>(out) + i * sizes[0], results, static_cast<size_t>(left * sizes[0]));
  }
}

template <class Rule, class Out, class... Ins>
static PEN_INLINE void compute_chunk(const Rule& rule, char* to, const typename Ins::Element*... in) {
  auto out = reinterpret_cast<typename Out::Element*>(to);
  PEN_INDEPENDENT
  for (int64_t k = 0; k < kChunk; ++k) out[k] = Out::stored(rule(Ins::load(in + k)...));
}
template <class T>
static PEN_INLINE const typename T::Element* chunk_of(const Chunks& c, int input, int64_t i) {
  return reinterpret_cast<const typename T::Element*>(c.in[input] + i * c.steps[input]);
}
template <class Out>
static PEN_INLINE char* chunk_to(const Chunks& c, int64_t i) {
  return c.out + i * kChunk * static_cast<int64_t>(sizeof(typename Out::Element));
}

template <class Rule, class Out, class A>
static void chunks1(const Chunks& c) {
  const Rule rule(c.args);
  for (int64_t i = 0; i < c.count; ++i) compute_chunk<Rule, Out, A>(rule, chunk_to<Out>(c, i), chunk_of<A>(c, 0, i));
}
template <class Rule, class Out, class A, class B>
static void chunks2(const Chunks& c) {
  const Rule rule(c.args);
  for (int64_t i = 0; i < c.count; ++i)
    compute_chunk<Rule, Out, A, B>(rule, chunk_to<Out>(c, i), chunk_of<A>(c, 0, i), chunk_of<B>(c, 1, i));
}
template <class Rule, class Out, class A, class B, class C>
static void chunks3(const Chunks& c) {
  const Rule rule(c.args);
  for (int64_t i = 0; i < c.count; ++i)
    compute_chunk<Rule, Out, A, B, C>(rule, chunk_to<Out>(c, i), chunk_of<A>(c, 0, i), chunk_of<B>(c, 1, i), chunk_of<C>(c, 2, i));
}
template <class... T>
constexpr uint8_t kElementSizes[] = {sizeof(typename T::Element)...};

template <class Rule, class Out, class A>
static void chunk_row1(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  chunk_row(chunks1<Rule, Out, A>, 1, kElementSizes<Out, A>, out, in, steps, n, args);
}
template <class Rule, class Out, class A, class B>
static void chunk_row2(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  chunk_row(chunks2<Rule, Out, A, B>, 2, kElementSizes<Out, A, B>, out, in, steps, n, args);
}
template <class Rule, class Out, class A, class B, class C>
static void chunk_row3(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  chunk_row(chunks3<Rule, Out, A, B, C>, 3, kElementSizes<Out, A, B, C>, out, in, steps, n, args);
}

// All others: number by number.
template <class Rule, class Out, class A>
static void number_row1(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  const Rule rule(args);
  auto y = static_cast<typename Out::Element*>(out);
  auto a = static_cast<const typename A::Element*>(in[0]);
  const int64_t step = steps[0];
  for (int64_t i = 0; i < n; ++i) y[i] = Out::stored(rule(A::load(a + i * step)));
}
template <class Rule, class Out, class A, class B>
static void number_row2(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  const Rule rule(args);
  auto y = static_cast<typename Out::Element*>(out);
  auto a = static_cast<const typename A::Element*>(in[0]);
  auto b = static_cast<const typename B::Element*>(in[1]);
  const int64_t a_step = steps[0], b_step = steps[1];
  for (int64_t i = 0; i < n; ++i) y[i] = Out::stored(rule(A::load(a + i * a_step), B::load(b + i * b_step)));
}
template <class Rule, class Out, class A, class B, class C>
static void number_row3(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args) {
  const Rule rule(args);
  auto y = static_cast<typename Out::Element*>(out);
  auto a = static_cast<const typename A::Element*>(in[0]);
  auto b = static_cast<const typename B::Element*>(in[1]);
  auto c = static_cast<const typename C::Element*>(in[2]);
  const int64_t a_step = steps[0], b_step = steps[1], c_step = steps[2];
  for (int64_t i = 0; i < n; ++i) y[i] = Out::stored(rule(A::load(a + i * a_step), B::load(b + i * b_step), C::load(c + i * c_step)));
}

// --- f16 and f32: instructions where there are any -------------------------------------------------------------
[[maybe_unused]] static void f32_from_f16_row(void* out, const void* const* in, const int64_t* steps, int64_t n, const double*) {
  float* y = static_cast<float*>(out);
  const uint16_t* x = static_cast<const uint16_t*>(in[0]);
  int64_t i = 0;
  if (kHasF16 && steps[0] == 1) {
    for (; i + kLanes <= n; i += kLanes) store(y + i, load_f16(x + i));
  }
  for (; i < n; ++i) y[i] = F16::load(x + i * steps[0]);
}
[[maybe_unused]] static void f16_from_f32_row(void* out, const void* const* in, const int64_t* steps, int64_t n, const double*) {
  uint16_t* y = static_cast<uint16_t*>(out);
  const float* x = static_cast<const float*>(in[0]);
  int64_t i = 0;
  if (kHasF16 && steps[0] == 1) {
    for (; i + kLanes <= n; i += kLanes) store_f16(y + i, load(x + i));
  }
  for (; i < n; ++i) y[i] = F16::stored(x[i * steps[0]]);
}

}  // namespace PEN_ISA
}  // namespace pen
