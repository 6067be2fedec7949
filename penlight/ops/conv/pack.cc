// pack: brings a weight that is known only at run time into the layout that its kernel reads (pack.h). Constants were
// packed at export. One task is a panel (panel16), or a range of rows of the result.
#include "penlight/runtime/base/packed.h"

#include "penlight/runtime/exec/kernel.h"

namespace pen {

struct Pack {
  int64_t n, ci, taps;  // per group: outputs, inputs; kernel positions
  int64_t groups;
  char layout;  // 'p'anel16, 't'aps, 'g'rouped
};

PEN_SHAPE(pack) {
  const char* layout = s.text("layout");
  int64_t groups = s.integer("groups");
  const Tensor& w = s.in(0);
  if (winograd_outputs(layout) || packed_bytes(layout, w, groups) < 0)  // transforms happen at export only
    return s.fail(0, "a weight [Co, Ci, kh, kw] that this layout can hold", "rank %d in %lld groups as \"%s\"", w.rank,
                  static_cast<long long>(groups), layout);
  return s.output(0, DType::f32, shape_of(w));
}

PEN_BIND(pack) {
  const char* layout = b.text("layout");
  int64_t groups = b.integer("groups");
  PEN_TRY(b.need(0, Need::dense));
  const Tensor& w = b.in(0);
  // The name goes on as the value's layout: it has to outlive this call, so it is one of ours.
  const char* known = strcmp(layout, "panel16") == 0 ? "panel16" : strcmp(layout, "taps") == 0 ? "taps" : "grouped";
  int64_t bytes = packed_bytes(known, w, groups);
  Pack* p = b.params<Pack>();
  if (!p) return PEN_ERROR_MEMORY;
  p->groups = groups;
  p->n = w.dims[0] / groups;
  p->ci = w.dims[1];
  p->taps = 1;
  for (int d = 2; d < w.rank; ++d) p->taps *= w.dims[d];
  p->layout = known[0];
  PEN_TRY(b.packed_output(0, known, bytes));
  int64_t panels = (p->n + 15) / 16;
  if (bytes > 0) b.tasks(known[0] == 'p' ? groups * panels : known[0] == 't' ? p->taps : (groups * p->n + 15) / 16);
  return PEN_OK;
}

PEN_KERNEL_ANY(pack, f32) {
  const Pack& p = r.as<Pack>();
  const float* w = r.in[0].as<float>();  // [groups * n][ci][taps]
  float* to = r.out[0].as<float>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    if (p.layout == 't') {
      int64_t channels = p.groups * p.n;
      for (int64_t c = 0; c < channels; ++c) to[task * channels + c] = w[c * p.taps + task];
      continue;
    }
    int64_t panels = (p.n + 15) / 16;
    int64_t first = p.layout == 'p' ? task / panels * p.n + task % panels * 16 : task * 16;  // output channel
    int64_t exist = p.layout == 'p' ? p.n - task % panels * 16 : p.groups * p.n - first;
    float* out = to + task * p.taps * p.ci * 16;
    for (int64_t t = 0; t < p.taps; ++t)
      for (int64_t c = 0; c < p.ci; ++c)
        for (int64_t j = 0; j < 16; ++j) *out++ = j < exist ? w[((first + j) * p.ci + c) * p.taps + t] : 0.0f;
  }
}

}  // namespace pen
