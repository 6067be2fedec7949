package org.pytorch.imagesegmentation;

import android.graphics.Bitmap;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.pytorch.IValue;
import org.pytorch.Module;
import org.pytorch.Tensor;
import org.pytorch.torchvision.TensorImageUtils;

/** A photograph in, a class for each of its pixels out, by DeepLabV3. Knows nothing of screens. */
final class Segmenter {
  /** Those of PASCAL VOC, in the order of the model's outputs. */
  static final String[] CLASSES = {
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog", "horse",
    "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"
  };
  static final int SIZE = 400; // sides of what the model sees

  private final Module module;

  Segmenter(Module module) {
    this.module = module;
  }

  /** A class a pixel, row by row, of the photograph scaled to SIZE x SIZE. */
  int[] segment(Bitmap photograph) {
    Bitmap bitmap = Bitmap.createScaledBitmap(photograph, SIZE, SIZE, true);
    final Tensor input =
        TensorImageUtils.bitmapToFloat32Tensor(
            bitmap, TensorImageUtils.TORCHVISION_NORM_MEAN_RGB, TensorImageUtils.TORCHVISION_NORM_STD_RGB);
    Map<String, IValue> outputs = module.forward(IValue.from(input)).toDictStringKey();
    final float[] scores = outputs.get("out").toTensor().getDataAsFloatArray();
    int pixels = SIZE * SIZE;
    int[] classes = new int[pixels];
    float[] best = new float[pixels];
    System.arraycopy(scores, 0, best, 0, pixels);
    for (int c = 1; c < CLASSES.length; c++) { // plane by plane, as they lie in memory
      for (int i = 0; i < pixels; i++) {
        float score = scores[c * pixels + i];
        if (score > best[i]) {
          best[i] = score;
          classes[i] = c;
        }
      }
    }
    return classes;
  }

  /** The photograph, SIZE x SIZE, each pixel that is not background half in the colour of its class. */
  static int[] overlay(Bitmap photograph, int[] classes) {
    int[] pixels = new int[SIZE * SIZE];
    Bitmap.createScaledBitmap(photograph, SIZE, SIZE, true).getPixels(pixels, 0, SIZE, 0, 0, SIZE, SIZE);
    for (int i = 0; i < pixels.length; i++) {
      if (classes[i] != 0) pixels[i] = 0xff000000 | ((pixels[i] >> 1 & 0x7f7f7f) + (colour(classes[i]) >> 1 & 0x7f7f7f));
    }
    return pixels;
  }

  /** As PASCAL VOC colours its classes: bits of the number, spread over red, green and blue. */
  static int colour(int number) {
    int rgb = 0;
    for (int bit = 7; number != 0; bit--, number >>= 3) {
      rgb |= (number & 1) << (16 + bit) | (number >> 1 & 1) << (8 + bit) | (number >> 2 & 1) << bit;
    }
    return rgb;
  }

  /** Names of the classes that at least a hundredth of the pixels have, without the background. */
  static List<String> found(int[] classes) {
    int[] counts = new int[CLASSES.length];
    for (int c : classes) counts[c]++;
    List<String> names = new ArrayList<>();
    for (int c = 1; c < counts.length; c++) {
      if (counts[c] * 100 >= classes.length) names.add(CLASSES[c]);
    }
    return names;
  }
}
