// No vectors: one lane, in the same words, for instruction sets that have no header of their own. Included by simd.h,
// which documents the functions.

constexpr int kLanes = 1;
struct V {
  float v;
};
struct I {
  int32_t v;
};
struct M {
  bool v;
};

static PEN_INLINE V load(const float* p) { return {*p}; }
static PEN_INLINE void store(float* p, V a) { *p = a.v; }
static PEN_INLINE V load_partial(const float* p, int64_t n) { return {n > 0 ? *p : 0.0f}; }
static PEN_INLINE void store_partial(float* p, V a, int64_t n) {
  if (n > 0) *p = a.v;
}
static PEN_INLINE V set1(float f) { return {f}; }
static PEN_INLINE V zero() { return {0.0f}; }

static PEN_INLINE V operator+(V a, V b) { return {a.v + b.v}; }
static PEN_INLINE V operator-(V a, V b) { return {a.v - b.v}; }
static PEN_INLINE V operator*(V a, V b) { return {a.v * b.v}; }
static PEN_INLINE V operator/(V a, V b) { return {a.v / b.v}; }
static PEN_INLINE V operator-(V a) { return {-a.v}; }
#if defined(__FP_FAST_FMAF)
static PEN_INLINE V fma(V a, V b, V c) { return {__builtin_fmaf(a.v, b.v, c.v)}; }
#else
static PEN_INLINE V fma(V a, V b, V c) { return {a.v * b.v + c.v}; }
#endif
static PEN_INLINE V min(V a, V b) { return {a.v < b.v ? a.v : b.v}; }
static PEN_INLINE V max(V a, V b) { return {a.v > b.v ? a.v : b.v}; }
static PEN_INLINE V abs(V a) { return {__builtin_fabsf(a.v)}; }
static PEN_INLINE V sqrt(V a) { return {__builtin_sqrtf(a.v)}; }
static PEN_INLINE V floor(V a) { return {floorf(a.v)}; }
static PEN_INLINE V ceil(V a) { return {ceilf(a.v)}; }
static PEN_INLINE V trunc(V a) { return {truncf(a.v)}; }
static PEN_INLINE V round(V a) { return {nearbyintf(a.v)}; }

static PEN_INLINE M lt(V a, V b) { return {a.v < b.v}; }
static PEN_INLINE M le(V a, V b) { return {a.v <= b.v}; }
static PEN_INLINE M gt(V a, V b) { return {a.v > b.v}; }
static PEN_INLINE M ge(V a, V b) { return {a.v >= b.v}; }
static PEN_INLINE M eq(V a, V b) { return {a.v == b.v}; }
static PEN_INLINE M ne(V a, V b) { return {a.v != b.v}; }
static PEN_INLINE M isnan(V a) { return {a.v != a.v}; }
static PEN_INLINE V select(M m, V a, V b) { return {m.v ? a.v : b.v}; }
static PEN_INLINE M operator&(M a, M b) { return {static_cast<bool>(a.v & b.v)}; }
static PEN_INLINE M operator|(M a, M b) { return {static_cast<bool>(a.v | b.v)}; }
static PEN_INLINE M operator!(M a) { return {!a.v}; }

static PEN_INLINE float reduce_add(V a) { return a.v; }
static PEN_INLINE float reduce_max(V a) { return a.v; }
static PEN_INLINE float reduce_min(V a) { return a.v; }

// A float that no int32 holds is undefined behaviour in the language: give what x86 gives.
static PEN_INLINE I to_int(V a) { return {a.v >= -2147483648.0f && a.v < 2147483648.0f ? static_cast<int32_t>(a.v) : INT32_MIN}; }
static PEN_INLINE V to_float(I a) { return {static_cast<float>(a.v)}; }
static PEN_INLINE I bits(V a) {
  I r;
  __builtin_memcpy(&r.v, &a.v, 4);
  return r;
}
static PEN_INLINE V from_bits(I a) {
  V r;
  __builtin_memcpy(&r.v, &a.v, 4);
  return r;
}
static PEN_INLINE I set1i(int32_t n) { return {n}; }
// Sums wrap and bits fall off the left end, as in the vector sets: through unsigned.
static PEN_INLINE I operator+(I a, I b) { return {static_cast<int32_t>(static_cast<uint32_t>(a.v) + static_cast<uint32_t>(b.v))}; }
static PEN_INLINE I operator-(I a, I b) { return {static_cast<int32_t>(static_cast<uint32_t>(a.v) - static_cast<uint32_t>(b.v))}; }
static PEN_INLINE I operator&(I a, I b) { return {a.v & b.v}; }
static PEN_INLINE I operator|(I a, I b) { return {a.v | b.v}; }
static PEN_INLINE I operator^(I a, I b) { return {a.v ^ b.v}; }
static PEN_INLINE I operator<<(I a, int n) { return {static_cast<int32_t>(static_cast<uint32_t>(a.v) << n)}; }
static PEN_INLINE I operator>>(I a, int n) { return {a.v >> n}; }
