// Penlight for C++17: models, tensors and containers that own what they hold, over the C interface (penlight.h). No exceptions and no RTTI
// are needed: what can fail gives a Result, which is a value or an Error in words.
//
//   auto model = penlight::Model::open("mobilenet_v2.pen");
//   if (!model) { puts(model.error().message.c_str()); return 1; }
//   auto module = penlight::Module::create(*model);                       // Options: device, threads, limits
//   auto y = module->forward({penlight::Tensor::borrow(pixels, {1, 3, 224, 224})});
//   if (y) for (float score : y->tensor()->values<float>()) …
//
// A Model may be used by many threads at once, a Module and a Session have one caller at a time. Tensors share memory when they are copied.
#ifndef PENLIGHT_HPP_
#define PENLIGHT_HPP_

#include "penlight/error.hpp"
#include "penlight/tensor.hpp"
#include "penlight/value.hpp"
#include "penlight/model.hpp"
#include "penlight/session.hpp"
#include "penlight/module.hpp"

#endif  // PENLIGHT_HPP_
