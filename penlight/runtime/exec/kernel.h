// The contract between an operator's C++ file and the runtime. An operator has
//   one PEN_SHAPE(op), its shape rule: called once per set of input shapes, for every device. Checks inputs and attributes, and
//     says of what dtype and shape the outputs are. It looks at dims and never at strides or layouts;
//   one PEN_BIND(op), its schedule on the CPU: called right after. Says how inputs must lie and where outputs lie, how the work is
//     cut into tasks and how much scratch it takes, and fills a params struct for the kernel;
//   one PEN_KERNEL(op, dtype[, variant]) per key "op.dtype.variant": called in every run for a range of tasks. Checks
//     nothing, allocates nothing.
// Files with a PEN_KERNEL are compiled once per instruction set, inside that set's namespace; PEN_SHAPE and PEN_BIND are emitted by
// the base compile only. PEN_KERNEL_ANY kernels are compiled once, for the base set. The generator
// (build/generate.py) finds all four by scanning for the macros at the start of a line.
#pragma once
#include "penlight/runtime/base/tensor.h"
#include "penlight/runtime/exec/isas.h"
#include "penlight/runtime/include/penlight.h"

#ifndef PEN_ISA
#define PEN_ISA base
#define PEN_ISA_BASE 1
#endif

namespace pen {

using Status = pen_status;

#define PEN_ISA_NAME(name, ...) name,
enum class Isa : uint8_t { PEN_ISAS(PEN_ISA_NAME) count };
#undef PEN_ISA_NAME
constexpr int kIsaCount = static_cast<int>(Isa::count);

struct IntList {
  const int64_t* data;
  int count;
  PEN_INLINE int64_t operator[](int i) const { return data[i]; }
};
struct FloatList {
  const double* data;
  int count;
  PEN_INLINE double operator[](int i) const { return data[i]; }
};

// An elementwise operator over one row: out[i] = f(in0[i * step0], in1[i * step1], ...), steps in elements (0:
// broadcast). `out` is dense and may be the same memory as an input with step 1. `args`: its float attributes.
using RowFn = void (*)(void* out, const void* const* in, const int64_t* steps, int64_t n, const double* args);

// An error that only the data of a run can show: an index out of range, or what `expected` and `found` say. Of tasks that fail at the
// same time, one is reported.
struct Fault {
  int32_t set;  // 0 or 1, by atomic exchange
  int32_t input;
  int64_t got, low, high;        // allowed: low <= index < high
  const char *expected, *found;  // if not null, literals for the message: "an invertible matrix", "a zero at diagonal element " (and `got`)
};

// Where random operators draw from: the session's seed, and how many stages it has run since it got that.
struct Random {
  uint64_t seed, run;
};

struct Runner;  // exec/run.h
// Whether the run is to end: asks the caller, where that is some milliseconds ago and this is its own thread, worker 0.
bool is_to_end(Runner* runner, int worker);

// Whom it takes to ask the caller if the run should end, where a library does (kAsks).
#if defined(PEN_FLOATS_ONLY)
struct Caller {
  PEN_INLINE Caller(Runner*, int) {}
  PEN_INLINE Caller on(int) const { return *this; }
  PEN_INLINE bool ends() const { return false; }
};
#else
struct Caller {
  Runner* runner;
  int worker;
  PEN_INLINE Caller on(int other) const { return {runner, other}; }
  PEN_INLINE bool ends() const { return is_to_end(runner, worker); }
};
#endif

struct Run {
  const Tensor* in;  // in[i].data is null for an optional input that was left out
  const Tensor* out;
  const void* params;  // what bind filled
  char* scratch;       // this worker's, 64-byte aligned, as large as bind asked
  char* shared;        // the node's: what one phase leaves there, the next one finds
  int64_t begin, end;  // tasks to do
  int phase;
  Fault* fault;
  int64_t* counts;  // counts[i]: how large the first dim of output i is, where bind gave a bound (output_at_most)
  const Random* random;
  Caller caller;  // for Patience

  template <class T>
  PEN_INLINE const T& as() const {
    return *static_cast<const T*>(params);
  }
  PEN_INLINE void fail_index(int input, int64_t got, int64_t low, int64_t high) const {
    if (__atomic_exchange_n(&fault->set, 1, __ATOMIC_ACQ_REL) == 0) {
      fault->input = input;
      fault->got = got;
      fault->low = low;
      fault->high = high;
      fault->expected = fault->found = nullptr;
    }
  }
  PEN_INLINE void fail_value(int input, const char* expected, const char* found, int64_t got) const {
    if (__atomic_exchange_n(&fault->set, 1, __ATOMIC_ACQ_REL) == 0) {
      fault->input = input;
      fault->got = got;
      fault->expected = expected;
      fault->found = found;
    }
  }
};
using RunFn = void (*)(const Run&);

// For kernels of which one task may take seconds: a matrix, a whole row, a window that the data decides. They say what they are about to
// do, in multiply-adds or elements, and every millisecond or so of that the caller is asked whether to go on. True: it said no; the kernel
// returns, and what it leaves in its outputs is not looked at.
class Patience {
 public:
  explicit Patience(const Run& r) : run_(r) {}
  PEN_INLINE bool ends(int64_t work) {
    if (!kAsks) return false;
    if (PEN_LIKELY((left_ -= work) > 0)) return ended_;
    left_ = kAskedEvery;
    return ended_ = ended_ || run_.caller.ends();
  }

 private:
  static constexpr int64_t kAskedEvery = 1 << 20;
  const Run& run_;
  int64_t left_ = kAskedEvery;
  bool ended_ = false;
};
// Elements of an elementwise rule that loops (KernelEntry::loops) between two questions: each may be ten million steps.
constexpr int64_t kLoopingPiece = 4;
// Calls some(begin, end) for pieces of [0, n), as long as there is patience.
template <class Some>
static PEN_INLINE void in_pieces(Patience& patience, int64_t n, const Some& some) {
  constexpr int64_t kPiece = 1 << 16;
  for (int64_t begin = 0, end; begin < n; begin = end) {
    end = n - begin < kPiece ? n : begin + kPiece;
    if (patience.ends(end - begin)) return;  // of a short row no more than it is: to ask takes longer than to go through it
    some(begin, end);
  }
}

// How an operator needs an input to lie in memory. If it does not, the runtime copies it, right before the kernel, into memory
// planned at bind; the layout pass sees to it that this is rare.
enum class Need {
  dense,     // row-major, no gaps
  rows,      // last dim has stride 1 (or size <= 1), the others any stride
  channels,  // dim 1 has stride 1 and the spatial dims are dense over a common pixel pitch (nhwc, pitch >= C); the
             // batch stride is any
};

struct Plan;  // exec/plan.h

// What the rules of an operator are given: inputs and attributes of a node, and a way to complain.
class Given {
 public:
  // inputs, as the file lists them; a list parameter takes the last places
  int input_count() const;
  bool has(int input) const;
  const Tensor& in(int input) const;
  int output_count() const;

  // attributes: present and of the schema's kind (the loader proved it); dims already evaluated. Lists live until the
  // rule returns: kernels get copies, in params.
  int64_t integer(const char* name) const;
  double number(const char* name) const;
  bool flag(const char* name) const;
  const char* text(const char* name) const;
  IntList ints(const char* name) const;
  FloatList floats(const char* name) const;
  bool is_none(const char* name) const;
  // All float attributes, in schema order (what a RowFn takes as args).
  FloatList all_numbers() const;

  const char* key() const;  // "conv2d.f32.gemm"
  // What the file says that an output is, for kernels that can give either: integers (and what they stand for), or f32.
  DType declared_dtype(int output) const;
  const Quant* declared_quant(int output) const;
  // of elementwise operators
  DType elementwise_dtype() const;
  DType elementwise_result() const;
  bool elementwise_loops() const;  // one element may take a hundredth of a second

  // Reports an error in words and returns its status: what was expected of which input (-1: of the node), what came.
  Status fail(int input, const char* expected, const char* got_format, ...) const __attribute__((format(printf, 4, 5)));

  struct State;
  State* state;
};

class Shapes : public Given {
 public:
  // dims are checked against overflow and limits.
  Status output(int index, DType dtype, const Shape& shape);
  // Of which only the run tells how large dim 0 is: at most shape.dims[0]. The kernel writes that many rows, and their number into
  // Run::counts[index]. Nodes of the same stage cannot read it (file/SPEC.md).
  Status output_at_most(int index, DType dtype, const Shape& shape);
};
using ShapeFn = Status (*)(Shapes&);

// Where inputs and outputs lie, on any device.
class Lay : public Given {
 public:
  // "plain", or the name of a packed layout, for constants and for values made by pack operators
  const char* in_layout(int input) const;
  // An error where this input is packed: it cannot be read by its strides then.
  Status need_plain(int input) const;
  // Makes sure that in(input) lies as needed from here on: its strides may change by this call.
  Status need(int input, Need need);
  // How many bytes this input's memory has from its first element on. A packed one's dims and strides do not tell that.
  int64_t in_bytes(int input) const;
  // Those bytes, of a constant in any layout; null where it is none.
  const char* in_constant(int input) const;

  // outputs: dtype and dims are known from the shape rule, strides from one of the following calls on
  const Tensor& out(int index) const;
  // In fresh memory, laid as the file says (plain or nhwc); row-major where the run tells how large it is.
  Status output(int index);
  // The same where the file fixes the layout. Where it does not (strided): the third dim from the last inside the second, as those who
  // put the heads of attention side by side again want it.
  Status output_turned(int index);
  // In fresh memory and a packed layout: `bytes` of opaque memory; consumers see in_layout() == layout.
  Status packed_output(int index, const char* layout, int64_t bytes);
  // In an input's memory: no kernel runs if all outputs are views (set no tasks).
  Status view(int index, int input, const int64_t* strides, int64_t offset);
  // Whether the file lays this output channels-last, known before output().
  bool out_is_nhwc(int index) const;
  // Whether the file lets this output be a view.
  bool out_may_view(int index) const;
  // Asks for the output's physical order, like need() for inputs: an error where the file's layout says otherwise.
  Status need_out(int index, Need need);
  // Output `index` may take the memory of this input, if nobody needs that any more (elementwise operators). `alone`: only
  // where no other input lies in that memory (scatter reads those after it has begun to write). A kernel that may fail in a run writes
  // into such memory in its last phase only.
  void may_reuse(int index, int input, bool alone = false);
  // This input may be computed straight into output `index`, `offset` elements in, at the output's strides (cat). Where
  // that is done, the input's memory is part of the output's in a run, and nothing is left to copy.
  void may_place(int input, int index, int64_t offset);
};

// A schedule on the CPU.
class Bind : public Lay {
 public:
  Isa isa() const;  // that kernels will run on
  // How many threads will share the work. Only for choices that change no bit: results are the same for any number of them.
  int threads() const;
  // work: kernels are called for ranges of [0, count) in each phase, phases one after another. Cut by shape only.
  void tasks(int64_t count, int64_t phase1 = 0, int64_t phase2 = 0);
  // As many phases of `count` tasks each: steps of a recurrence, each of which reads what all tasks of the one before wrote. A fault ends
  // them. False, and nothing done, where there are too many of them to count, or the library has no such operators (kHasSteps).
  bool repeat_tasks(int64_t count, int64_t phases);
  Status scratch(int64_t bytes_per_worker);
  Status shared(int64_t bytes);
  // Zeroed memory of type T that Run::params will point at. T is plain data.
  template <class T>
  PEN_INLINE T* params() {
    static_assert(sizeof(T) <= kMaxParams, "use params_bytes and look for null");
    return static_cast<T*>(params_bytes(sizeof(T)));
  }
  // When out of memory: a block that is thrown away (the plan fails after the rule), or null for more than kMaxParams bytes.
  static constexpr size_t kMaxParams = 4096;
  void* params_bytes(size_t size);
  // Whether a rule may take so many bytes more, which it gives back before it returns. False: it must return PEN_ERROR_MEMORY.
  bool may_take(int64_t bytes);

  // The row function of unary elementwise operator `name` (f32 to f32, at most 4 float attributes) for the current
  // instruction set; null if there is none such (the loader has checked the file's key list, so for valid files it is
  // there).
  RowFn row_function(const char* name) const;
  // elementwise operators: their own
  RowFn row_function() const;
  // For rules that fill tables as large as a file says: asked every millisecond or so. An error, already reported, where the caller wants
  // the run to end.
  Status go_on() const;
};
using BindFn = Status (*)(Bind&);

#define PEN_TRY(expression)                                    \
  do {                                                         \
    ::pen::Status try_status = (expression);                   \
    if (PEN_UNLIKELY(try_status != PEN_OK)) return try_status; \
  } while (0)

// The generated registry. A pointer in a table costs a shared library three more words, for the loader that relocates it: so text
// is told by its place in one array, and functions by their number (ops/cpp_tables.py).
extern const char kKernelText[];
struct KernelText {
  uint32_t at;
  operator const char*() const { return kKernelText + at; }
  const char* text() const { return kKernelText + at; }
};
struct KernelEntry {
  KernelText key;
  KernelText schema;  // "x:T+ w:T b:T? stride:i[] groups:i act:s", from the operator's Python declaration
  uint16_t rules;     // shape_function, bind_function
  uint16_t function;  // kernel_function: a RowFn where the kernel is elementwise, else a RunFn
  uint8_t outputs;    // how many results it has
  bool elementwise : 1;
  bool per_isa : 1;     // one function for each of kIsas, one after another
  uint8_t loops : 2;    // elementwise operators: the input, from 1 on, that says how many steps an element takes; 0: none does
  DType dtype, result;  // elementwise operators: dtype of inputs and of the output
};
extern const KernelEntry kKernels[];  // sorted by key
extern const int kKernelCount;
ShapeFn shape_function(int number);
BindFn bind_function(int number);
using AnyFn = void (*)();
AnyFn kernel_function(int number);
extern const Isa kIsas[];  // that this library holds, base first
extern const int kIsasHeld;
extern const RunFn kElementwiseRun;  // that calls row functions; null in a library without any

// How many tasks to cut `total` units of work into. A task has `grain` units or more, so that it is worth waking a thread for; there
// are 256 at most, which is enough for any number of threads. It depends on shapes alone and never on the threads, so that sums are
// added up in the same order, and results are bit-equal, for any number of them.
static PEN_INLINE int64_t task_count(int64_t total, int64_t grain) {
  int64_t n = (total + grain - 1) / (grain > 0 ? grain : 1);
  return n < 1 ? 1 : (n > 256 ? 256 : n);
}
// Nearly `n` tasks, of which two threads have equally many, and four: what a thread has computed for one step is then what it reads in the
// next.
static PEN_INLINE int64_t even_tasks(int64_t n) { return n < 3 ? n : (n + 2) / 4 * 4; }
struct Range {
  int64_t begin, end;
};
// Part `index` of `total` units cut into `count` nearly equal parts.
static PEN_INLINE Range part(int64_t total, int64_t count, int64_t index) { return {total * index / count, total * (index + 1) / count}; }

}  // namespace pen

#define PEN_KERNEL_NAME2(op, dtype) op##_##dtype
#define PEN_KERNEL_NAME3(op, dtype, variant) op##_##dtype##_##variant
#define PEN_KERNEL_PICK(a, b, c, name, ...) name
// Inside namespace pen, at file scope, at the start of a line.
#define PEN_KERNEL(...)                                                                                      \
  namespace PEN_ISA {                                                                                        \
  void PEN_KERNEL_PICK(__VA_ARGS__, PEN_KERNEL_NAME3, PEN_KERNEL_NAME2, )(__VA_ARGS__)(const ::pen::Run& r); \
  }                                                                                                          \
  void PEN_ISA::PEN_KERNEL_PICK(__VA_ARGS__, PEN_KERNEL_NAME3, PEN_KERNEL_NAME2, )(__VA_ARGS__)(const ::pen::Run& r)
#define PEN_KERNEL_ANY(...) PEN_KERNEL(__VA_ARGS__)
#if defined(PEN_ISA_BASE)
#define PEN_RULE(name, parameter)   \
  PEN_SMALL Status name(parameter); \
  PEN_SMALL Status name(parameter)
#else
#define PEN_RULE(name, parameter) [[maybe_unused]] static Status name(parameter)
#endif
#define PEN_SHAPE(op) PEN_RULE(op##_shape, ::pen::Shapes& s)
#define PEN_BIND(op) PEN_RULE(op##_bind, ::pen::Bind& b)
