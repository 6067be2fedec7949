// Bind rule and driver of every elementwise operator: broadcasts the inputs to one shape, puts dims in the order of the
// output's memory, merges those that all tensors walk alike, and calls the operator's row function on what is innermost.
// So nhwc with nhwc, padded pitch or not, runs in rows as long as memory allows.
//
// Where rows are short and an input repeats along the next dim ([N,C,H,W] * [N,C,1,1] in nhwc: rows of C), a block of
// rows is one call: inputs that do not lie densely over the block are written out into scratch, those that repeat once
// for all blocks.
#include "penlight/runtime/cpu/elementwise.h"

#include "penlight/runtime/base/dims.h"

namespace pen {
namespace {

constexpr int kMaxInputs = 3;
constexpr int kMaxArgs = 8;
constexpr int64_t kGrain = 16384;   // elements per task: below, waking a thread costs more than the work
constexpr int64_t kShortRow = 256;  // rows below this are worth a block, if what is written out repeats
constexpr int64_t kTinyRow = 32;    // rows below this are worth one in any case
constexpr int64_t kBlock = 2048;    // elements of a block: its scratch stays in the first-level cache

struct ElementwisePlan : Loops<kMaxInputs> {
  RowFn row;
  int inputs;
  int64_t out_size, in_size[kMaxInputs];  // bytes of an element
  int64_t units, tasks;                   // units: rows where `blocks`, else elements
  bool blocks;
  bool packed[kMaxInputs];
  bool loops;
  double args[kMaxArgs];
};

// rows x n elements at any strides, written out densely
template <class T>
void pack(char* to, const char* from, int64_t rows, int64_t n, int64_t row_stride, int64_t step) {
  T* out = reinterpret_cast<T*>(to);
  for (int64_t r = 0; r < rows; ++r, out += n) {
    const T* in = reinterpret_cast<const T*>(from) + r * row_stride;
    if (step == 1)
      memcpy(out, in, static_cast<size_t>(n) * sizeof(T));
    else
      for (int64_t i = 0; i < n; ++i) out[i] = in[i * step];
  }
}
void pack(char* to, const char* from, int64_t size, int64_t rows, int64_t n, int64_t row_stride, int64_t step) {
  if (size == 4)
    pack<uint32_t>(to, from, rows, n, row_stride, step);
  else if (size == 1)
    pack<uint8_t>(to, from, rows, n, row_stride, step);
  else if (size == 8)
    pack<uint64_t>(to, from, rows, n, row_stride, step);
  else
    pack<uint16_t>(to, from, rows, n, row_stride, step);
}

// Where a walk over dims [first, rank) is: an index per dim, and the offsets of all tensors, in elements.
struct Position {
  int first;
  int64_t index[kMaxRank + 1], out, in[kMaxInputs];

  Position(const ElementwisePlan& p, int first_dim, int64_t at) : first(first_dim), out(0), in{} {
    for (int d = first; d < p.rank; ++d) {
      index[d] = at % p.dims[d];
      at /= p.dims[d];
      out += index[d] * p.out[d];
      for (int i = 0; i < p.inputs; ++i) in[i] += index[d] * p.in[i][d];
    }
  }
  void advance(const ElementwisePlan& p) {
    for (int d = first; d < p.rank; ++d) {
      int64_t back = ++index[d] == p.dims[d] ? p.dims[d] : 0;
      out += (1 - back) * p.out[d];
      for (int i = 0; i < p.inputs; ++i) in[i] += (1 - back) * p.in[i][d];
      if (!back) return;
      index[d] = 0;
    }
  }
};

void run_rows(const Run& r, const ElementwisePlan& p, int64_t begin, int64_t end) {
  const int64_t n = p.dims[0], rows = p.rank > 1 ? p.dims[1] : 1;
  int64_t at = begin % n, row = begin / n % rows, steps[kMaxInputs], in_stride[kMaxInputs], out_stride = 0;
  for (int i = 0; i < p.inputs; ++i) {
    steps[i] = p.in[i][0];
    in_stride[i] = p.rank > 1 ? p.in[i][1] * p.in_size[i] : 0;
  }
  if (p.rank > 1) out_stride = p.out[1] * p.out_size;
  for (Position pos(p, 2, begin / n / rows); begin < end; pos.advance(p)) {
    const char* in[kMaxInputs];
    for (int i = 0; i < p.inputs; ++i) in[i] = r.in[i].data + (pos.in[i] + at * steps[i]) * p.in_size[i] + row * in_stride[i];
    char* out = r.out[0].data + (pos.out + at) * p.out_size + row * out_stride;
    for (; row < rows && begin < end; ++row) {
      int64_t count = n - at < end - begin ? n - at : end - begin;
      const void* arguments[kMaxInputs];
      for (int i = 0; i < p.inputs; ++i) {
        arguments[i] = in[i];
        in[i] += in_stride[i] - at * steps[i] * p.in_size[i];
      }
      p.row(out, arguments, steps, count, p.args);
      out += out_stride - at * p.out_size;
      begin += count;
      at = 0;
    }
    row = 0;
  }
}

void run_blocks(const Run& r, const ElementwisePlan& p, int64_t begin, int64_t end) {
  const int64_t n = p.dims[0], rows = p.dims[1], block_rows = kBlock / n;
  int64_t at = begin % rows, steps[kMaxInputs], filled[kMaxInputs] = {};
  const char* source[kMaxInputs] = {};  // what a repeating input's scratch holds `filled` rows of
  char* scratch[kMaxInputs];
  char* next = r.scratch;
  for (int i = 0; i < p.inputs; ++i) {
    scratch[i] = next;
    next += p.packed[i] ? kBlock * p.in_size[i] : 0;
    steps[i] = p.packed[i] || p.in[i][0] != 0;
  }
  for (Position pos(p, 2, begin / rows); begin < end; at == 0 ? pos.advance(p) : void()) {
    int64_t count = rows - at < end - begin ? rows - at : end - begin;
    count = count < block_rows ? count : block_rows;
    const void* in[kMaxInputs];
    for (int i = 0; i < p.inputs; ++i) {
      int64_t row_stride = p.in[i][1];
      const char* from = r.in[i].data + (pos.in[i] + at * row_stride) * p.in_size[i];
      in[i] = p.packed[i] ? scratch[i] : from;
      if (!p.packed[i] || (row_stride == 0 && source[i] == from && filled[i] >= count)) continue;
      pack(scratch[i], from, p.in_size[i], count, n, row_stride, p.in[i][0]);
      source[i] = from;
      filled[i] = count;
    }
    p.row(r.out[0].data + (pos.out + at * n) * p.out_size, in, steps, count * n, p.args);
    begin += count;
    at = at + count == rows ? 0 : at + count;
  }
}

}  // namespace

PEN_SMALL Status elementwise_shape(Shapes& s) {
  Shape shape;
  DType dtype = s.elementwise_dtype();
  if (s.input_count() < 1 || s.input_count() > kMaxInputs) return s.fail(-1, "one to three inputs", "%d", s.input_count());
  for (int i = 0; i < s.input_count(); ++i) {
    // Inputs of the key's dtype were checked already; the one that may differ is a condition.
    const Tensor& t = s.in(i);
    bool fits = t.dtype == dtype || t.dtype == DType::boolean;
    if (!fits) return s.fail(i, "the operator's dtype, or bool for a condition", "dtype code %d", static_cast<int>(t.dtype));
    int wrong = broadcast(&shape, t.dims, t.rank);
    if (wrong >= 0)
      return s.fail(i, "a size that broadcasts with the other inputs", "%lld against %lld in dim %d from the end",
                    static_cast<long long>(t.dims[wrong]), static_cast<long long>(shape.dims[shape.rank - t.rank + wrong]), t.rank - wrong);
  }
  return s.output(0, s.elementwise_result(), shape);
}

PEN_SMALL Status elementwise_bind(Bind& b) {
  for (int i = 0; i < b.input_count(); ++i)
    if (strcmp(b.in_layout(i), "plain") != 0) return b.fail(i, "a tensor that is not packed", "one packed as %s", b.in_layout(i));
  PEN_TRY(b.output(0));
  ElementwisePlan* p = b.params<ElementwisePlan>();
  p->row = b.row_function();
  p->inputs = b.input_count();
  FloatList numbers = b.all_numbers();
  if (numbers.count > kMaxArgs) return b.fail(-1, "at most 8 float attributes", "%d", numbers.count);
  for (int i = 0; i < numbers.count; ++i) p->args[i] = numbers[i];
  for (int d = 0; d < b.out(0).rank; ++d) {
    if (b.out(0).dims[d] == 0) return PEN_OK;  // nothing to do
  }
  p->make(b.out(0), p->inputs, [&](int i) -> const Tensor& { return b.in(i); });
  p->out_size = dtype_size(b.elementwise_result());
  int64_t elements = b.out(0).numel(), scratch = 0;
  if (kAsks) p->loops = b.elementwise_loops();
  p->blocks = p->rank > 1 && p->dims[0] < kShortRow && p->out[1] == p->dims[0] && !(kAsks && p->loops);
  for (int i = 0; i < p->inputs; ++i) {
    const int64_t* strides = p->in[i];
    p->in_size[i] = dtype_size(b.in(i).dtype);
    p->packed[i] = strides[0] > 1 || strides[1] != strides[0] * p->dims[0];
    p->blocks = p->blocks && (!p->packed[i] || strides[1] == 0 || p->dims[0] < kTinyRow);
    b.may_reuse(0, i);
  }
  for (int i = 0; i < p->inputs && p->blocks; ++i) scratch += p->packed[i] ? kBlock * p->in_size[i] : 0;
  if (scratch) PEN_TRY(b.scratch(scratch));
  p->units = p->blocks ? elements / p->dims[0] : elements;
  p->tasks = even_tasks(task_count(elements, kGrain));
  p->tasks = p->tasks < p->units ? p->tasks : p->units;
  b.tasks(p->tasks);
  return PEN_OK;
}

void elementwise_run(const Run& r) {
  const ElementwisePlan& p = r.as<ElementwisePlan>();
  Range range = {part(p.units, p.tasks, r.begin).begin, part(p.units, p.tasks, r.end - 1).end};
  if (kAsks && p.loops) {
    for (int64_t at = range.begin; at < range.end && !r.caller.ends(); at += kLoopingPiece)
      run_rows(r, p, at, range.end - at < kLoopingPiece ? range.end : at + kLoopingPiece);
    return;
  }
  p.blocks ? run_blocks(r, p, range.begin, range.end) : run_rows(r, p, range.begin, range.end);
}

}  // namespace pen
