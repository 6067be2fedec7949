// What the VM's operators on shapes share: sizes from arguments, strides of views, fresh tensors in torch's memory formats.
#pragma once
#include "penlight/runtime/vm/op.h"

namespace pen {

// torch's numbers of memory formats.
enum class Format : int64_t { contiguous = 0, preserve = 1, channels_last = 2, channels_last_3d = 3 };
// Argument i as a memory format; None: `otherwise`.
Status format_of(const Call& c, int i, Format otherwise, Format* to);

// An int[] of sizes, each 0 or more (-1 too where `infer`: at most one, which takes what is left of `numel`).
Status sizes_of(const Call& c, int i, Shape* shape);
Status sizes_of(const Call& c, int i, int64_t numel, Shape* shape);
// The number of elements, or an error where it is larger than any memory.
Status numel_of(const Call& c, const Shape& shape, int64_t* numel);
// A view with one more dim of one, before dim `at`.
Status with_dim(const Call& c, const TensorObject& t, int at, Value* made);

// Strides of the same elements in another shape without a copy; false where there are none.
bool view_strides(const TensorObject& t, const Shape& shape, int64_t* strides);
// A view with an offset counted in elements. Quantized per channel: an error, as the channels' axis would be lost.
Status give_view(Call& c, const TensorObject& t, const Shape& shape, const int64_t* strides, int64_t offset = 0);
Status make_view(const Call& c, const TensorObject& t, const Shape& shape, const int64_t* strides, int64_t offset, Value* made);
// Operators that change the tensor itself, not its elements (unsqueeze_): argument 0 takes on the shape of the view that is the result.
Status give_itself_as(Call& c);
// The same elements in another shape: a view where that can be, else a copy.
Status reshaped(const Call& c, const TensorObject& t, const Shape& shape, Value* made);

// Fresh memory that lies as a format says, or, for `preserve`, as `like` does.
Status make_fresh(const Call& c, DType dtype, const Shape& shape, Format format, const TensorObject* like, Value* made);
// A copy of a tensor in a format and dtype.
Status make_copy(const Call& c, const TensorObject& t, DType dtype, Format format, Value* made);
bool lies_in(const TensorObject& t, Format format);
bool is_dense(const TensorObject& t);  // no gaps, nothing twice, whatever the order
// contiguous, channels_last or channels_last_3d: what its strides look like.
Format suggested_format(const TensorObject& t);
void format_strides(Format format, const Shape& shape, int64_t* strides);

// Every element of this dtype's number.
Status fill(const Call& c, TensorObject* t, const Value& number);

}  // namespace pen
