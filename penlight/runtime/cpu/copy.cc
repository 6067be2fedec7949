#include "penlight/runtime/cpu/copy.h"

#include "penlight/runtime/base/dims.h"

namespace pen {

void plan_copy(const Tensor& from, const Tensor& to, CopyPlan* p) {
  const int64_t elements = to.numel();
  int64_t* const steps[2] = {p->out, p->in};
  p->rank = merge_dims(to, 2, [&](int t, int d) { return (t ? from : to).strides[d]; }, p->dims, steps);
  if (p->rank == 0) p->rank = 1, p->dims[0] = p->in[0] = p->out[0] = 1;
  p->across = 0;
  bool filled = p->in[0] == 0 && p->dims[0] >= 16;  // one element a row, in rows worth filling
  for (int d = 1; d < p->rank && p->in[0] != 1 && !filled && p->out[0] == 1; ++d) {
    if (p->in[d] == 1) p->across = d;
  }
  // One long row would be one task: cut it where it divides, or leave a rest where somebody asks between tasks.
  if (kAsks) p->rest = 0;
  for (int64_t parts = 64; parts > 1 && p->rank == 1 && p->dims[0] >= 1 << 16; parts /= 2) {
    if (!kAsks && p->dims[0] % parts != 0) continue;
    if (kAsks) p->rest = p->dims[0] % parts;
    p->rank = 2;
    p->dims[0] /= parts;
    p->dims[1] = parts;
    p->in[1] = p->in[0] * p->dims[0];
    p->out[1] = p->out[0] * p->dims[0];
  }
  p->units = elements == 0 ? 0 : elements / p->dims[0];
  if (p->across && elements) {
    // Along `across` the output is written in order; with few elements there (nhwc with few channels to nchw), along dim 0.
    // Strips are short enough that the other side stays in cache until its lines are whole.
    p->cut = p->dims[p->across] >= 256 || p->dims[p->across] >= p->dims[0] ? p->across : 0;
    p->strip = !p->cut ? 256 : p->dims[0] < 16 ? 1024 : 64;
    p->strips = (p->dims[p->cut] + p->strip - 1) / p->strip;
    p->units = p->units / p->dims[p->across] * p->strips;
  }
  p->tasks = task_count(elements, 16384);
  p->tasks = p->tasks < p->units ? p->tasks : p->units;
}

}  // namespace pen
