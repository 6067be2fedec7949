// Pictures to floats against plain loops, with memory that ends exactly where the pictures and the result do (sanitizers see every step
// outside). Linked with runtime/image alone; the instruction set is what PENLIGHT_ISA names.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penlight/runtime/include/penlight_image.h"

extern "C" const char* pen_isa_name(int32_t index) { return index == 0 ? getenv("PENLIGHT_ISA") : nullptr; }

namespace {

uint32_t state = 1;
uint32_t noise() { return state = state * 1664525u + 1013904223u, state >> 8 | state << 24; }
int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
int failures;

void compare(const float* got, const float* expected, int count, const char* what, int a, int b, int c, int d) {
  for (int i = 0; i < count; ++i) {
    if (fabsf(got[i] - expected[i]) < 1e-4f) continue;
    printf("%s %d %d %d %d: float %d: expected %g, got %g\n", what, a, b, c, d, i, static_cast<double>(expected[i]),
           static_cast<double>(got[i]));
    ++failures;
    return;
  }
}

void write(float* out, int pixels, int at, const int* rgb, const pen_image_norm& norm) {
  for (int c = 0; c < 3; ++c)
    out[norm.channels_last ? 3 * at + c : c * pixels + at] = (static_cast<float>(rgb[c]) / 255.0f - norm.mean[c]) / norm.std[c];
}

void argb(int width, int height, int padding, pen_image_norm norm) {
  int stride = width + padding, count = stride * (height - 1) + width;
  uint32_t* pixels = static_cast<uint32_t*>(malloc(4 * static_cast<size_t>(count)));
  for (int i = 0; i < count; ++i) pixels[i] = noise();
  size_t bytes = 12 * static_cast<size_t>(width * height);
  float *got = static_cast<float*>(malloc(bytes)), *expected = static_cast<float*>(malloc(bytes));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      uint32_t c = pixels[y * stride + x];
      int rgb[3] = {static_cast<int>(c >> 16 & 255), static_cast<int>(c >> 8 & 255), static_cast<int>(c & 255)};
      write(expected, width * height, y * width + x, rgb, norm);
    }
  }
  pen_error error;
  if (pen_image_argb(pixels, stride, width, height, 0, &norm, got, &error) != PEN_OK) puts(error.message), ++failures;
  compare(got, expected, 3 * width * height, "argb", width, height, padding, norm.channels_last);
  free(pixels), free(got), free(expected);
}

pen_image_plane plane(int width, int height, int padding, int step) {
  int stride = width * step + padding, bytes = stride * (height - 1) + (width - 1) * step + 1;
  uint8_t* data = static_cast<uint8_t*>(malloc(static_cast<size_t>(bytes)));
  for (int i = 0; i < bytes; ++i) data[i] = static_cast<uint8_t>(noise());
  return {data, static_cast<size_t>(bytes), stride, step};
}
int at(const pen_image_plane& p, int x, int y) { return p.data[y * p.row_stride + x * p.pixel_stride]; }

void yuv(int width, int height, int rotate, int w, int h, int step, pen_image_norm norm) {
  int half_width = (width + 1) / 2, half_height = (height + 1) / 2;
  pen_image_plane planes[3] = {plane(width, height, step, 1), plane(half_width, half_height, 0, step),
                               plane(half_width, half_height, 3, step)};
  size_t bytes = 12 * static_cast<size_t>(w * h);
  float *got = static_cast<float*>(malloc(bytes)), *expected = static_cast<float*>(malloc(bytes));
  bool turned = rotate == 90 || rotate == 270;
  int after_w = turned ? height : width, after_h = turned ? width : height, cut_w = after_w, cut_h = after_h;
  if (w * after_h <= h * after_w)
    cut_w = w * after_h / h;
  else
    cut_h = h * after_w / w;
  int cut_x = turned ? cut_h : cut_w, cut_y = turned ? cut_w : cut_h;
  float scale = static_cast<float>(cut_w) / static_cast<float>(w);
  for (int i = 0; i < w * h; ++i) {
    int a = static_cast<int>(static_cast<float>(i % w) * scale), b = static_cast<int>(static_cast<float>(i / w) * scale);
    int x = rotate == 0 ? a : rotate == 90 ? b : rotate == 180 ? cut_x - 1 - a : cut_x - 1 - b;
    int y = rotate == 0 ? b : rotate == 90 ? cut_y - 1 - a : rotate == 180 ? cut_y - 1 - b : a;
    x = clamp(x + (width - cut_x) / 2, 0, width - 1), y = clamp(y + (height - cut_y) / 2, 0, height - 1);
    int luma = 1192 * (at(planes[0], x, y) - 16), u = at(planes[1], x / 2, y / 2) - 128, v = at(planes[2], x / 2, y / 2) - 128;
    int sums[3] = {luma + 1634 * v, luma - 832 * v - 400 * u, luma + 2066 * u}, rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = clamp(sums[c] >> 10, 0, 255);
    write(expected, w * h, i, rgb, norm);
  }
  pen_error error;
  if (pen_image_yuv420(planes, width, height, rotate, w, h, &norm, got, &error) != PEN_OK) puts(error.message), ++failures;
  compare(got, expected, 3 * w * h, "yuv", width, height, rotate, w);
  planes[2].bytes -= 1;  // one that is too short is told, where its last byte is asked for
  if (!turned && w == width && h == height &&
      (pen_image_yuv420(planes, width, height, rotate, w, h, &norm, got, &error) != PEN_ERROR_ARGUMENT ||
       !strstr(error.message, "plane V: expected")))
    ++failures, puts("a plane that is too short");
  for (pen_image_plane& p : planes) free(const_cast<uint8_t*>(p.data));
  free(got), free(expected);
}

}  // namespace

int main() {
  pen_image_norm norm = PEN_IMAGE_IMAGENET;
  const int sizes[][2] = {{1, 1}, {2, 3}, {3, 2}, {5, 7}, {17, 9}, {64, 3}, {65, 4}, {255, 2}, {257, 3}};
  for (norm.channels_last = 0; norm.channels_last < 2; ++norm.channels_last) {
    for (const auto& from : sizes) {
      for (int padding = 0; padding < 3; ++padding) argb(from[0], from[1], padding, norm);
      for (const auto& to : sizes)
        for (int rotate = 0; rotate < 360; rotate += 90)
          for (int step = 1; step < 4; ++step) yuv(from[0], from[1], rotate, to[0], to[1], step, norm);
    }
  }
  pen_error error;
  uint32_t pixel = 0;
  float out[3];
  pen_image_plane none[3] = {};
  if (pen_image_argb(&pixel, 1, 0, 1, 0, &norm, out, &error) == PEN_OK ||
      pen_image_argb(&pixel, 0, 1, 1, 0, &norm, out, nullptr) == PEN_OK ||
      pen_image_yuv420(none, 1, 1, 0, 1, 1, &norm, out, &error) == PEN_OK ||
      pen_image_yuv420(none, 1, 1, 45, 1, 1, &norm, out, &error) == PEN_OK ||
      pen_image_argb(&pixel, INT64_MAX / 2, 1, 3, 0, &norm, out, &error) == PEN_OK ||
      pen_image_argb(&pixel, 1, 1, 1, INT64_MAX, &norm, out, &error) == PEN_OK ||
      pen_image_argb(nullptr, 1, 1, 1, 0, &norm, out, &error) == PEN_OK ||
      pen_image_argb(&pixel, 1, 1, 1, 0, nullptr, out, &error) == PEN_OK ||
      pen_image_argb(&pixel, 1, 1, 1, 0, &norm, nullptr, nullptr) == PEN_OK ||
      pen_image_yuv420(nullptr, 1, 1, 0, 1, 1, &norm, out, &error) == PEN_OK ||
      pen_image_yuv420(none, 1, 1, 0, 1, 1, nullptr, out, &error) == PEN_OK ||
      pen_image_yuv420(none, 1, 1, 0, 1, 1, &norm, nullptr, nullptr) == PEN_OK)
    ++failures, puts("a mistake that was not told");
  puts(failures ? "not all well" : "all well");
  return failures != 0;
}
