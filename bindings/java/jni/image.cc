// Native.java's functions over pictures (penlight_image.h).
#include "bindings/java/jni/jvm.h"
#include "penlight/runtime/include/penlight_image.h"

using namespace pen::java;

namespace {

pen_image_norm norm(env e, array mean, array std, uint8_t channels_last) {
  pen_image_norm made = {};
  e->GetFloatArrayRegion(mean, 0, 3, made.mean);
  e->GetFloatArrayRegion(std, 0, 3, made.std);
  made.channels_last = channels_last;
  return made;
}

float* floats(env e, object out, int32_t offset, int64_t width, int64_t height) {
  size_t start = static_cast<size_t>(offset);
  void* data = room(e, out, 4 * (start + 3 * static_cast<size_t>(width * height)), 4);
  return data ? static_cast<float*>(data) + start : nullptr;
}

}  // namespace

PEN_JAVA(void, imageArgb, array pixels, int32_t width, int32_t height, int32_t plane, array mean, array std, object out, int32_t out_offset,
         uint8_t channels_last) {
  pen_image_norm how = norm(e, mean, std, channels_last);
  float* to = static_cast<float*>(room(e, out, 0, 4));
  if (!to) return;
  int64_t count = int64_t{width} * height, last = out_offset + (channels_last ? 3 * count : 2 * int64_t{plane} + count);
  if (out_offset < 0 || plane < count || last > e->GetDirectBufferCapacity(out) || count > e->GetArrayLength(pixels))
    return raise(e, PEN_ILLEGAL, "a picture: expected pixels and room for %d rows of %d", height, width);
  // No copy, and no Java meanwhile: microseconds.
  void* from = e->GetPrimitiveArrayCritical(pixels, static_cast<uint8_t*>(nullptr));
  if (!from) return raise(e, "java/lang/OutOfMemoryError", "no memory for pixels");
  pen_error error = {};
  pen_status status = pen_image_argb(static_cast<const uint32_t*>(from), width, width, height, plane, &how, to + out_offset, &error);
  e->ReleasePrimitiveArrayCritical(pixels, from, 2 /* JNI_ABORT: nothing was written */);
  if (status != PEN_OK) raise(e, error);
}

PEN_JAVA(void, imageYuv420, object y, object u, object v, array strides, int32_t width, int32_t height, int32_t rotate, int32_t out_width,
         int32_t out_height, array mean, array std, object out, int32_t out_offset, uint8_t channels_last) {
  pen_image_norm how = norm(e, mean, std, channels_last);
  float* to = floats(e, out, out_offset, out_width, out_height);
  if (!to) return;
  object buffers[3] = {y, u, v};
  int32_t steps[6];
  e->GetIntArrayRegion(strides, 0, 6, steps);
  pen_image_plane planes[3];
  for (int i = 0; i < 3; ++i) {
    const void* data = room(e, buffers[i], 0, 1);
    if (!data) return;
    planes[i] = {static_cast<const uint8_t*>(data), static_cast<size_t>(e->GetDirectBufferCapacity(buffers[i])), steps[2 * i],
                 steps[2 * i + 1]};
  }
  pen_error error = {};
  if (pen_image_yuv420(planes, width, height, rotate, out_width, out_height, &how, to, &error) != PEN_OK) raise(e, error);
}
