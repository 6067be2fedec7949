// What the data of a run shows to be wrong: the first fault that a thread reports is kept, as words of `faults`, a buffer of the shader
// that includes this (runtime/vulkan_plans/backend.cc reads it after the run).
const uint NOWHERE = ~0u;
#define report(at, step, number, got, lowest, limit)         \
  if (atomicCompSwap(faults[at], 0u, 1u) == 0u) {            \
    faults[at + 1] = step;                                   \
    faults[at + 2] = number;                                 \
    faults[at + 3] = got.x;                                  \
    faults[at + 4] = got.y;                                  \
    faults[at + 5] = lowest;                                 \
    faults[at + 6] = limit;                                  \
  }
