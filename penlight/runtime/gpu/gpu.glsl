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
#define READ(at, name)                                                                   \
  layout(std430, set = 0, binding = at) readonly buffer Of_##name { T name[]; };          \
  layout(std430, set = 0, binding = at) readonly buffer Fours_##name { T4 name##_4[]; }
#define WRITE(at, name)                                                                  \
  layout(std430, set = 0, binding = at) buffer Of_##name { T name[]; };                   \
  layout(std430, set = 0, binding = at) buffer Fours_##name { T4 name##_4[]; }
// As they lie, whatever T is: f32, 32-bit words, and bytes, four in a word.
#define READ_F32(at, name) layout(std430, set = 0, binding = at) readonly buffer Of_##name { float name[]; }
#define WRITE_F32(at, name) layout(std430, set = 0, binding = at) buffer Of_##name { float name[]; }
#define READ_WORDS(at, name) layout(std430, set = 0, binding = at) readonly buffer Of_##name { uint name[]; }
#define WRITE_WORDS(at, name) layout(std430, set = 0, binding = at) buffer Of_##name { uint name[]; }
#define READ_BYTES(at, name) READ_WORDS(at, name)
#define BYTE(name, i) (name[(i) >> 2] >> (((i)&3u) * 8u) & 255u)

// Elements that are only moved, whatever they are; KIND, a constant of the shader, says of what: 0: T; 1 or 2 words; 4: a byte. Bytes that
// share a word may be written by several threads, each its own.
#define READ_ANY(at, name)                                                               \
  layout(std430, set = 0, binding = at) readonly buffer Of_##name { T name[]; };          \
  layout(std430, set = 0, binding = at) readonly buffer Words_##name { uint name##_words[]; }
#define WRITE_ANY(at, name)                                                              \
  layout(std430, set = 0, binding = at) buffer Of_##name { T name[]; };                   \
  layout(std430, set = 0, binding = at) buffer Words_##name { uint name##_words[]; }
#define PUT_BYTE(words, i, value)                                    \
  {                                                                  \
    uint shift = ((i)&3u) * 8u;                                      \
    atomicAnd(words[(i) >> 2], ~(255u << shift));                    \
    atomicOr(words[(i) >> 2], (value) << shift);                     \
  }
#define MOVE(y, to, x, from)                                                                                        \
  if (KIND == 0)                                                                                                    \
    y[to] = x[from];                                                                                                \
  else if (KIND == 4)                                                                                               \
    PUT_BYTE(y##_words, to, BYTE(x##_words, from))                                                                  \
  else                                                                                                              \
    for (uint word = 0; word < KIND; ++word) y##_words[(to)*KIND + word] = x##_words[(from)*KIND + word];
// `bits`: of one element, low word first; of T as f32.
#define PUT(y, to, bits)                                                                      \
  if (KIND == 0)                                                                              \
    y[to] = T(uintBitsToFloat(bits.x));                                                       \
  else if (KIND == 4)                                                                         \
    PUT_BYTE(y##_words, to, bits.x & 255u)                                                    \
  else                                                                                        \
    for (uint word = 0; word < KIND; ++word) y##_words[(to)*KIND + word] = bits[word];
