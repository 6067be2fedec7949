package org.pytorch.examples;

import android.graphics.Bitmap;
import android.graphics.ImageFormat;
import android.media.Image;
import java.awt.image.BufferedImage;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import javax.imageio.ImageIO;

/** Pictures in files as Android would hand them to an app. */
public final class Photographs {
  private Photographs() {}

  public static Bitmap bitmap(String path) throws IOException {
    BufferedImage image = ImageIO.read(new File(path));
    int width = image.getWidth();
    return new Bitmap(image.getRGB(0, 0, width, image.getHeight(), null, 0, width), width);
  }

  public static void write(int[] pixels, int width, String path) throws IOException {
    BufferedImage image = new BufferedImage(width, pixels.length / width, BufferedImage.TYPE_INT_RGB);
    image.setRGB(0, 0, width, pixels.length / width, pixels, 0, width);
    if (!ImageIO.write(image, "png", new File(path))) throw new IOException(path + ": cannot be written");
  }

  /** A camera's frame, as most phones give it: chroma of both kinds by turns, rows with bytes to spare. Full range, as JFIF defines it. */
  public static Image frame(Bitmap bitmap) {
    int width = bitmap.getWidth() & ~1;
    int height = bitmap.getHeight() & ~1;
    int stride = width + 32;
    int[] pixels = new int[width * height];
    bitmap.getPixels(pixels, 0, width, 0, 0, width, height);
    ByteBuffer luma = ByteBuffer.allocateDirect(stride * height);
    ByteBuffer chroma = ByteBuffer.allocateDirect(stride * height / 2);
    for (int y = 0; y < height; y++) {
      for (int x = 0; x < width; x++) {
        int p = pixels[y * width + x];
        double r = p >> 16 & 255, g = p >> 8 & 255, b = p & 255;
        luma.put(y * stride + x, clamp(0.299 * r + 0.587 * g + 0.114 * b));
        if ((x | y) % 2 != 0) continue; // colour is kept for every other pixel of every other row
        int at = y / 2 * stride + x;
        chroma.put(at, clamp(128 - 0.168736 * r - 0.331264 * g + 0.5 * b));
        chroma.put(at + 1, clamp(128 + 0.5 * r - 0.418688 * g - 0.081312 * b));
      }
    }
    ByteBuffer second = chroma.duplicate();
    second.position(1);
    Image.Plane[] planes = {plane(luma, stride, 1), plane(chroma, stride, 2), plane(second.slice(), stride, 2)};
    return new Image() {
      @Override
      public int getFormat() {
        return ImageFormat.YUV_420_888;
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

  private static byte clamp(double value) {
    return (byte) Math.max(0, Math.min(255, Math.round(value)));
  }

  private static Image.Plane plane(ByteBuffer bytes, int rowStride, int pixelStride) {
    return new Image.Plane() {
      @Override
      public ByteBuffer getBuffer() {
        return bytes;
      }

      @Override
      public int getRowStride() {
        return rowStride;
      }

      @Override
      public int getPixelStride() {
        return pixelStride;
      }
    };
  }

  /** As a camera that is built in on its side sees it: the frame must be turned clockwise by 90 degrees to stand upright. */
  public static Bitmap onItsSide(Bitmap bitmap) {
    int width = bitmap.getWidth();
    int height = bitmap.getHeight();
    int[] pixels = new int[width * height];
    bitmap.getPixels(pixels, 0, width, 0, 0, width, height);
    int[] turned = new int[pixels.length];
    for (int y = 0; y < height; y++) {
      for (int x = 0; x < width; x++) turned[(width - 1 - x) * height + y] = pixels[y * width + x];
    }
    return new Bitmap(turned, height);
  }
}
