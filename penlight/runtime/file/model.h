// A loaded .pen file: private, verified copies of its tables, and the weights where they lie in the mapped file.
// Everything here is immutable after loading and may be read by many threads.
#pragma once
#include "penlight/runtime/base/error.h"
#include "penlight/runtime/base/memory.h"
#include "penlight/runtime/base/tensor.h"
#include "penlight/runtime/base/promise.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/file/class.h"
#include "pen_format.h"  // generated from penlight/file/format.py

namespace pen {

template <class T>
struct Table {
  const T* data = nullptr;
  uint32_t count = 0;
  PEN_INLINE const T& operator[](uint32_t i) const { return data[i]; }
};

// The dtype of a value whose type is what its operator gives: in the VM's graphs only, the loader takes no such file.
constexpr uint8_t kUndeclared = 0xFF;

// How a method's code is cut into stages: regions that are planned and run together. Sizes that a stage's data decides
// are known to the stages after it.
struct MethodCode {
  // kept: for a later stage; returned: by the method, row-major; given: to the VM, which knows how it lies, packed or not
  enum Cross : uint8_t { no = 0, kept, returned, given };
  uint32_t stage_count;
  uint32_t* begin;  // of each stage: its first instruction. It ends at the next one that is no region
  uint8_t* on_cpu;  // of each stage: whether it runs on the CPU, whatever the session runs on
  Cross* crosses;   // of each register: whether it is needed after the stage that writes it
  // What it keeps from run to run: STAT from `states` on. The first is in the register after the inputs, and so on.
  uint32_t states, state_count;
};

struct Model : Handle<HandleKind::model> {
  // where the bytes came from
  const uint8_t* bytes = nullptr;
  size_t size = 0;
  void* mapping = nullptr;  // munmap this …
  size_t mapping_size = 0;
  void* owned = nullptr;  // … or free this; neither: the caller's memory

  Pool pool;  // all tables
  Table<format::String> strings;
  Table<format::Constant> constants;
  Table<format::Expr> exprs;
  Table<format::Step> steps;
  Table<format::Value> values;
  Table<format::Node> nodes;
  Table<format::Attr> attrs;
  Table<format::Region> regions;
  Table<format::Instruction> code;
  Table<format::Port> ports;
  Table<format::Method> methods;
  Table<format::Key> keys;
  Table<format::State> states;  // empty in files of methods that keep none
  // VM code and bundled inputs; empty in files without them
  Table<format::Function> functions;
  Table<format::VmInstruction> vm_code;
  Table<format::Operator> operators;
  Table<format::Datum> data_values;
  Table<format::Class> classes;
  Table<format::Bundle> bundles;
  Table<format::Program> programs;
  // Of functions, by number: those that are methods, in order; all, sorted by name; methods, sorted by theirs. Planned methods, sorted by
  // name. And the operators that this library lacks.
  Table<uint32_t> entry_points, functions_by_name, methods_by_name, planned_by_name, missing_operators;
  Table<format::Quant> quants;  // as the file has them; `quant_info` as kernels are told
  const Quant* quant_info = nullptr;
  const ClassInfo* class_info = nullptr;  // one per class
  Table<uint8_t> text;
  Table<int64_t> ints;
  Table<double> floats;
  Table<uint32_t> indices;
  Table<uint8_t> metadata;
  const uint8_t* data = nullptr;
  uint64_t data_size = 0;
  char* halves = nullptr;  // weights of f16 as f32 (halves.cc): DATA from `halves_from` on, twice as long
  uint64_t halves_from = 0;
  const KernelEntry** kernels = nullptr;  // one per node
  MethodCode* method_code = nullptr;      // one per method
  bool copied = false;
  // What devices keep of it, under a lock of their own: weights in their memory. Released with the model.
  struct Held {
    Held* next;
    void (*release)(Held* held);
  };
  mutable Held* held = nullptr;
  size_t refs = 0;  // of values that a module gave (vm/account.h): beyond the caller's own

  // Of constants, as kernels see them: layout without the prefix that says that the file holds f16, bytes of f32.
  bool is_half(const format::Constant& c) const { return kHasHalves && strncmp(string(c.layout), "f16_", 4) == 0; }
  const char* layout_of(const format::Constant& c) const { return string(c.layout) + (is_half(c) ? 4 : 0); }
  uint64_t size_of(const format::Constant& c) const { return is_half(c) ? 2 * c.size : c.size; }
  const char* data_of(const format::Constant& c) const {
    return is_half(c) && c.size ? halves + 2 * (c.offset - halves_from) : reinterpret_cast<const char*>(data) + c.offset;
  }
  // Of a value inside a region.
  const Quant* quant_of(const format::Value& v) const { return kHasBytes && v.quant ? &quant_info[v.quant - 1] : nullptr; }
  const char* string(uint32_t i) const { return i == format::kNone ? "" : reinterpret_cast<const char*>(text.data) + strings[i].offset; }
};

// Maps or reads the bytes of a file, or takes the caller's.
Status map_path(const char* path, bool copy, Model* model, pen_error* error);
Status map_fd(int fd, uint64_t offset, uint64_t size, bool copy, const char* name, Model* model, pen_error* error);
Status map_memory(const void* bytes, size_t size, bool copy, Model* model, pen_error* error);
void unmap(Model* model);

// Verifies everything and fills the tables. After PEN_OK no later code needs to check structure again.
Status load_tables(Model* model, const char* name, pen_needs* needs, pen_error* error);
// That a library lacks what a file needs, and how to build one that does not.
Status report_missing(const pen_needs& needs, const char* name, pen_error* error);
Status verify_hash(const Model& model, const char* name, pen_error* error);

const KernelEntry* find_kernel(const char* key);
// Of a table that is sorted by name, the row of this name; null: there is none.
template <class Row, class Name>
static PEN_INLINE const Row* find_by_name(const Row* rows, int count, Name Row::* name, const char* wanted) {
  int low = 0, high = count - 1;
  while (low <= high) {
    int middle = low + (high - low) / 2, order = strcmp(wanted, rows[middle].*name);
    if (order == 0) return &rows[middle];
    if (order < 0)
      high = middle - 1;
    else
      low = middle + 1;
  }
  return nullptr;
}

// The model is freed by the last to let go of it: pen_model_close, or a value that came from it.
void model_keep(Model* model);
void model_release(Model* model);
// Null where there is none of that name; no name means forward.
const format::Method* find_method(const Model* model, const char* name);

// NULL given to a function that only tells or sets. A library for models of f32 alone takes the caller's word there, and is smaller.
#if defined(PEN_FLOATS_ONLY)
static inline bool absent(const void*) { return false; }
#else
static inline bool absent(const void* given) { return !given; }
#endif

}  // namespace pen

struct pen_model : pen::Model {};
