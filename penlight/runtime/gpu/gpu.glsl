// What all shaders share: values are stored as T (f32, or f16 where compiled with F16), numbers are f32.
#ifdef F16
#extension GL_EXT_shader_16bit_storage : require
#define T float16_t
#define T4 f16vec4
#else
#define T float
#define T4 vec4
#endif

// Storage buffer number `at`: as numbers, and four at a time, for places that are multiples of four.
#define BUFFER(at, name)                                                        \
  layout(std430, set = 0, binding = at) readonly buffer Of_##name { T name[]; }; \
  layout(std430, set = 0, binding = at) readonly buffer Fours_##name { T4 name##4[]; }
#define WRITTEN(at, name)                                                       \
  layout(std430, set = 0, binding = at) buffer Of_##name { T name[]; };          \
  layout(std430, set = 0, binding = at) buffer Fours_##name { T4 name##4[]; }
// As it lies: indices, truth values, numbers that are f32 whatever T is.
#define WORDS(at, name) layout(std430, set = 0, binding = at) readonly buffer Words_##name { uint name[]; }

// Activations that kernels do by themselves, by number (runtime/gpu/activations.h has the same list).
float activate(uint act, float v, float a, float b) {
  switch (act) {
    case 1: return clamp(v, a, b);                                // relu, clamp; NaN stays: see below
    case 2: return v * clamp(v * (1.0 / 6.0) + 0.5, 0.0, 1.0);    // hardswish
    case 3: return clamp(v * (1.0 / 6.0) + 0.5, 0.0, 1.0);        // hardsigmoid
    case 4: return v / (1.0 + exp(-v));                           // silu
    case 5: return 1.0 / (1.0 + exp(-v));                         // sigmoid
    case 6: return v > 0.0 ? v : v * a;                           // leaky_relu
    default: return v;
  }
}
