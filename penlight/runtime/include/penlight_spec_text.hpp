// What penlight_spec.hpp reads specs with: words for messages, dim expressions, decimal numbers to the bit. Not for others to include.
#ifndef PENLIGHT_SPEC_TEXT_HPP_
#define PENLIGHT_SPEC_TEXT_HPP_

// In an app for Apple's systems it lies in the framework, which is a module: there it must come from nowhere else.
#if __has_include(<Penlight/penlight.h>)
#include <Penlight/penlight.h>
#else
#include "penlight.h"
#endif

namespace penlight {
namespace spec_text {

constexpr uint32_t kDimDepthLimit = 64;

struct Words {
  char* out;
  size_t size, used;
  Words& add(const char* text) { return add(text, __builtin_strlen(text)); }
  Words& add(const char* text, size_t bytes) {
    for (size_t i = 0; i < bytes && used + 1 < size; ++i) out[used++] = text[i];
    if (size) out[used < size ? used : size - 1] = 0;
    return *this;
  }
  Words& add(int64_t value) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - uint64_t(value) : uint64_t(value);
    do digits[--at] = char('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) digits[--at] = '-';
    return add(digits + at, sizeof digits - at);
  }
};

// A dim expression: integers, in<input>_<dim>, + - * // %, max(a, b), min(a, b), parentheses; as Python computes it. Without inputs
// it is read only.
struct DimReader {
  const char* at;
  const pen_tensor* inputs;
  int32_t input_count;
  const char* problem;
  uint32_t depth;

  int64_t fail(const char* words) {
    if (!problem) problem = words;
    return 0;
  }
  void skip() {
    while (*at == ' ') ++at;
  }
  bool takes(const char* word) {
    skip();
    size_t n = __builtin_strlen(word);
    if (__builtin_strncmp(at, word, n) != 0) return false;
    at += n;
    return true;
  }
  int64_t all() {
    int64_t value = sum();
    skip();
    return !problem && *at ? fail("a dim expression goes on where it should end") : value;
  }
  int64_t checked(char op, int64_t a, int64_t b) {
    int64_t value = 0;
    bool over = op == '+' ? __builtin_add_overflow(a, b, &value) : op == '-' ? __builtin_sub_overflow(a, b, &value) : false;
    if (op == '*') over = __builtin_mul_overflow(a, b, &value);
    if (op == '/' || op == '%') {
      if (!inputs || problem) return 0;
      if (b == 0) return fail("a dim expression divides by 0");
      if (b == -1) return op == '%' ? 0 : checked('-', 0, a);
      bool down = a % b != 0 && (a < 0) != (b < 0);  // Python rounds down
      value = op == '/' ? a / b - down : a % b + (down ? b : 0);
    }
    return over ? fail("a dim expression is over 64 bits") : value;
  }
  int64_t sum() {
    if (++depth > kDimDepthLimit) return fail("a dim expression nests too deep");
    int64_t value = product();
    while (!problem) {
      if (takes("+"))
        value = checked('+', value, product());
      else if (takes("-"))
        value = checked('-', value, product());
      else
        break;
    }
    --depth;
    return value;
  }
  int64_t product() {
    int64_t value = factor();
    while (!problem) {
      if (takes("//"))
        value = checked('/', value, factor());
      else if (takes("*"))
        value = checked('*', value, factor());
      else if (takes("%"))
        value = checked('%', value, factor());
      else
        break;
    }
    return value;
  }
  int64_t factor() {
    bool minus = false;
    while (takes("-")) minus = !minus;
    int64_t value = atom();
    return minus ? checked('-', 0, value) : value;
  }
  int64_t atom() {
    bool most = takes("max("), least = !most && takes("min(");
    if (most || least || takes("(")) {
      int64_t a = sum(), b = a;
      if ((most || least) && !problem) {
        if (!takes(",")) return fail("max and min in a dim expression take two values");
        b = sum();
      }
      if (!problem && !takes(")")) return fail("a dim expression lacks a closing parenthesis");
      return most ? (a > b ? a : b) : (a < b ? a : b);
    }
    if (takes("in")) {
      int64_t input = digits();
      if (problem || *at != '_') return fail("sizes of inputs in a dim expression are named in<input>_<dim>");
      ++at;
      int64_t axis = digits();
      if (!inputs || problem) return 0;
      if (input >= input_count || axis >= inputs[input].rank) return fail("a dim expression names a size that no input has");
      return inputs[input].dims[axis];
    }
    return digits();
  }
  int64_t digits() {
    if (*at < '0' || *at > '9') return fail("a dim expression has a letter or sign that has no meaning there");
    int64_t value = 0;
    for (; !problem && *at >= '0' && *at <= '9'; ++at) value = checked('+', checked('*', value, 10), *at - '0');
    return value;
  }
};

// A whole number of up to 1,536 bits, for decimal().
struct Big {
  uint32_t words[48] = {};
  void times(uint32_t factor) {
    uint64_t carry = 0;
    for (uint32_t& w : words) {
      carry += uint64_t(w) * factor;
      w = uint32_t(carry);
      carry >>= 32;
    }
  }
  void double_often(int32_t times_) {
    for (; times_ >= 31; times_ -= 31) times(1u << 31);
    if (times_ > 0) times(1u << times_);
  }
  void halve() {
    for (int i = 0; i < 48; ++i) words[i] = words[i] >> 1 | (i < 47 ? words[i + 1] << 31 : 0);
  }
  int32_t bits() const {
    int i = 47;
    while (i > 0 && !words[i]) --i;
    return 32 * i + (words[i] ? 32 - __builtin_clz(words[i]) : 0);
  }
  bool take(const Big& other) {  // subtracts it where it is not greater
    for (int i = 47; i >= 0; --i) {
      if (words[i] > other.words[i]) break;
      if (words[i] < other.words[i]) return false;
    }
    int64_t borrow = 0;
    for (int i = 0; i < 48; ++i) {
      borrow += int64_t(words[i]) - other.words[i];
      words[i] = uint32_t(borrow);
      borrow >>= 32;
    }
    return true;
  }
};

// digits * 10^exponent, rounded as Python rounds it, so that a caller's constant is the captured one to the bit. (strtod would ask the
// program's locale what a decimal point is.)
inline double decimal(uint64_t digits, int64_t exponent) {
  if (digits == 0 || exponent < -345) return 0;
  if (exponent > 310) return __builtin_inf();
  Big num, den;
  num.words[0] = uint32_t(digits), num.words[1] = uint32_t(digits >> 32), den.words[0] = 1;
  for (int64_t i = exponent; i > 0; --i) num.times(10);
  for (int64_t i = exponent; i < 0; ++i) den.times(10);
  int32_t shift = 55 - (num.bits() - den.bits());  // the quotient has 55 or 56 bits then
  num.double_often(shift);
  den.double_often(-shift);
  uint64_t quotient = 0;
  den.double_often(56);
  for (int i = 56; i >= 0; --i, den.halve()) quotient |= uint64_t(num.take(den)) << i;
  int32_t bits = 64 - __builtin_clzll(quotient), top = bits - 1 - shift;
  int32_t drop = bits - (top >= -1022 ? 53 : 53 + 1022 + top);
  if (drop > bits) return 0;
  uint64_t half = uint64_t(1) << (drop - 1), rest = quotient & (2 * half - 1), kept = quotient >> drop;
  if (rest > half || (rest == half && (num.bits() || (kept & 1)))) ++kept;
  int64_t biased = top >= -1022 ? drop - shift + 52 + 1023 : 1;  // of a kept value with 53 bits; a carry moves it up by itself
  uint64_t pattern = kept + (uint64_t(biased - 1) << 52);
  if (pattern >> 52 >= 2047) return __builtin_inf();
  double value;
  __builtin_memcpy(&value, &pattern, sizeof value);
  return value;
}

}  // namespace spec_text
}  // namespace penlight

#endif  // PENLIGHT_SPEC_TEXT_HPP_
