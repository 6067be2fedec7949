package org.pytorch.vulkantest;

import android.graphics.Bitmap;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.pytorch.Device;
import org.pytorch.IValue;
import org.pytorch.Module;
import org.pytorch.Tensor;
import org.pytorch.examples.EfficientNet;
import org.pytorch.examples.Labels;

/** Runs a model on the CPU and on the GPU, and says in lines of text how long each took and whether they agree. Knows nothing of screens. */
final class DeviceTest {
  /** Where the model comes from. */
  interface Loader {
    Module load(Device device);
  }

  private DeviceTest() {}

  /** The time of a device is that of the shortest of {@code runs}, after one that is not counted. */
  static List<String> run(Loader loader, Labels labels, Bitmap photograph, int runs) {
    Tensor inputTensor = EfficientNet.input(photograph);
    List<String> lines = new ArrayList<>();
    float[] expected = null;
    for (Device device : new Device[] {Device.CPU, Device.VULKAN}) {
      Module module;
      try {
        module = loader.load(device);
      } catch (RuntimeException e) { // no driver, or a library that was built without it: the reason is in it
        lines.add(device + ": " + e.getMessage());
        continue;
      }
      Tensor outputTensor = module.forward(IValue.from(inputTensor)).toTensor(); // copied there and back by itself
      long shortest = Long.MAX_VALUE;
      for (int i = 0; i < runs; i++) {
        long start = System.nanoTime();
        outputTensor = module.forward(IValue.from(inputTensor)).toTensor();
        shortest = Math.min(shortest, System.nanoTime() - start);
      }
      float[] scores = outputTensor.getDataAsFloatArray();
      module.destroy();
      lines.add(String.format(Locale.ROOT, "%s: %.1f ms", device, shortest / 1e6));
      for (Labels.Scored scored : labels.top(scores, 3)) lines.add("  " + scored);
      if (expected == null) {
        expected = scores;
      } else {
        lines.add(String.format(Locale.ROOT, "greatest difference: %.1e of the greatest score", difference(expected, scores)));
      }
    }
    return lines;
  }

  private static double difference(float[] expected, float[] got) {
    double largest = 0;
    double greatest = 0;
    for (int i = 0; i < expected.length; i++) {
      largest = Math.max(largest, Math.abs(expected[i]));
      greatest = Math.max(greatest, Math.abs(got[i] - expected[i]));
    }
    return greatest / largest;
  }
}
