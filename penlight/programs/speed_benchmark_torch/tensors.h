// Tensors that the program makes, prints and describes.
#pragma once
#include "penlight/programs/speed_benchmark_torch/flags.h"
#include "penlight/runtime/include/penlight.h"

namespace benchmark {

constexpr int kMaxInputs = 64, kMaxRank = 8;

struct Input {
  pen_tensor tensor = {};
  int64_t dims[kMaxRank] = {}, strides[kMaxRank] = {};
  void* owned = nullptr;  // its memory, where the program made it
};
struct Inputs {
  Input items[kMaxInputs];
  int count = 0;
  ~Inputs();
};

// All-ones inputs as the flags ask for. Where they leave sizes or dtypes open, those of a planned method (with free sizes there is
// an error); a method that is not planned gives neither. False after having said what is wrong.
bool make_inputs(const Flags& flags, const pen_model* model, Inputs* inputs);

const char* dtype_name(int32_t dtype);
void add_dims(Text* text, const int64_t* dims, int32_t rank);  // [1, 3, 224, 224]
void add_tensor(Text* text, const pen_tensor& tensor);         // "f32 [2, 3]", then one line per row

}  // namespace benchmark
