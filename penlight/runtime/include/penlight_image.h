/* Pictures as inputs of vision models, apart from penlight.h: (colour / 255 - mean) / std of red, green and blue, as PyTorch Mobile's
 * TensorImageUtils computes it. In libpenlight_jni.so, in the libraries for Apple and in those for the host.
 *
 *   pen_image_norm norm = PEN_IMAGE_IMAGENET;
 *   pen_image_argb(pixels, width, width, height, 0, &norm, floats, &error); */
#ifndef PENLIGHT_IMAGE_H_
#define PENLIGHT_IMAGE_H_

#include "penlight.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pen_image_norm {
  float mean[3]; /* of red, green, blue */
  float std[3];
  int32_t channels_last; /* 0: three planes (NCHW); else pixel by pixel (NHWC) */
} pen_image_norm;
#define PEN_IMAGE_IMAGENET {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}, 0}

/* Pixels 0xAARRGGBB, `stride` of them from row to row; 3 * width * height floats come out. `plane`: floats from plane to plane, where the
 * pixels are some rows of a larger picture; 0: width * height. Alpha is not looked at. */
PEN_API pen_status pen_image_argb(const uint32_t* pixels, int64_t stride, int32_t width, int32_t height, int64_t plane,
                                  const pen_image_norm* norm, float* out, pen_error* error);

/* One plane of a camera's picture: strides in bytes, of any size. */
typedef struct pen_image_plane {
  const uint8_t* data;
  size_t bytes;
  int32_t row_stride, pixel_stride;
} pen_image_plane;

/* The middle of a picture of Y, U and V (4:2:0; BT.601, video range), cut to the proportions of the result, turned clockwise by `rotate`
 * (0, 90, 180, 270) and scaled to out_width x out_height by taking the nearest pixel to the upper left. */
PEN_API pen_status pen_image_yuv420(const pen_image_plane planes[3], int32_t width, int32_t height, int32_t rotate, int32_t out_width,
                                    int32_t out_height, const pen_image_norm* norm, float* out, pen_error* error);

#ifdef __cplusplus
}
#endif
#endif /* PENLIGHT_IMAGE_H_ */
