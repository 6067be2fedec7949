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
}
