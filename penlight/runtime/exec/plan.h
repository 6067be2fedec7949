// A plan: one stage of a method at one set of shapes, ready to run. Built by calling every node's bind rule in order, then
// laying all intermediate buffers into one arena. All of a plan's memory comes from its pool. Most methods have one stage;
// another begins where sizes come out of the data (file/SPEC.md).
#pragma once
#include "penlight/runtime/exec/isa.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/exec/trace.h"
#include "penlight/runtime/file/model.h"

namespace pen {

// Memory that one or more values share. Views and placed values point into it at an offset.
struct Buffer {
  enum class Kind : uint8_t { arena, constant, input, output };
  Kind kind;
  int32_t index;        // input, output: the register; arena: the middle that it lies around, a bit (arena.cc)
  int64_t size;         // bytes
  int32_t first, last;  // nodes during which it must be kept
  int64_t offset;       // arena: where it lies
  int32_t merged;       // arena, and a state's next value: lives in this buffer instead (in-place), or -1
  char* base;           // constant: its bytes
};

struct Place {
  int32_t buffer = -1;
  int64_t offset = 0;  // bytes
};

// What is known of a value once its node was bound.
struct ValueState {
  Tensor tensor;
  Place at;
  const char* layout;    // "plain", or the name of a packed layout
  bool bound;            // its node was bound
  bool fresh;            // its node computes it into memory of its own: it is no view, and no input
  bool returned;         // an output of its region
  const int64_t* count;  // where a run puts the size of dim 0, of which tensor has the upper bound; null: it is known
  int32_t target;        // computed inside of this value, a concatenation; or -1
  int64_t target_offset;
  int64_t buffer_bytes;  // in the states kept from the first pass: size of its buffer
  int32_t nested;        // how many placements deep others lie in it
  int64_t pitch;         // of its pixels, where turns may keep it out of the concatenation that it would lie in; else 0
  int64_t whole;         // images that its memory holds, where steps that take turns see a few of them at a time; else 0 (exec/turns.h)
};

struct Copy {  // an input that did not lie as its kernel needs it: moved by the copy operator's kernel
  Tensor from, to;
  Place from_at, to_at;
  RunFn run;
  void* params;
  int64_t tasks;
};

struct Runner;  // exec/run.h

struct Step {
  const KernelEntry* entry;
  RunFn run;  // null: all outputs are views
  uint32_t node;
  bool writes_state;  // in place: a run that fails from its last phase on cannot be taken back
  const format::Region* region;
  int32_t in_count, out_count, copy_count;
  Tensor* in;
  Tensor* out;
  Place* in_at;
  Place* out_at;
  Copy* copies;
  void* params;
  int64_t* counts;  // see Bind::output_at_most
  int64_t tasks[3];
  // Not null: there are `phases`, each of the first number of tasks (Bind::repeat_tasks).
  void (*repeat)(Runner* r, void* job, const Step& step);
  int32_t phases;
  int64_t scratch, scratch_stride;  // bytes that each worker has, and from one worker's to the next's
  Place scratch_at, shared;
  uint64_t nanoseconds, calls;
  Tensor* whole;  // inputs, then outputs, with all images, of a step that takes turns; else null
};

// Steps [begin, end) that a batch goes through a few images at a time (exec/turns.h).
struct Turns {
  int32_t begin, end;
  int64_t count, images;      // how many times, and how many images in each
  int32_t first_move, moves;  // operands that go on from image to image
};

struct Backend;  // exec/backend.h

struct Plan {
  Pool pool, key;  // two, since a second pass of planning takes back what is in `pool` and keeps the key
  List<Buffer> buffers;
  Step* steps = nullptr;
  int32_t step_count = 0;
  uint64_t other_bytes = 0;                 // beside the arena: results, and tables that kernels need (of an FFT)
  int64_t arena_bytes = 0, live_bytes = 0;  // live: the most that is in use at once, which no arena can be below
  // What it was made for: the shapes of the registers it reads, and the other sizes and numbers that its dims were computed from.
  uint32_t stage = 0;
  struct Input {
    uint32_t index;
    Tensor tensor;
  };
  struct Reference {
    uint32_t index;
    int32_t dim;  // kValue: not a dim but the number in it
    int64_t number;
  };
  static constexpr int32_t kValue = kMaxRank;
  int32_t input_count = 0, reference_count = 0, output_count = 0;
  Input* inputs = nullptr;
  Reference* references = nullptr;
  struct Output {  // a register that is needed after this stage
    uint32_t index;
    int16_t state;  // a state's next value: the state's number; else -1 (0 in a library without states)
    bool in_place;  // where the state lies
    Tensor tensor;  // without data
    int64_t bytes;
    const int64_t* count;  // as in ValueState
  };
  Output* outputs = nullptr;
  uint64_t last_used = 0;
  char* resolved_arena = nullptr;  // arena that the operands point into at the moment
  struct Patch {                   // operand that follows a register's address
    Tensor* tensor;
    int32_t index;
    int64_t offset;
  };
  List<Patch> patches;
  struct Move {  // operand in memory that holds all images
    Tensor* tensor;
    int64_t bytes;  // from one turn to the next
  };
  List<Turns> turns;
  List<Move> moves;
  const Backend* backend = nullptr;
  void* held = nullptr;  // what the backend keeps with it
};

constexpr int64_t kMaxTensorBytes = int64_t{1} << 46;

// How a register's memory lies, where that is not by its strides.
struct InputLayout {
  const char* name;  // of a packed layout; null: by its strides
  int64_t bytes;
};

struct PlanRequest {
  const Backend* backend;
  Runner* runner;  // that is to run it
  const Model* model;
  const format::Method* method;
  const MethodCode* code;
  uint32_t stage;
  Isa isa;
  const Tensor* registers;  // inputs, and results of earlier stages with their data
  uint64_t memory_limit;    // 0: none
  int workers;
  pen_error* error;
  pen_trace* trace;
  const InputLayout* layouts = nullptr;  // of the method's inputs; null: none is packed
};
// Null on error.
Plan* plan_create(const PlanRequest& request, Status* status);
void plan_destroy(Plan* plan);
bool plan_fits(const Plan& plan, const Tensor* registers);
// Between what different threads write all the time: a core reads ahead of what its thread writes, and takes such lines from the other.
constexpr int64_t kApart = 64 << 10;
// Gives every buffer its offset (arena.cc). `room`: how many bytes there are for an arena that several threads like better; 0 and below:
// none. False when out of memory. `scrap`: for what is not needed afterwards.
bool lay_arena(Plan* plan, int64_t room, Pool* scrap);
// Makes all operands point into this arena (and at constants); registers follow in every run, by the patches.
void plan_resolve(Plan* plan, char* arena);

// The value of a dim as stored in INTS: itself, or its expression over registers. `used`, if any, has a mask for each
// register: dims and the value that were asked for are marked in it.
Status evaluate_dim(const Model& model, int64_t stored, const Tensor* registers, int64_t* value, pen_error* error,
                    uint16_t* used = nullptr);

// Lays a tensor of known dims densely: row-major, or with dim 1 innermost at a pixel pitch. False on overflow.
bool lay_plain(Tensor* t, int64_t* bytes);
bool lay_channels(Tensor* t, int64_t pitch, int64_t* bytes);
// Whether `t` lies as needed; then its strides of size-1 dims become canonical.
bool lies_as(Tensor* t, Need need);

}  // namespace pen
