// penlight_image.h: checks, the geometry of the cut and the turn, and the choice of the instruction set; rows.cc does the work.
#include "penlight/runtime/include/penlight_image.h"

#include "penlight/runtime/exec/isas.h"
#include "penlight/runtime/image/walk.h"

// rows.cc is compiled for some instruction sets, base always among them: the others' functions are not there, which only ELF lets us ask.
#if defined(__ELF__) && (defined(__x86_64__) || defined(__i386__))
#define PEN_MANY_ISAS 1
#else
#define PEN_MANY_ISAS 0
#endif
#define PEN_DECLARE(name, ...)                         \
  namespace pen::name {                                \
  __attribute__((weak)) pen::image::ArgbFn image_argb; \
  __attribute__((weak)) pen::image::YuvFn image_yuv;   \
  }
#if PEN_MANY_ISAS
PEN_ISAS(PEN_DECLARE)
#else
namespace pen::base {
pen::image::ArgbFn image_argb;
pen::image::YuvFn image_yuv;
}  // namespace pen::base
#endif
#undef PEN_DECLARE

namespace {

using namespace pen::image;

struct Functions {
  ArgbFn* argb;
  YuvFn* yuv;
};

// The best that is compiled in and that this processor has, as the runtime found; or what PENLIGHT_ISA names, as for sessions.
#if PEN_MANY_ISAS
#define PEN_ROW(name, ...) {pen::name::image_argb, pen::name::image_yuv},
constexpr Functions kFunctions[] = {PEN_ISAS(PEN_ROW)};
#undef PEN_ROW
#define PEN_ROW(name, ...) #name,
constexpr char kNames[][12] = {PEN_ISAS(PEN_ROW)};
#undef PEN_ROW
constexpr int kSets = sizeof kNames / sizeof kNames[0];

int find_best() {
  const char* wanted = getenv("PENLIGHT_ISA");
  bool reached = !wanted || !wanted[0];  // best first: a set that has nothing of its own here has what the next one has
  for (int32_t i = 0; const char* name = pen_isa_name(i); ++i) {
    reached = reached || strcmp(wanted, name) == 0;
    if (!reached) continue;
    for (int set = 0; set < kSets; ++set)
      if (kFunctions[set].argb && strcmp(kNames[set], name) == 0) return set;
  }
  return 0;
}

// Asked for once: where a processor is shared by virtual machines, it takes tens of microseconds to say what it has.
Functions best() {
  static int found = -1;
  int set = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (set < 0) __atomic_store_n(&found, set = find_best(), __ATOMIC_RELAXED);
  return kFunctions[set];
}
#else
Functions best() { return {pen::base::image_argb, pen::base::image_yuv}; }
#endif

pen_status wrong(pen_error* error, const char* what, const char* expected, const char* format, ...) __attribute__((format(printf, 4, 5)));
pen_status wrong(pen_error* error, const char* what, const char* expected, const char* format, ...) {
  if (!error) return PEN_ERROR_ARGUMENT;
  *error = {};
  error->status = PEN_ERROR_ARGUMENT;
  __builtin_va_list args;
  __builtin_va_start(args, format);
  vsnprintf(error->got, sizeof error->got, format, args);
  __builtin_va_end(args);
  snprintf(error->expected, sizeof error->expected, "%s", expected);
  snprintf(error->message, sizeof error->message, "%s: expected %s, got %s", what, expected, error->got);
  return PEN_ERROR_ARGUMENT;
}

pen_status lacks(pen_error* error, const char* what) { return wrong(error, what, "a pointer to it", "NULL"); }

Factors factors(const pen_image_norm& norm) {
  Factors f;
  for (int c = 0; c < 3; ++c) {
    f.scale[c] = 1.0f / (255.0f * norm.std[c]);
    f.shift[c] = -norm.mean[c] / norm.std[c];
  }
  f.channels_last = norm.channels_last != 0;
  return f;
}

// The picture's x or y: which part of it is taken, and from which end.
Axis axis(int32_t size, int32_t cut, bool backwards, float scale) {
  int32_t first = (size - cut) / 2;
  return {backwards ? first + cut - 1 : first, backwards ? -1 : 1, size, scale, {}};
}

}  // namespace

extern "C" {

pen_status pen_image_argb(const uint32_t* pixels, int64_t stride, int32_t width, int32_t height, int64_t plane, const pen_image_norm* norm,
                          float* out, pen_error* error) {
  if (!pixels || !norm || !out) return lacks(error, !pixels ? "a picture" : !norm ? "norm" : "the result");
  if (width <= 0 || height <= 0) return wrong(error, "a picture", "a width and height of 1 or more", "%d x %d", width, height);
  constexpr int64_t kFarthest = int64_t{1} << 43;  // what no memory has
  if (stride < width || stride > kFarthest / height)
    return wrong(error, "a picture", "rows that are at least its width apart", "%lld", static_cast<long long>(stride));
  int64_t count = int64_t{width} * height;
  if (plane && (plane < count || plane > kFarthest))
    return wrong(error, "a picture", "planes at least as far apart as it has pixels", "%lld", static_cast<long long>(plane));
  best().argb(pixels, stride, width, height, plane ? plane : count, factors(*norm), out);
  return PEN_OK;
}

pen_status pen_image_yuv420(const pen_image_plane planes[3], int32_t width, int32_t height, int32_t rotate, int32_t out_width,
                            int32_t out_height, const pen_image_norm* norm, float* out, pen_error* error) {
  if (!planes || !norm || !out) return lacks(error, !planes ? "a picture" : !norm ? "norm" : "the result");
  if (width <= 0 || height <= 0) return wrong(error, "a picture", "a width and height of 1 or more", "%d x %d", width, height);
  if (out_width <= 0 || out_height <= 0)
    return wrong(error, "the result", "a width and height of 1 or more", "%d x %d", out_width, out_height);
  if (rotate != 0 && rotate != 90 && rotate != 180 && rotate != 270) return wrong(error, "rotate", "0, 90, 180 or 270", "%d", rotate);
  bool turned = rotate == 90 || rotate == 270;
  // The size after the turn, and the part of it with the result's proportions.
  int64_t w = turned ? height : width, h = turned ? width : height, cut_w = w, cut_h = h;
  if (out_width * h <= out_height * w)
    cut_w = out_width * h / out_height;
  else
    cut_h = out_height * w / out_width;
  float scale = static_cast<float>(cut_w) / static_cast<float>(out_width);
  int32_t cut_x = static_cast<int32_t>(turned ? cut_h : cut_w), cut_y = static_cast<int32_t>(turned ? cut_w : cut_h);
  Axis x = axis(width, cut_x, rotate == 180 || rotate == 270, scale), y = axis(height, cut_y, rotate == 90 || rotate == 180, scale);
  const uint8_t* data[3];
  for (int p = 0; p < 3; ++p) {
    const pen_image_plane& plane = planes[p];
    const char* names[3] = {"plane Y", "plane U", "plane V"};
    if (!plane.data) return lacks(error, names[p]);
    if (plane.row_stride < 0 || plane.pixel_stride < 0)
      return wrong(error, names[p], "strides of 0 or more", "%d and %d", plane.row_stride, plane.pixel_stride);
    x.step[p] = plane.pixel_stride;
    y.step[p] = plane.row_stride;
    int64_t columns = turned ? out_height : out_width, rows = turned ? out_width : out_height;
    int32_t ends_x[2] = {place(x, 0), place(x, columns - 1)}, ends_y[2] = {place(y, 0), place(y, rows - 1)};
    int64_t last =
        offset(x, ends_x[0] > ends_x[1] ? ends_x[0] : ends_x[1], p) + offset(y, ends_y[0] > ends_y[1] ? ends_y[0] : ends_y[1], p);
    if (last >= INT32_MAX || static_cast<uint64_t>(last) >= plane.bytes) {
      char expected[96];
      snprintf(expected, sizeof expected, "%lld bytes or more for strides of %d and %d", static_cast<long long>(last + 1), plane.row_stride,
               plane.pixel_stride);
      return wrong(error, names[p], expected, "%zu", plane.bytes);
    }
    data[p] = plane.data;
  }
  best().yuv(data, turned ? y : x, turned ? x : y, out_width, out_height, factors(*norm), out);
  return PEN_OK;
}

}  // extern "C"
