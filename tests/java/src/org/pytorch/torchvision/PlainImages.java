package org.pytorch.torchvision;

import android.media.Image;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;

/** Pictures to floats by straight loops, in the form that PyTorch Mobile's Java had: what TensorImageUtils is compared with, and timed against. */
public final class PlainImages {
  private PlainImages() {}

  public static void bitmap(int[] pixels, int width, int height, float[] mean, float[] std, FloatBuffer out, int offset, boolean channelsLast) {
    final int plane = width * height;
    if (channelsLast) {
      for (int i = 0; i < plane; i++) {
        final int c = pixels[i];
        out.put(offset + 3 * i, ((((c) >> 16) & 0xff) / 255.0f - mean[0]) / std[0]);
        out.put(offset + 3 * i + 1, ((((c) >> 8) & 0xff) / 255.0f - mean[1]) / std[1]);
        out.put(offset + 3 * i + 2, (((c) & 0xff) / 255.0f - mean[2]) / std[2]);
      }
      return;
    }
    for (int i = 0; i < plane; i++) {
      final int c = pixels[i];
      out.put(offset + i, ((((c) >> 16) & 0xff) / 255.0f - mean[0]) / std[0]);
      out.put(offset + plane + i, ((((c) >> 8) & 0xff) / 255.0f - mean[1]) / std[1]);
      out.put(offset + 2 * plane + i, (((c) & 0xff) / 255.0f - mean[2]) / std[2]);
    }
  }

  private static int clamp(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
  }

  public static void yuv(Image image, int rotate, int tensorWidth, int tensorHeight, float[] mean, float[] std, FloatBuffer out, int offset, boolean channelsLast) {
    final int width = image.getWidth(), height = image.getHeight();
    final boolean odd = rotate == 90 || rotate == 270;
    final int widthAfter = odd ? height : width, heightAfter = odd ? width : height;
    int cropWidthAfter = widthAfter, cropHeightAfter = heightAfter;
    if (tensorWidth * heightAfter <= tensorHeight * widthAfter) {
      cropWidthAfter = tensorWidth * heightAfter / tensorHeight;
    } else {
      cropHeightAfter = tensorHeight * widthAfter / tensorWidth;
    }
    final int cropWidth = odd ? cropHeightAfter : cropWidthAfter, cropHeight = odd ? cropWidthAfter : cropHeightAfter;
    final int offsetX = (width - cropWidth) / 2, offsetY = (height - cropHeight) / 2;
    final float scale = (float) cropWidthAfter / tensorWidth;
    final Image.Plane[] planes = image.getPlanes();
    final ByteBuffer yBuffer = planes[0].getBuffer(), uBuffer = planes[1].getBuffer(), vBuffer = planes[2].getBuffer();
    final int plane = tensorWidth * tensorHeight;
    for (int y = 0; y < tensorHeight; y++) {
      for (int x = 0; x < tensorWidth; x++) {
        final int xAfter = (int) (x * scale), yAfter = (int) (y * scale);
        int xBefore = xAfter, yBefore = yAfter;
        switch (rotate) {
          case 90:
            xBefore = yAfter;
            yBefore = cropHeight - 1 - xAfter;
            break;
          case 180:
            xBefore = cropWidth - 1 - xAfter;
            yBefore = cropHeight - 1 - yAfter;
            break;
          case 270:
            xBefore = cropWidth - 1 - yAfter;
            yBefore = xAfter;
            break;
          default:
            break;
        }
        // the original reads outside where the result is larger than the picture and turned around: here the edge
        xBefore = clamp(xBefore + offsetX, 0, width - 1);
        yBefore = clamp(yBefore + offsetY, 0, height - 1);
        final int yi = yBuffer.get(yBefore * planes[0].getRowStride() + xBefore * planes[0].getPixelStride()) & 0xff;
        final int ui = uBuffer.get((yBefore >> 1) * planes[1].getRowStride() + (xBefore >> 1) * planes[1].getPixelStride()) & 0xff;
        final int vi = vBuffer.get((yBefore >> 1) * planes[2].getRowStride() + (xBefore >> 1) * planes[2].getPixelStride()) & 0xff;
        final int a0 = 1192 * (yi - 16), a1 = 1634 * (vi - 128), a2 = 832 * (vi - 128), a3 = 400 * (ui - 128), a4 = 2066 * (ui - 128);
        final int r = clamp((a0 + a1) >> 10, 0, 255), g = clamp((a0 - a2 - a3) >> 10, 0, 255), b = clamp((a0 + a4) >> 10, 0, 255);
        final int at = y * tensorWidth + x;
        final int step = channelsLast ? 1 : plane, base = offset + (channelsLast ? 3 * at : at);
        out.put(base, (r / 255.f - mean[0]) / std[0]);
        out.put(base + step, (g / 255.f - mean[1]) / std[1]);
        out.put(base + 2 * step, (b / 255.f - mean[2]) / std[2]);
      }
    }
  }

  /** A camera's picture of noise; the planes end with their last pixel, as a camera's do. */
  public static Image camera(int width, int height, int yPadding, int yStep, int uvPadding, int uvStep, long seed) {
    java.util.Random random = new java.util.Random(seed);
    int chromaWidth = (width + 1) / 2, chromaHeight = (height + 1) / 2;
    Image.Plane[] planes = {
      plane(width, height, yPadding, yStep, random),
      plane(chromaWidth, chromaHeight, uvPadding, uvStep, random),
      plane(chromaWidth, chromaHeight, uvPadding, uvStep, random),
    };
    return new Image() {
      @Override
      public int getFormat() {
        return 35;
      }

      @Override
      public int getWidth() {
        return width;
      }

      @Override
      public int getHeight() {
        return height;
      }

      @Override
      public Plane[] getPlanes() {
        return planes;
      }
    };
  }

  private static Image.Plane plane(int width, int height, int padding, int step, java.util.Random random) {
    int rowStride = width * step + padding;
    byte[] bytes = new byte[(height - 1) * rowStride + (width - 1) * step + 1];
    random.nextBytes(bytes);
    ByteBuffer data = ByteBuffer.allocateDirect(bytes.length);
    data.put(bytes);
    return new Image.Plane() {
      @Override
      public ByteBuffer getBuffer() {
        return data;
      }

      @Override
      public int getRowStride() {
        return rowStride;
      }

      @Override
      public int getPixelStride() {
        return step;
      }
    };
  }
}
