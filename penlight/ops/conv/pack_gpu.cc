// pack on a GPU: a weight that is known only at run time, as convolutions and products read it.
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/gpu/gpu.h"

namespace pen {

PEN_GPU(pack, "f32") {
  const char* layout = b.text("layout");
  int64_t groups = b.integer("groups"), taps = 1;
  PEN_TRY(b.need(0, Need::dense));
  const Tensor& w = b.in(0);
  // The name goes on as the value's layout: it has to outlive this call, so it is one of ours.
  const char* known = strcmp(layout, "panel16") == 0 ? "panel16" : strcmp(layout, "taps") == 0 ? "taps" : "grouped";
  int64_t bytes = packed_bytes(known, w, groups);
  if (strcmp(layout, known) != 0 || bytes < 0)
    return b.fail(0, "a weight that can be packed as panel16, taps or grouped", "layout %s", layout);
  PEN_TRY(b.packed_output(0, known, bytes));
  for (int d = 2; d < w.rank; ++d) taps *= w.dims[d];
  auto u = [](int64_t number) { return static_cast<uint32_t>(number); };
  shader::Pack s;
  s.TAPS = known[0] == 't';
  s.push.n = u(bytes / 4), s.push.channels = u(w.dims[0]), s.push.ci = u(w.dims[1]), s.push.taps = u(taps);
  s.push.outputs = u(known[0] == 'p' ? w.dims[0] / groups : w.dims[0]);  // grouped: panels over all groups
  Operand written = b.writes(0);
  written.bytes = bytes;
  return b.dispatch(s, {b.reads(0), written}, rounds(bytes / 4, 128));
}

}  // namespace pen
