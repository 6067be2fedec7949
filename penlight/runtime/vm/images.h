// Images between operators. Convolutions compute channels-last; code must see their results row-major, as torch's are. Where the next
// operator would turn them round again, nothing is moved: the storage says how its numbers lie (Storage::pitch), the tensor's strides say
// what code sees. To settle such a tensor is to move its numbers to where the strides say they are.
//
// Only registers hold tensors that are not settled, and only operators that say "[nhwc]" get them; so does a list that the next
// instruction takes as their Tensor[] and nobody else sees. What goes into another list, a tuple, dict or attribute, into a planned part,
// to the caller or to any other operator is settled first, for all who share it.
//
// A convolution waits for what follows: its result has shape and memory at once, and its numbers when somebody computes. What comes next is
// its last step where it can be, an activation or a sum (Rows::join); all else finishes it first. Between the two, code has looked at
// sizes and moved references; nothing has been computed and no attribute set, so nothing that it was called with has changed.
#pragma once
#include "penlight/runtime/vm/machine.h"

namespace pen {

// With its data, by strides as it lies.
Tensor memory_of(const TensorObject& t);
// A fresh image [N, C, H, W] that lies channels-last, its memory not cleared. Null when out of memory.
TensorObject* image_create(const Machine& m, DType dtype, const int64_t* dims);
// A tensor of planes that was computed channels-last, all of its storage, is row-major from here on, for all that code sees.
void hide_nhwc(TensorObject* t);
// Any value. `op`: who asks, for the message when out of memory.
Status settle(Machine* m, const char* op, const Value& v);

// The result of the call, of at most kMostWaitingArgs arguments, will be an image [N, C, H, W] of f32. When it is finished, the operator is
// called again with the same arguments and Call::finishing, and computes into Waiting::made.
Status wait_with(Call& c, const int64_t* dims);
// Computes what waits, if anything does: before anything is computed, and before data is read.
Status finish(Machine* m);
void forget_waiting(Machine* m);

}  // namespace pen
