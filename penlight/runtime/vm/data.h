// The constants of VM code and the module's state, made from the file's DATM table: values of one module's own. Weights stay
// where they are in the mapped file until something writes into them, or reads one that lies there packed.
#pragma once
#include "penlight/runtime/file/model.h"
#include "penlight/runtime/vm/tensor.h"

namespace pen {

struct Data {
  const Model* model;
  Value* values;       // by number in DATM
  Storage** storages;  // by constant
  bool any_packed;     // there are some to be unpacked (storage_unpack)
};
// All of them, or only what the datum `root` needs (others stay None). False when out of memory.
bool data_create(Data* data, const Model& model, uint32_t root = format::kNone);
void data_destroy(Data* data);

}  // namespace pen
