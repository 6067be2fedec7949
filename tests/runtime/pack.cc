// Weights packed by the runtime, for test_packing.py to compare with what the compiler writes: of f32 by the kernel, of i8 by the VM. From
// a file of cases, each a name in 16 bytes, numbers of eight bytes (groups, bytes of an element, rank, dims) and then the weight, to a file
// of packed weights.
#include "case.h"

#define PEN_PLATFORM_CHECK  // keeps platform.h's declarations apart from libc's
#include "penlight/ops/quantized/filter.h"
#include "penlight/runtime/cpu/result_q8.h"
#include "penlight/runtime/vm/machine.h"

using namespace pen;

static void write(const TensorObject& made, int64_t bytes, FILE* to) {
  CHECK(bytes > 0 && bytes <= made.storage->bytes);
  CHECK(fwrite(made.data(), 1, static_cast<size_t>(bytes), to) == static_cast<size_t>(bytes));
}

static void pack_floats(const Call& call, const TensorObject& weight, const char* layout, int64_t groups, FILE* to) {
  Graph g(call);
  int value = g.node("pack.f32", weight);
  g.text("layout", layout).integer("groups", groups);
  CHECK(g.run(value) == PEN_OK);
  TensorObject* made = g.take(0);
  write(*made, packed_bytes(layout, weight.view(), groups), to);
  heap_release(made);
}

// Its sums of columns too: those that the VM has of them, and those that bind adds up from packed weights.
static void pack_integers(const Call& call, TensorObject* weight, const char* layout, int64_t groups, FILE* to) {
  weight->quantizer = quantizer_create(1.0, 0);
  CHECK(weight->quantizer);
  Filter f = {};
  f.w = {weight, nullptr, weight->dim(0), 0};
  CHECK(filter_of(call, weight->rank() - 2, groups, false, &f) == PEN_OK);
  CHECK(strcmp(f.layout(), layout) == 0);
  FilterValues values;
  CHECK(pack_filter(call, f, DType::u8, {1.0, 0}, 0.0, &values) == PEN_OK);
  const TensorObject &packed = *values.weights.tensor(), &columns = *values.columns.tensor();
  write(packed, packed_bytes(layout, weight->view(), groups), to);
  const GroupsQ8 g = groups_q8(weight->view(), groups, f.depthwise());
  const int64_t count = column_count_q8(g);
  CHECK(count == columns.dim(1));
  Value sums = Value::own(tensor_create(DType::i32, 1, &count));
  sum_weights_q8(weight->view(), packed.data(), g, sums.tensor()->as<int32_t>());
  CHECK(memcmp(sums.tensor()->data(), columns.as<int32_t>() + count, static_cast<size_t>(count) * 4) == 0);
}

int main(int, char** paths) {
  Machine machine = {};
  CHECK(machine_create(&machine, nullptr, Isa::base, 1, 0, nullptr, nullptr));
  OpEntry entry = {};  // without parameters
  Call call = {&machine, &entry, nullptr, 0, nullptr};
  FILE *from = fopen(paths[1], "rb"), *to = fopen(paths[2], "wb");
  CHECK(from && to);
  int64_t head[3];  // groups, bytes of an element, rank
  for (char layout[16]; fread(layout, 1, 16, from) == 16;) {
    CHECK(fread(head, 8, 3, from) == 3);
    int rank = static_cast<int>(head[2]);
    int64_t dims[kMaxRank];
    CHECK(fread(dims, 8, static_cast<size_t>(rank), from) == static_cast<size_t>(rank));
    TensorObject* weight = tensor_create(head[1] == 4 ? DType::f32 : DType::i8, rank, dims);
    const size_t count = weight ? static_cast<size_t>(weight->numel()) : 0;
    CHECK(weight && fread(weight->data(), static_cast<size_t>(head[1]), count, from) == count);
    if (head[1] == 4)
      pack_floats(call, *weight, layout, head[0], to);
    else
      pack_integers(call, weight, layout, head[0], to);
    heap_release(weight);
  }
  machine_destroy(&machine);
  CHECK(fclose(from) == 0 && fclose(to) == 0);
  return 0;
}
