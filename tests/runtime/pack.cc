// Weights packed by the runtime's kernel, for test_packing.py to compare with what the compiler writes. From a
// file of cases, each a name in 16 bytes, numbers of eight bytes (groups, rank, dims) and then the weight, to a file of packed weights.
#include "case.h"

#define PEN_PLATFORM_CHECK  // keeps platform.h's declarations apart from libc's
#include "penlight/runtime/vm/graph.h"
#include "penlight/runtime/vm/machine.h"

using namespace pen;

int main(int, char** paths) {
  Machine machine = {};
  CHECK(machine_create(&machine, nullptr, Isa::base, 1, 0));
  OpEntry entry = {};  // without parameters
  Call call = {&machine, &entry, nullptr, 0, nullptr};
  FILE *from = fopen(paths[1], "rb"), *to = fopen(paths[2], "wb");
  CHECK(from && to);
  int64_t head[2];  // groups, rank
  for (char layout[16]; fread(layout, 1, 16, from) == 16;) {
    CHECK(fread(head, 8, 2, from) == 2);
    int rank = static_cast<int>(head[1]);
    int64_t dims[kMaxRank];
    CHECK(fread(dims, 8, static_cast<size_t>(rank), from) == static_cast<size_t>(rank));
    TensorObject* weight = tensor_create(DType::f32, rank, dims);
    CHECK(weight && fread(weight->data(), 4, static_cast<size_t>(weight->numel()), from) == static_cast<size_t>(weight->numel()));
    int64_t bytes = packed_bytes(layout, weight->view(), head[0]);
    {
      Graph g(call);
      int value = g.node("pack.f32", *weight);
      g.text("layout", layout).integer("groups", head[0]);
      CHECK(g.run(value) == PEN_OK);
      TensorObject* made = g.take(0);
      CHECK(bytes > 0 && bytes <= made->storage->bytes);
      CHECK(fwrite(made->data(), 1, static_cast<size_t>(bytes), to) == static_cast<size_t>(bytes));
      heap_release(made);
    }
    heap_release(weight);
  }
  machine_destroy(&machine);
  CHECK(fclose(from) == 0 && fclose(to) == 0);
  return 0;
}
