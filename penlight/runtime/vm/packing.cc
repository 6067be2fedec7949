#include "penlight/runtime/vm/packing.h"

#include "penlight/runtime/vm/machine.h"

namespace pen {

// Slices of one constant are weights of their own: a loop over many of them must not fill the memory.
constexpr int kMaxKept = 4096;

static int add_pack(Graph* g, const Tensor& w, bool split, const char* layout, int64_t groups) {
  bool plain = strcmp(layout, "plain") == 0;
  int value = g->input(w);
  if (split) {
    int64_t dims[kMaxRank];
    dims[0] = w.dims[0] * w.dims[1];
    for (int d = 2; d < w.rank; ++d) dims[d - 1] = w.dims[d];
    value = g->node(Key::by_size("reshape", w.dtype), value);
    g->ints("shape", dims, w.rank - 1);
  }
  value = g->cast(value, w.dtype, !plain ? DType::f32 : is_floating(w.dtype) ? DType::f64 : DType::i64);
  if (plain) return value;
  value = g->node("pack.f32", value);
  g->text("layout", layout).integer("groups", groups);
  return value;
}

TensorObject* find_packed(const Call& c, const TensorObject& owner, const Tensor& w, const char* made, int64_t groups) {
  const List<PackedWeight>& kept = c.machine->packed;
  size_t bytes = sizeof(int64_t) * static_cast<size_t>(w.rank);
  for (int i = 0; i < kept.count && owner.storage->constant; ++i) {
    const PackedWeight& e = kept[i];
    if (e.storage == owner.storage && e.quantizer == owner.quantizer && e.weight.data == w.data && e.weight.dtype == w.dtype &&
        e.weight.rank == w.rank && e.groups == groups && strcmp(e.layout, made) == 0 && memcmp(e.weight.dims, w.dims, bytes) == 0 &&
        memcmp(e.weight.strides, w.strides, bytes) == 0)
      return e.packed;
  }
  return nullptr;
}
void keep_packed(const Call& c, const TensorObject& owner, const Tensor& w, const char* made, int64_t groups, TensorObject* packed) {
  List<PackedWeight>& kept = c.machine->packed;
  if (!owner.storage->constant) return;
  if (kept.count == kMaxKept) machine_forget_weights(c.machine);
  if (!kept.push({owner.storage, owner.quantizer, w, made, groups, packed})) return;  // out of memory: the next call packs again
  ++packed->refs;
  ++owner.storage->refs;
  if (owner.quantizer) ++owner.quantizer->refs;
}

Status pack_weight(const Call& c, Graph* g, const TensorObject& owner, const Tensor& w, bool split, const char* layout, int64_t groups,
                   int* value) {
  if (!owner.storage->constant || strcmp(layout, "plain") == 0) {
    *value = add_pack(g, w, split, layout, groups);
    return PEN_OK;
  }
  TensorObject* packed = find_packed(c, owner, w, layout, groups);
  if (packed) {
    *value = g->packed(packed, layout);
    return PEN_OK;
  }
  Graph alone(c);
  PEN_TRY(alone.run(add_pack(&alone, w, split, layout, groups)));
  packed = alone.take(0);
  keep_packed(c, owner, w, layout, groups, packed);
  *value = g->packed(packed, layout);
  heap_release(packed);  // the graph has a reference of its own
  return PEN_OK;
}

void machine_forget_weights(Machine* m) {
  List<PackedWeight>& kept = m->packed;
  for (int i = 0; i < kept.count; ++i) {
    storage_release(kept[i].storage);
    quantizer_release(kept[i].quantizer);
    heap_release(kept[i].packed);
  }
  kept.release();
}

}  // namespace pen
