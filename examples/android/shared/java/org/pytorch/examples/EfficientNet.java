package org.pytorch.examples;

import android.graphics.Bitmap;
import org.pytorch.Tensor;
import org.pytorch.torchvision.TensorImageUtils;

/** What EfficientNet-Lite0 takes: 224 x 224 pixels, each (pixel - 127) / 128, as its authors trained it. */
public final class EfficientNet {
  public static final int SIZE = 224;
  public static final float[] MEAN = {127 / 255f, 127 / 255f, 127 / 255f};
  public static final float[] STD = {128 / 255f, 128 / 255f, 128 / 255f};
  private static final int SHORTER = 256; // side of the photograph that the middle is cut from

  private EfficientNet() {}

  /** The middle of a photograph. */
  public static Tensor input(Bitmap photograph) {
    double scale = (double) SHORTER / Math.min(photograph.getWidth(), photograph.getHeight());
    int width = (int) Math.round(photograph.getWidth() * scale);
    int height = (int) Math.round(photograph.getHeight() * scale);
    Bitmap scaled = Bitmap.createScaledBitmap(photograph, width, height, true);
    int x = (width - SIZE) / 2;
    int y = (height - SIZE) / 2;
    return TensorImageUtils.bitmapToFloat32Tensor(scaled, x, y, SIZE, SIZE, MEAN, STD);
  }
}
