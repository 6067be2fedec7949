// The contract between an operator of the VM ("aten::add.Tensor") and the machine that calls it.
//
//   PEN_OP(add_tensor, "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
//          "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)") {
//     …
//     return c.give(result);
//   }
//
// The schemas are torch's. Before the function is called, the machine has filled in defaults and proven that every argument
// is of the kind its schema says: a Tensor is a tensor, an int[] a list of ints only, whatever the file did. An int where a
// float is expected has been converted. build/generate.py finds these lines and writes the table of operators.
//
// Where the schema says that the result is an argument written in place, "Tensor(a!)", the function only computes the result:
// the machine copies it into that argument (cast, checked for shape and for torch's rules of casting) and returns that one. A
// function that writes by itself (copy_, append) says so before its schemas: PEN_OP(append, "[direct]", "aten::append.t(…)").
// Of an out= form every result is copied into its out argument, which may have another shape.
// Quantized tensors are refused unless the operator says "[quantized]" ("[direct][quantized]": both). One that says "[nhwc]" takes
// images that lie so underneath, reads them by memory_of() only, and may give such (images.h). One that goes through a part of its text
// only says "[counts]" and does that itself (Call::walk); else all of it is counted before. "[in_place]" and "[out]"
// add those forms of each schema, and "aten::conv{1,2,3}d(…)" is one schema for each word (ops/vm_operators.py). Call::form()
// says by which of the schemas the function was called, Call::word() by which of the words.
//
// Errors are words: `return c.fail("a tensor of rank 3", "rank %d", rank)`. They name the operator and its source line.
#pragma once
#include "penlight/runtime/base/error.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/vm/tensor.h"

namespace pen {

enum class Kind : uint8_t {
  any,
  tensor,
  integer,
  real,
  boolean,
  string,
  number,
  list,
  integers,
  reals,
  booleans,
  tensors,
  strings,
  dict,
  tuple,
  object
};

// The generated table of operators has no pointers, as that of kernels (exec/kernel.h).
extern const char kOperatorText[];
struct OperatorText {
  uint32_t at;
  operator const char*() const { return kOperatorText + at; }
  const char* text() const { return kOperatorText + at; }
};
struct OperatorText16 {  // the text begins with what these tell
  uint16_t at;
  operator const char*() const { return kOperatorText + at; }
  const char* text() const { return kOperatorText + at; }
};
extern const int64_t kDefaultIntegers[];
extern const double kDefaultReals[];

struct Param {  // thousands of them: as short as can be
  OperatorText16 name;
  uint16_t value;  // the default's place: in kDefaultIntegers, kDefaultReals, or kOperatorText (a string; a list of ints: "1,1")
  Kind kind;
  bool optional : 1;  // None is allowed; in a list of tensors: as an element
  bool has_default : 1;
  Tag default_tag : 6;
};
extern const Param kParams[];

struct Machine;
struct Waiting;
struct Call;
using OpFn = Status (*)(Call& c);

// What an elementwise operator of the VM knows of its rule. Takes: what torch accepts (`of` in ops/elementwise/rules.py).
enum class Takes : uint8_t { any, floats, alike, quotients, numbers, integers, wholes, counts };
struct OpRule {
  OperatorText kernel, on_bool;  // on_bool: the kernel for bools, if it is another one; else ""
  Takes takes;
  uint8_t operands, attrs;  // the arguments: tensors or numbers, then attributes
  bool makes_floats;        // of integers
  bool has_condition;       // operand 0
  bool exact;               // numbers are not rounded to the dtype of a half float first
  bool divides;             // no integer by 0
};

extern const OpRule kRules[];
OpFn operator_function(int number);

struct OpEntry {         // thousands of them too; ops/vm_operators.py sees to it that numbers fit
  OperatorText name;     // "aten::add.Tensor"
  uint16_t function;     // operator_function
  uint16_t first_param;  // in kParams
  int16_t more;          // from 0 up: in kRules, of an elementwise operator; from -2 down: see whole(); -1: neither
  uint16_t param_count : 6;
  uint16_t outs : 4;  // how many of the last arguments are out=, results being copied into them one by one
  uint16_t result_count : 4;
  uint16_t variadic : 1;   // takes any number of further arguments
  uint16_t quantized : 1;  // takes quantized tensors
  int8_t writes : 7;       // the argument that result 0 is copied into by the machine; -1: none
  uint8_t counts : 1;      // goes through a part of its strings only, and counts that itself
  uint8_t form : 7;        // which of the PEN_OP's schemas this is
  uint8_t nhwc : 1;        // takes images that lie so underneath
  uint8_t word : 4;        // and which of the words in its braces
  uint8_t options_at : 4;  // with whole(): where dtype stands among the arguments

  OpFn run() const { return operator_function(function); }
  const Param& param(int i) const { return kParams[first_param + i]; }
  const OpRule* rule() const { return more < 0 ? nullptr : &kRules[more]; }
  // Of an out= form whose function takes dtype, layout, device and pin_memory, and no out: the operator as that knows it; else null.
  const OpEntry* whole() const;
};
static_assert(sizeof(OpEntry) == 16, "no padding between its parts");
extern const OpEntry kOperators[];  // sorted by name
extern const int kOperatorCount;
const OpEntry* find_operator(const char* name);
extern const OpEntry kWholes[];
inline const OpEntry* OpEntry::whole() const { return more > -2 ? nullptr : &kWholes[-2 - more]; }

struct Call {
  Machine* machine;
  const OpEntry* op;
  const Value* args;  // param_count of them; a variadic operator's may be more
  int count;
  Value* results;                      // result_count of them, None at first
  bool nhwc = false;                   // images among the results may lie so underneath
  const Waiting* finishing = nullptr;  // the call was made before and has waited: this is what it became

  int form() const { return op->form; }
  int word() const { return op->word; }
  int inputs() const { return op->param_count - op->outs; }  // how many arguments its schema has before out=
  bool given(int i) const { return i < count && !args[i].is_none(); }
  TensorObject& tensor(int i) const { return *args[i].tensor(); }
  int64_t integer(int i) const { return args[i].integer(); }
  double number(int i) const { return args[i].number(); }  // of a float, or of any Scalar
  bool flag(int i) const { return args[i].boolean(); }
  const char* text(int i) const { return args[i].string()->text; }
  ListObject& list(int i) const { return *args[i].list(); }
  DictObject& dict(int i) const { return *args[i].dict(); }
  // An int[]; at most `most` of them are copied. The list's length. A None gives 0.
  int ints(int i, int64_t* to, int most) const;

  // A dim, counted from the end where negative; of rank 0, dims 0 and -1 exist.
  Status dim(int i, int rank, int* to) const;
  Status dim(int64_t dim, int rank, int* to) const;
  // torch's number of a dtype. None: `otherwise`. Quantized dtypes are those of their integers; complex ones are refused.
  Status dtype(int i, DType otherwise, DType* to) const;

  // The result (numbered from 0). Null means that there was no memory.
  template <class T>
  Status give(T* object, int result = 0) {
    if (!object) return out_of_memory();
    results[result] = Value::own(object);
    return PEN_OK;
  }
  Status give(Value&& value, int result = 0) {
    results[result] = static_cast<Value&&>(value);
    return PEN_OK;
  }
  Status give(bool value) { return give(Value(value)); }
  Status give(int64_t value) { return give(Value(value)); }
  Status give(double value) { return give(Value(value)); }
  Status out_of_memory() const;
  // Before work on so many elements: an error where that is over the caller's limits, or the run is to end.
  Status spend(int64_t elements) const;
  // The same for what may be a few items, or 16 bytes each, beside a loop over them: limit and clock are asked once in a while.
  Status walk(int64_t items) const;
  // What was expected, what came.
  Status fail(const char* expected, const char* got_format, ...) const __attribute__((format(printf, 3, 4)));
  // The whole message of an exception that the model raises: "AssertionError: …".
  Status raise(const char* format, ...) const __attribute__((format(printf, 2, 3)));
};

// some(begin, end) for pieces of [0, n), counted as steps, which may give a status: between them, limit and clock are asked, as a loop over
// a billion elements has to.
template <class Some>
Status in_pieces(const Call& c, int64_t n, const Some& some) {
  constexpr int64_t kPiece = 1 << 16;
  for (int64_t begin = 0, end; begin < n; begin = end) {
    end = n - begin < kPiece ? n : begin + kPiece;
    PEN_TRY(c.walk(end - begin));
    if constexpr (__is_same(decltype(some(begin, end)), Status))
      PEN_TRY(some(begin, end));
    else
      some(begin, end);
  }
  return PEN_OK;
}

// torch's numbers of dtypes (c10::ScalarType).
DType dtype_of_code(int64_t code, bool* known);
int64_t code_of_dtype(DType dtype);
int64_t code_of_dtype(const TensorObject& t);  // a quantized one has a number of its own

// Elements of one dtype and shape from one place to another, whatever the strides of both; `from` may have strides of 0. They
// share no memory.
Status move_elements(const Call& c, const Tensor& to, const Tensor& from);
Status move_elements(Machine* m, const char* op, const Tensor& to, const Tensor& from);
// `from` into the elements of `to`: cast and broadcast, whatever the strides of both; they may share memory.
Status copy_into(const Call& c, TensorObject* to, const TensorObject& from);
// A fresh row-major copy, in another dtype if asked. Null after an error, which *status tells.
TensorObject* tensor_cast(const Call& c, const TensorObject& t, DType dtype, Status* status);
TensorObject* tensor_clone(const Call& c, const TensorObject& t, Status* status);
// Of what is looked at twice, the second time in trust: itself, or a copy where its memory is not the module's alone. A caller's array, or
// a mapped file, may be written meanwhile.
Status hold_still(const Call& c, const TensorObject& t, Value* made);
// A rank-0 tensor of a number. Null when out of memory.
TensorObject* tensor_of(const Value& number, DType dtype);
// A number as an element of this dtype, in memory, and back: floats are cut to integers, integers wrap.
void number_into(const Value& number, DType dtype, void* to);
Value number_at(DType dtype, const void* from);
// Whether torch takes this number as one of that dtype: finite ones inside its range, floats not above the largest.
bool number_fits(const Value& number, DType dtype);
// The number in a tensor of one element, as an int, a float or a bool.
Status number_in(const Call& c, const TensorObject& t, Value* number);
// torch's result dtype: tensors with dims decide; rank-0 tensors, then numbers, only where they are of a higher category.
struct Promotion {
  void add(const TensorObject& t);
  void add(const Value& number);
  DType result() const;
  int8_t by_level[3] = {-1, -1, -1};
};
// `to` becomes the shape that both broadcast to.
Status broadcast_shapes(const Call& c, Shape* to, const Shape& with);
// The dims before the last two, which are those of matrices.
Status broadcast_batches(const Call& c, const Tensor& a, const Tensor& b, Shape* to);
bool is_floating(DType d);
bool is_integral(DType d, bool with_bool);
const char* dtype_name(DType d);  // torch's: "Float", "Long"

// The function that an operator has for quantized tensors, where its own takes none of them: PEN_QUANTIZED(relu, "aten::relu",
// "aten::relu_") { … }, with the arguments of its schema. It computes what the operator returns; the rest is as for PEN_OP.
struct QuantizedForm {
  OperatorText name;
  uint16_t function;  // operator_function
};
extern const QuantizedForm kQuantizedForms[];  // sorted by name
extern const int kQuantizedFormCount;
OpFn find_quantized_form(const char* name);  // null: there is none

#define PEN_QUANTIZED(symbol, ...)                       \
  ::pen::Status quantized_form_##symbol(::pen::Call& c); \
  ::pen::Status quantized_form_##symbol([[maybe_unused]] ::pen::Call& c)
#define PEN_OP(symbol, ...)                  \
  ::pen::Status op_##symbol(::pen::Call& c); \
  ::pen::Status op_##symbol([[maybe_unused]] ::pen::Call& c)

}  // namespace pen
