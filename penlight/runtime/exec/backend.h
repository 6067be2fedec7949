// A device that plans run on. Planner, sessions and VM know devices by this alone; the CPU is the first (cpu/backend.cc).
#pragma once
#include "penlight/runtime/exec/bind.h"
#include "penlight/runtime/exec/run.h"

namespace pen {

// A library that has the CPU alone is built without what only other devices need.
#if defined(PEN_ONE_DEVICE)
constexpr bool kOneDevice = true;
#else
constexpr bool kOneDevice = false;
#endif

// Memory on a device, for tensors that a caller keeps there.
struct DeviceMemory {
  Status (*create)(void* device, uint64_t bytes, void** memory, pen_error* error);
  void (*destroy)(void* memory);
  Status (*upload)(void* memory, const void* from, uint64_t bytes, pen_error* error);
  Status (*download)(const void* memory, void* to, uint64_t bytes, pen_error* error);
  bool (*reaches)(const void* device, const void* memory);  // whether runs on this device can use it
};

struct Backend {
  const char* name;     // as callers ask for it: "name", or "name:which" where there are several
  const char* variant;  // what stands before the names of methods that were compiled for it; null: nothing
  // What a runner needs of the device, in Runner::device; and its end. Null: nothing.
  Status (*open)(const char* which, bool f16, void** device, pen_error* error);
  void (*close)(void* device);
  // Whether it computes this. Null: all that the library has.
  bool (*has)(const KernelEntry& kernel);
  // Planning. The schedule of a node, after its shape rule; a copy of an input that does not lie as its kernel needs it; and how far
  // apart the pixels of a fresh nhwc value lie.
  Status (*bind)(Given::State& s);
  Status (*bind_copy)(Given::State& s, Copy* copy);
  int64_t (*pitch)(const Tensor& t);
  // Memory for a plan, and its operands pointing into it; then runs of it, with memory in `registers` for inputs and outputs.
  Status (*prepare)(Runner* r, Plan* plan);
  Status (*run)(Runner* r, const Model& model, Plan* plan, const Tensor* registers);
  // The end of what prepare left in Plan::held. Null: nothing.
  void (*release)(Plan* plan);
  // The machine's device of this number, as far as the caller's struct has room; PEN_ERROR_ARGUMENT past the last. -1: only whether there
  // is one that can be used. Null: there is one, of which there is nothing to say.
  Status (*describe)(int32_t index, pen_device_info* info, pen_error* error);
  const char* (*name_of)(const void* device);  // of one that was opened; null: the backend's
  const DeviceMemory* memory;                  // null: the host's memory is the device's
};

extern const Backend kCpu;
extern const Backend* const kBackends[];  // generated: those that this library has, the CPU first
extern const int kBackendCount;
// What runs where the caller names this device; null and "": the CPU. `which`: what follows its name and a colon.
Status choose_backend(const char* device, const Backend** backend, const char** which, pen_error* error);
// The method as it was compiled for the device, where there is such a variant; else the plain one, or null.
const format::Method* find_method(const Backend& backend, const Model& model, const char* name);
// An error that names all that a method needs and the device lacks, before anything runs.
Status check_method(const Backend& backend, const Model& model, const format::Method& method, pen_error* error);

// Options as a caller gave them, whose header may be older or newer: what it does not know is 0 in `own`, which has `size` bytes and
// begins with their number. An error where it wants something that this library does not know.
Status take_options(const void* given, void* own, size_t size, pen_error* error);

}  // namespace pen
