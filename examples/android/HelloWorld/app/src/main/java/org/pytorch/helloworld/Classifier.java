package org.pytorch.helloworld;

import android.graphics.Bitmap;
import java.util.List;
import org.pytorch.IValue;
import org.pytorch.Module;
import org.pytorch.Tensor;
import org.pytorch.examples.EfficientNet;
import org.pytorch.examples.Labels;

/** A photograph in, what is likely on it out. Knows nothing of screens. */
final class Classifier {
  private final Module module;
  private final Labels labels;

  Classifier(Module module, Labels labels) {
    this.module = module;
    this.labels = labels;
  }

  List<Labels.Scored> top(Bitmap photograph, int count) {
    Tensor input = EfficientNet.input(photograph);
    Tensor output = module.forward(IValue.from(input)).toTensor();
    return labels.top(output.getDataAsFloatArray(), count);
  }
}
