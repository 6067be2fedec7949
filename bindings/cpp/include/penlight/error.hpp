// What calls give: a value, or an Error in words. No exceptions.
#ifndef PENLIGHT_ERROR_HPP_
#define PENLIGHT_ERROR_HPP_

#include <stdio.h>
#include <stdlib.h>

#include <optional>
#include <string>
#include <utility>

#include "penlight_spec.hpp"  // and with it penlight.h

namespace penlight {

struct Error {
  pen_status status = PEN_OK;
  std::string message;  // whole by itself; the rest are its parts, empty where they do not apply
  std::string op, tensor, expected, got, source;

  Error() = default;
  Error(pen_status status, std::string words) : status(status), message(std::move(words)) {}
  explicit Error(const pen_error& e)
      : status(pen_status(e.status)), message(e.message), op(e.op), tensor(e.tensor), expected(e.expected), got(e.got), source(e.source) {}
};

// A value, or an Error. To take the value of one that has none ends the program, with the error's words.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) {}
  explicit operator bool() const { return value_.has_value(); }
  const Error& error() const { return error_; }
  T& operator*() & { return there(); }
  T&& operator*() && { return std::move(there()); }
  T* operator->() { return &there(); }

 private:
  T& there() {
    if (value_) return *value_;
    fprintf(stderr, "penlight: the result of a call that failed was used: %s\n", error_.message.c_str());
    abort();
  }
  std::optional<T> value_;
  Error error_;
};

struct Done {};
using Status = Result<Done>;  // of what gives nothing but may fail

}  // namespace penlight

#endif  // PENLIGHT_ERROR_HPP_
