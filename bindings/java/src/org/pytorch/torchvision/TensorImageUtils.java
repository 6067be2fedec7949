package org.pytorch.torchvision;

import android.graphics.Bitmap;
import android.graphics.ImageFormat;
import android.media.Image;
import java.nio.FloatBuffer;
import java.util.Locale;
import org.penlight.Images;
import org.pytorch.MemoryFormat;
import org.pytorch.Tensor;

/** Pictures as inputs of vision models: (colour / 255 - mean) / std of red, green and blue, in planes or pixel by pixel. */
public final class TensorImageUtils {
  public static float[] TORCHVISION_NORM_MEAN_RGB = new float[] {0.485f, 0.456f, 0.406f};
  public static float[] TORCHVISION_NORM_STD_RGB = new float[] {0.229f, 0.224f, 0.225f};

  private TensorImageUtils() {}

  // --- bitmaps ---
  /** A tensor of shape (1, 3, height, width) of a whole bitmap. */
  public static Tensor bitmapToFloat32Tensor(
      final Bitmap bitmap, final float[] normMeanRGB, final float normStdRGB[], final MemoryFormat memoryFormat) {
    return bitmapToFloat32Tensor(bitmap, 0, 0, bitmap.getWidth(), bitmap.getHeight(), normMeanRGB, normStdRGB, memoryFormat);
  }

  public static Tensor bitmapToFloat32Tensor(final Bitmap bitmap, final float[] normMeanRGB, final float normStdRGB[]) {
    return bitmapToFloat32Tensor(bitmap, normMeanRGB, normStdRGB, MemoryFormat.CONTIGUOUS);
  }

  /** A tensor of shape (1, 3, height, width) of a rectangle of a bitmap. */
  public static Tensor bitmapToFloat32Tensor(
      final Bitmap bitmap,
      int x,
      int y,
      int width,
      int height,
      float[] normMeanRGB,
      float[] normStdRGB,
      MemoryFormat memoryFormat) {
    checkNorm(normMeanRGB, normStdRGB);
    checkTensorSize(width, height);
    final FloatBuffer data = Tensor.allocateFloatBuffer(3 * width * height);
    bitmapToFloatBuffer(bitmap, x, y, width, height, normMeanRGB, normStdRGB, data, 0, memoryFormat);
    return Tensor.fromBlob(data, new long[] {1, 3, height, width}, memoryFormat);
  }

  public static Tensor bitmapToFloat32Tensor(
      final Bitmap bitmap, int x, int y, int width, int height, float[] normMeanRGB, float[] normStdRGB) {
    return bitmapToFloat32Tensor(bitmap, x, y, width, height, normMeanRGB, normStdRGB, MemoryFormat.CONTIGUOUS);
  }

  /** Writes the numbers of a rectangle of a bitmap into a buffer, from an offset on. */
  public static void bitmapToFloatBuffer(
      final Bitmap bitmap,
      final int x,
      final int y,
      final int width,
      final int height,
      final float[] normMeanRGB,
      final float[] normStdRGB,
      final FloatBuffer outBuffer,
      final int outBufferOffset,
      final MemoryFormat memoryFormat) {
    checkOutBufferCapacity(outBuffer, outBufferOffset, width, height);
    checkNorm(normMeanRGB, normStdRGB);
    final boolean channelsLast = isChannelsLast(memoryFormat);
    checkTensorSize(width, height);
    final Images.Pixels pixels =
        new Images.Pixels() {
          @Override
          public void read(int[] to, int firstRow, int rows) {
            bitmap.getPixels(to, 0, width, x, y + firstRow, width, rows);
          }
        };
    Images.argb(pixels, width, height, normMeanRGB, normStdRGB, outBuffer, outBufferOffset, channelsLast);
  }

  public static void bitmapToFloatBuffer(
      final Bitmap bitmap,
      final int x,
      final int y,
      final int width,
      final int height,
      final float[] normMeanRGB,
      final float[] normStdRGB,
      final FloatBuffer outBuffer,
      final int outBufferOffset) {
    bitmapToFloatBuffer(
        bitmap, x, y, width, height, normMeanRGB, normStdRGB, outBuffer, outBufferOffset, MemoryFormat.CONTIGUOUS);
  }

  // --- camera images ---
  /**
   * A tensor of shape (1, 3, tensorHeight, tensorWidth) of the middle of a camera image, turned clockwise and scaled (nearest) to fit.
   *
   * @param image in the format YUV_420_888, planes with any strides
   * @param rotateCWDegrees 0, 90, 180 or 270
   */
  public static Tensor imageYUV420CenterCropToFloat32Tensor(
      final Image image,
      int rotateCWDegrees,
      final int tensorWidth,
      final int tensorHeight,
      float[] normMeanRGB,
      float[] normStdRGB,
      MemoryFormat memoryFormat) {
    checkImage(image, rotateCWDegrees, tensorWidth, tensorHeight);
    checkNorm(normMeanRGB, normStdRGB);
    final FloatBuffer data = Tensor.allocateFloatBuffer(3 * tensorWidth * tensorHeight);
    imageYUV420CenterCropToFloatBuffer(
        image, rotateCWDegrees, tensorWidth, tensorHeight, normMeanRGB, normStdRGB, data, 0, memoryFormat);
    return Tensor.fromBlob(data, new long[] {1, 3, tensorHeight, tensorWidth}, memoryFormat);
  }

  public static Tensor imageYUV420CenterCropToFloat32Tensor(
      final Image image,
      int rotateCWDegrees,
      final int tensorWidth,
      final int tensorHeight,
      float[] normMeanRGB,
      float[] normStdRGB) {
    return imageYUV420CenterCropToFloat32Tensor(
        image, rotateCWDegrees, tensorWidth, tensorHeight, normMeanRGB, normStdRGB, MemoryFormat.CONTIGUOUS);
  }

  /** Writes what {@link #imageYUV420CenterCropToFloat32Tensor} holds into a buffer, from an offset on. */
  public static void imageYUV420CenterCropToFloatBuffer(
      final Image image,
      int rotateCWDegrees,
      final int tensorWidth,
      final int tensorHeight,
      float[] normMeanRGB,
      float[] normStdRGB,
      final FloatBuffer outBuffer,
      final int outBufferOffset,
      final MemoryFormat memoryFormat) {
    checkOutBufferCapacity(outBuffer, outBufferOffset, tensorWidth, tensorHeight);
    checkImage(image, rotateCWDegrees, tensorWidth, tensorHeight);
    checkNorm(normMeanRGB, normStdRGB);
    final boolean channelsLast = isChannelsLast(memoryFormat);
    final Image.Plane[] planes = image.getPlanes();
    final Images.Plane[] yuv = new Images.Plane[3];
    for (int i = 0; i < 3; ++i) {
      yuv[i] = new Images.Plane(planes[i].getBuffer(), planes[i].getRowStride(), planes[i].getPixelStride());
    }
    Images.yuv420(
        yuv,
        image.getWidth(),
        image.getHeight(),
        rotateCWDegrees,
        tensorWidth,
        tensorHeight,
        normMeanRGB,
        normStdRGB,
        outBuffer,
        outBufferOffset,
        channelsLast);
  }

  public static void imageYUV420CenterCropToFloatBuffer(
      final Image image,
      int rotateCWDegrees,
      final int tensorWidth,
      final int tensorHeight,
      float[] normMeanRGB,
      float[] normStdRGB,
      final FloatBuffer outBuffer,
      final int outBufferOffset) {
    imageYUV420CenterCropToFloatBuffer(
        image,
        rotateCWDegrees,
        tensorWidth,
        tensorHeight,
        normMeanRGB,
        normStdRGB,
        outBuffer,
        outBufferOffset,
        MemoryFormat.CONTIGUOUS);
  }

  // --- checks ---
  private static void checkImage(Image image, int rotateCWDegrees, int tensorWidth, int tensorHeight) {
    if (image.getFormat() != ImageFormat.YUV_420_888) {
      throw new IllegalArgumentException(
          String.format(Locale.US, "Image format %d != ImageFormat.YUV_420_888", image.getFormat()));
    }
    if (rotateCWDegrees != 0 && rotateCWDegrees != 90 && rotateCWDegrees != 180 && rotateCWDegrees != 270) {
      throw new IllegalArgumentException("rotateCWDegrees must be one of 0, 90, 180, 270");
    }
    checkTensorSize(tensorWidth, tensorHeight);
  }

  private static void checkTensorSize(int width, int height) {
    if (width <= 0 || height <= 0) throw new IllegalArgumentException("tensorHeight and tensorWidth must be positive");
    if (3L * width * height > Integer.MAX_VALUE / 4) {
      throw new IllegalArgumentException("a tensor of 3 x " + height + " x " + width + " floats is larger than Java's buffers");
    }
  }

  private static void checkOutBufferCapacity(FloatBuffer outBuffer, int offset, int width, int height) {
    if (offset < 0 || offset + 3L * width * height > outBuffer.capacity()) throw new IllegalStateException("Buffer underflow");
  }

  private static void checkNorm(float[] normMeanRGB, float[] normStdRGB) {
    if (normMeanRGB.length != 3) throw new IllegalArgumentException("normMeanRGB length must be 3");
    if (normStdRGB.length != 3) throw new IllegalArgumentException("normStdRGB length must be 3");
  }

  private static boolean isChannelsLast(MemoryFormat memoryFormat) {
    if (memoryFormat == MemoryFormat.CHANNELS_LAST_3D) {
      throw new IllegalArgumentException("Unsupported memory format " + memoryFormat);
    }
    return memoryFormat == MemoryFormat.CHANNELS_LAST;
  }
}
