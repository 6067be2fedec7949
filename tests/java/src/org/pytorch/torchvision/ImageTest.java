package org.pytorch.torchvision;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.pytorch.Numbers.fails;

import android.graphics.Bitmap;
import android.media.Image;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.Random;
import org.junit.Test;
import org.penlight.PenlightException;
import org.pytorch.MemoryFormat;
import org.pytorch.Tensor;

/** TensorImageUtils against the plain loops: odd sizes, strides, rotations, cuts, both orders, any buffer. */
public class ImageTest {
  private static final float[] MEAN = TensorImageUtils.TORCHVISION_NORM_MEAN_RGB, STD = TensorImageUtils.TORCHVISION_NORM_STD_RGB;
  private static final float[] ZERO = {0, 0, 0}, ONE = {1, 1, 1};
  private static final MemoryFormat[] FORMATS = {MemoryFormat.CONTIGUOUS, MemoryFormat.CHANNELS_LAST};

  private static Bitmap bitmap(int width, int height) {
    int[] pixels = new Random(width * 31 + height).ints(width * height).toArray();
    return new Bitmap(pixels, width);
  }

  /** To a hundredth of a step of a colour, and nothing is written beside the result. */
  private static void same(FloatBuffer expected, FloatBuffer got) {
    assertEquals(expected.capacity(), got.capacity());
    for (int i = 0; i < expected.capacity(); ++i) {
      if (Math.abs(expected.get(i) - got.get(i)) > 0.01 / 255) assertEquals("at " + i, expected.get(i), got.get(i), 0.01 / 255);
    }
  }

  private static FloatBuffer[] rooms(int count) {
    FloatBuffer[] made = {Tensor.allocateFloatBuffer(count), Tensor.allocateFloatBuffer(count)};
    for (FloatBuffer buffer : made) for (int i = 0; i < count; ++i) buffer.put(i, -9);
    return made;
  }

  @Test
  public void bitmaps() {
    int[][] sizes = {{1, 1}, {2, 3}, {5, 1}, {7, 9}, {16, 16}, {33, 2}, {255, 3}, {256, 2}, {257, 3}, {513, 2}, {224, 224}};
    for (int[] size : sizes) {
      for (MemoryFormat format : FORMATS) {
        int width = size[0], height = size[1], cutWidth = (width + 1) / 2, cutHeight = (height + 1) / 2;
        boolean last = format == MemoryFormat.CHANNELS_LAST;
        Bitmap bitmap = bitmap(width, height);
        Tensor whole = last ? TensorImageUtils.bitmapToFloat32Tensor(bitmap, MEAN, STD, format) : TensorImageUtils.bitmapToFloat32Tensor(bitmap, MEAN, STD);
        assertArrayEquals(new long[] {1, 3, height, width}, whole.shape());
        assertEquals(format, whole.memoryFormat());
        int[] pixels = new int[width * height];
        bitmap.getPixels(pixels, 0, width, 0, 0, width, height);
        FloatBuffer expected = Tensor.allocateFloatBuffer(3 * width * height);
        PlainImages.bitmap(pixels, width, height, MEAN, STD, expected, 0, last);
        same(expected, (FloatBuffer) whole.getRawDataBuffer());
        // a part of it, into a buffer at an offset
        int x = width - cutWidth, y = height - cutHeight, count = 3 * cutWidth * cutHeight;
        pixels = new int[cutWidth * cutHeight];
        bitmap.getPixels(pixels, 0, cutWidth, x, y, cutWidth, cutHeight);
        FloatBuffer[] rooms = rooms(count + 8);
        PlainImages.bitmap(pixels, cutWidth, cutHeight, ZERO, ONE, rooms[0], 5, last);
        if (last) TensorImageUtils.bitmapToFloatBuffer(bitmap, x, y, cutWidth, cutHeight, ZERO, ONE, rooms[1], 5, format);
        else TensorImageUtils.bitmapToFloatBuffer(bitmap, x, y, cutWidth, cutHeight, ZERO, ONE, rooms[1], 5);
        same(rooms[0], rooms[1]);
        Tensor part = last
            ? TensorImageUtils.bitmapToFloat32Tensor(bitmap, x, y, cutWidth, cutHeight, ZERO, ONE, format)
            : TensorImageUtils.bitmapToFloat32Tensor(bitmap, x, y, cutWidth, cutHeight, ZERO, ONE);
        assertEquals(rooms[0].get(5), part.getDataAsFloatArray()[0], 1e-5);
        // buffers on the heap and of the other byte order
        FloatBuffer heap = FloatBuffer.allocate(count + 8), swapped = ByteBuffer.allocateDirect(4 * count + 32).order(ByteOrder.BIG_ENDIAN).asFloatBuffer();
        for (FloatBuffer other : new FloatBuffer[] {heap, swapped}) {
          for (int i = 0; i < count + 8; ++i) other.put(i, -9);
          TensorImageUtils.bitmapToFloatBuffer(bitmap, x, y, cutWidth, cutHeight, ZERO, ONE, other, 5, format);
          same(rooms[0], other);
        }
      }
    }
  }

  @Test
  public void cameras() {
    int[][] sizes = {{1, 1}, {2, 2}, {5, 7}, {17, 11}, {64, 48}, {320, 241}, {639, 481}};
    int[][] results = {{1, 1}, {3, 2}, {9, 13}, {224, 224}, {300, 17}};
    int[][] strides = {{0, 1, 0, 1}, {3, 1, 5, 2}, {0, 2, 1, 3}};
    for (int[] size : sizes) {
      for (int[] stride : strides) {
        Image image = PlainImages.camera(size[0], size[1], stride[0], stride[1], stride[2], stride[3], 7);
        for (int[] result : results) {
          for (int rotate = 0; rotate < 360; rotate += 90) {
            for (MemoryFormat format : FORMATS) {
              boolean last = format == MemoryFormat.CHANNELS_LAST;
              int w = result[0], h = result[1];
              FloatBuffer[] rooms = rooms(3 * w * h + 8);
              PlainImages.yuv(image, rotate, w, h, MEAN, STD, rooms[0], 3, last);
              if (last) TensorImageUtils.imageYUV420CenterCropToFloatBuffer(image, rotate, w, h, MEAN, STD, rooms[1], 3, format);
              else TensorImageUtils.imageYUV420CenterCropToFloatBuffer(image, rotate, w, h, MEAN, STD, rooms[1], 3);
              same(rooms[0], rooms[1]);
              if (w != 9) continue;
              Tensor t = last
                  ? TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(image, rotate, w, h, MEAN, STD, format)
                  : TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(image, rotate, w, h, MEAN, STD);
              assertArrayEquals(new long[] {1, 3, h, w}, t.shape());
              assertEquals(format, t.memoryFormat());
              assertEquals(rooms[0].get(3), t.getDataAsFloatArray()[0], 1e-4);
            }
          }
        }
      }
    }
  }

  @Test
  public void mistakes() {
    Bitmap bitmap = bitmap(4, 4);
    Image image = PlainImages.camera(8, 8, 0, 1, 0, 1, 1);
    FloatBuffer out = Tensor.allocateFloatBuffer(48);
    Class<IllegalArgumentException> illegal = IllegalArgumentException.class;
    fails(illegal, () -> TensorImageUtils.bitmapToFloat32Tensor(bitmap, new float[2], STD), "normMeanRGB length must be 3");
    fails(illegal, () -> TensorImageUtils.bitmapToFloat32Tensor(bitmap, MEAN, new float[4]), "normStdRGB length must be 3");
    fails(illegal, () -> TensorImageUtils.bitmapToFloat32Tensor(bitmap, MEAN, STD, MemoryFormat.CHANNELS_LAST_3D), "Unsupported memory format");
    fails(illegal, () -> TensorImageUtils.bitmapToFloat32Tensor(bitmap, 1, 0, 4, 4, MEAN, STD), "x + width must be <= bitmap.width()");
    Class<IllegalStateException> state = IllegalStateException.class;
    fails(state, () -> TensorImageUtils.bitmapToFloatBuffer(bitmap, 0, 0, 4, 4, MEAN, STD, out, 1), "Buffer underflow");
    fails(state, () -> TensorImageUtils.imageYUV420CenterCropToFloatBuffer(image, 0, 4, 5, MEAN, STD, out, 0), "Buffer underflow");
    fails(illegal, () -> TensorImageUtils.imageYUV420CenterCropToFloatBuffer(image, 45, 4, 4, MEAN, STD, out, 0), "rotateCWDegrees must be one of 0, 90, 180, 270");
    fails(illegal, () -> TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(image, 0, 0, 4, MEAN, STD), "tensorHeight and tensorWidth must be positive");
    fails(illegal, () -> TensorImageUtils.imageYUV420CenterCropToFloat32Tensor(image, 0, 4, 4, ZERO, new float[1]), "normStdRGB length must be 3");
    fails(illegal, () -> TensorImageUtils.imageYUV420CenterCropToFloatBuffer(image, 0, 4, 4, MEAN, STD, out.asReadOnlyBuffer(), 0), "read-only");
    Image short_ = new Image() {
      @Override
      public int getFormat() {
        return 35;
      }

      @Override
      public int getWidth() {
        return 80;
      }

      @Override
      public int getHeight() {
        return 80;
      }

      @Override
      public Plane[] getPlanes() {
        return image.getPlanes();
      }
    };
    fails(PenlightException.class, () -> TensorImageUtils.imageYUV420CenterCropToFloatBuffer(short_, 0, 4, 4, MEAN, STD, out, 0), "plane Y: expected", "bytes or more", "got 64");
    Image other = PlainImages.camera(8, 8, 0, 1, 0, 1, 1);
    fails(illegal, () -> TensorImageUtils.imageYUV420CenterCropToFloatBuffer(jpeg(other), 0, 4, 4, MEAN, STD, out, 0), "Image format 256 != ImageFormat.YUV_420_888");
  }

  private static Image jpeg(Image image) {
    return new Image() {
      @Override
      public int getFormat() {
        return 256;
      }

      @Override
      public int getWidth() {
        return image.getWidth();
      }

      @Override
      public int getHeight() {
        return image.getHeight();
      }

      @Override
      public Plane[] getPlanes() {
        return image.getPlanes();
      }
    };
  }
}
