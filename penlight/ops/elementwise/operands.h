// What the VM's elementwise operators share: torch's result dtypes, and operands brought into the dtype that is computed in.
#pragma once
#include "penlight/runtime/vm/rows.h"

namespace pen {

// torch's result dtype of these arguments, tensors or numbers.
DType promoted(const Call& c, int first, int second = -1, int third = -1);
// The same for functions that give floats of integers.
DType promoted_float(const Call& c, int first, int second = -1, int third = -1);

// Argument i as `dtype`, then as `carrier`: what torch rounds to its result dtype first is rounded here too. `exact`: numbers and
// rank-0 tensors are not, as in sums and products of halves.
int operand(Rows& r, const Call& c, int i, DType dtype, DType carrier, bool exact = false);

// An operator that is one elementwise rule, OpEntry::rule; the table has it for each of the rule's overloads.
Status op_elementwise(Call& c);
// `kernel` of the arguments [0, arity), cast to `dtype` first, which is the result's.
Status give_kernel(Call& c, const char* kernel, DType dtype, int arity, bool exact = false);
// The dtype `kernel` computes in, or an error in words.
Status carrier_for(const Call& c, const char* kernel, DType dtype, DType* carrier);

// An error unless tensor i is of floats.
Status need_floats(const Call& c, int i);
// An error where an integer divisor, argument i, holds a zero.
Status need_no_zero(const Call& c, int i);

}  // namespace pen
