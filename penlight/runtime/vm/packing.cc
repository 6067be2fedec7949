#include "penlight/runtime/vm/packing.h"

#include "penlight/runtime/vm/machine.h"

namespace pen {

// Slices of one constant are weights of their own: a loop over many of them must not fill the memory.
constexpr int kMaxKept = 4096;

static int add_pack(Graph* g, const Tensor& w, bool split, const char* layout, int64_t groups) {
  int value = g->input(w);
  if (split) {
    int64_t dims[kMaxRank];
    dims[0] = w.dims[0] * w.dims[1];
    for (int d = 2; d < w.rank; ++d) dims[d - 1] = w.dims[d];
    value = g->node(Key::by_size("reshape", w.dtype), value);
    g->ints("shape", dims, w.rank - 1);
  }
  value = g->node("pack.f32", value);
  g->text("layout", layout).integer("groups", groups);
  return value;
}

static bool same_weight(const PackedWeight& e, const Storage* storage, const Tensor& w, const char* layout, int64_t groups) {
  if (e.storage != storage || e.weight.data != w.data || e.weight.rank != w.rank || e.groups != groups || strcmp(e.layout, layout) != 0)
    return false;
  size_t bytes = sizeof(int64_t) * static_cast<size_t>(w.rank);
  return memcmp(e.weight.dims, w.dims, bytes) == 0 && memcmp(e.weight.strides, w.strides, bytes) == 0;
}

Status pack_weight(const Call& c, Graph* g, const TensorObject& owner, const Tensor& w, bool split, const char* layout, int64_t groups,
                   int* value) {
  if (!owner.storage->read_only) {
    *value = add_pack(g, w, split, layout, groups);
    return PEN_OK;
  }
  List<PackedWeight>& kept = c.machine->packed;
  for (int i = 0; i < kept.count; ++i)
    if (same_weight(kept[i], owner.storage, w, layout, groups)) {
      *value = g->packed(kept[i].packed, kept[i].layout);
      return PEN_OK;
    }
  Graph alone(c);
  PEN_TRY(alone.run(add_pack(&alone, w, split, layout, groups)));
  if (kept.count == kMaxKept) machine_forget_weights(c.machine);
  TensorObject* packed = alone.take(0);
  *value = g->packed(packed, layout);
  if (kept.push({owner.storage, w, layout, groups, packed}))
    ++owner.storage->refs;
  else
    heap_release(packed);  // the graph has a reference of its own
  return PEN_OK;
}

void machine_forget_weights(Machine* m) {
  List<PackedWeight>& kept = m->packed;
  for (int i = 0; i < kept.count; ++i) {
    storage_release(kept[i].storage);
    heap_release(kept[i].packed);
  }
  kept.release();
}

}  // namespace pen
