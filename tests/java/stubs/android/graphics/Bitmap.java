package android.graphics;

/** A picture of ints, 0xAARRGGBB. */
public final class Bitmap {
  private final int[] pixels;
  private final int width;

  public Bitmap(int[] pixels, int width) {
    this.pixels = pixels;
    this.width = width;
  }

  public int getWidth() {
    return width;
  }

  public int getHeight() {
    return pixels.length / width;
  }

  public void getPixels(int[] to, int offset, int stride, int x, int y, int width, int height) {
    if (x < 0 || y < 0 || x + width > this.width || y + height > getHeight()) throw new IllegalArgumentException("x + width must be <= bitmap.width()");
    for (int row = 0; row < height; ++row) System.arraycopy(pixels, (y + row) * this.width + x, to, offset + row * stride, width);
  }

  public enum Config {
    ARGB_8888
  }

  public static Bitmap createBitmap(int[] pixels, int width, int height, Config config) {
    if (pixels.length < width * height) throw new ArrayIndexOutOfBoundsException();
    return new Bitmap(java.util.Arrays.copyOf(pixels, width * height), width);
  }

  /** Between the four nearest pixels, as Android does with filter. */
  public static Bitmap createScaledBitmap(Bitmap from, int width, int height, boolean filter) {
    int[] scaled = new int[width * height];
    for (int y = 0; y < height; ++y) {
      double down = Math.max(0, Math.min(from.getHeight() - 1, (y + 0.5) * from.getHeight() / height - 0.5));
      int top = Math.min((int) down, from.getHeight() - 2);
      for (int x = 0; x < width; ++x) {
        double right = Math.max(0, Math.min(from.width - 1, (x + 0.5) * from.width / width - 0.5));
        int left = Math.min((int) right, from.width - 2);
        int rgb = 0;
        for (int shift = 0; shift < 32; shift += 8) {
          double value = 0;
          for (int k = 0; k < 4; ++k) {
            double weight = (k % 2 == 0 ? 1 - (right - left) : right - left) * (k < 2 ? 1 - (down - top) : down - top);
            value += weight * (from.pixels[(top + k / 2) * from.width + left + k % 2] >>> shift & 255);
          }
          rgb |= (int) Math.round(value) << shift;
        }
        scaled[y * width + x] = rgb;
      }
    }
    return new Bitmap(scaled, width);
  }
}
