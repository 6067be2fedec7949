package org.penlight;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/**
 * Pictures as numbers for vision models, for callers without Android's classes: (colour / 255 - mean) / std of red, green and blue. Into
 * direct buffers of native byte order at full speed, into others by way of one.
 */
public final class Images {
  private static final int ARRAY_PIXELS = 4096;

  private Images() {}

  /** One plane of a YUV 4:2:0 picture: bytes between rows, and between neighbours in a row. */
  public static final class Plane {
    final ByteBuffer data;
    final int rowStride;
    final int pixelStride;

    public Plane(ByteBuffer data, int rowStride, int pixelStride) {
      this.data = direct(data);
      this.rowStride = rowStride;
      this.pixelStride = pixelStride;
    }

    private static ByteBuffer direct(ByteBuffer data) {
      if (data.isDirect()) return data;
      ByteBuffer all = data.duplicate();
      all.clear();
      return ByteBuffer.allocateDirect(all.capacity()).put(all);
    }
  }

  /** Where pixels come from: ints, 0xAARRGGBB, as bitmaps have them. */
  public interface Pixels {
    /** Puts some rows of the picture into an array, one after the other. */
    void read(int[] to, int firstRow, int rows);
  }

  /** A picture of pixels, a few rows at a time: these stay in the processor's cache on their way. */
  public static void argb(
      Pixels pixels, int width, int height, float[] mean, float[] std, FloatBuffer out, int outOffset, boolean channelsLast) {
    boolean inPlace = check(mean, std, out, outOffset, width, height);
    FloatBuffer to = inPlace ? out : room(width, height);
    int rows = Math.min(height, Math.max(1, ARRAY_PIXELS / width)), step = channelsLast ? 3 * width : width;
    int[] some = new int[rows * width];
    for (int row = 0; row < height; row += rows) {
      int count = Math.min(rows, height - row), start = (inPlace ? outOffset : 0) + row * step;
      pixels.read(some, row, count);
      Native.imageArgb(some, width, count, width * height, mean, std, to, start, channelsLast);
    }
    if (!inPlace) put(to, out, outOffset);
  }

  /** The middle of a picture of three planes (Y, U, V), turned clockwise by 0, 90, 180 or 270 degrees, then scaled (nearest). */
  public static void yuv420(
      Plane[] planes,
      int width,
      int height,
      int rotateClockwise,
      int outWidth,
      int outHeight,
      float[] mean,
      float[] std,
      FloatBuffer out,
      int outOffset,
      boolean channelsLast) {
    boolean inPlace = check(mean, std, out, outOffset, outWidth, outHeight);
    FloatBuffer to = inPlace ? out : room(outWidth, outHeight);
    int[] strides = new int[6];
    for (int i = 0; i < 3; ++i) {
      strides[2 * i] = planes[i].rowStride;
      strides[2 * i + 1] = planes[i].pixelStride;
    }
    Native.imageYuv420(
        planes[0].data,
        planes[1].data,
        planes[2].data,
        strides,
        width,
        height,
        rotateClockwise,
        outWidth,
        outHeight,
        mean,
        std,
        to,
        inPlace ? outOffset : 0,
        channelsLast);
    if (!inPlace) put(to, out, outOffset);
  }

  private static boolean check(float[] mean, float[] std, FloatBuffer out, int offset, int width, int height) {
    if (mean.length != 3 || std.length != 3) {
      throw new IllegalArgumentException("mean and std: expected 3 numbers, got " + mean.length + " and " + std.length);
    }
    if (width <= 0 || height <= 0 || offset < 0 || offset + 3L * width * height > out.capacity()) {
      throw new IllegalArgumentException(
          "out: expected room for 3 x " + height + " x " + width + " floats from " + offset + " on, got " + out.capacity());
    }
    if (out.isReadOnly()) throw new IllegalArgumentException("out: expected a buffer that can be written, got a read-only one");
    return out.isDirect() && out.order() == ByteOrder.nativeOrder();
  }

  private static FloatBuffer room(int width, int height) {
    return Tensors.room(12L * width * height, new long[] {3, height, width}).asFloatBuffer();
  }

  private static void put(FloatBuffer from, FloatBuffer to, int offset) {
    FloatBuffer target = to.duplicate();
    target.clear();
    target.position(offset);
    target.put(from);
  }
}
