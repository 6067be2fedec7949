package org.pytorch.cameraclassification;

import android.media.Image;
import java.nio.FloatBuffer;
import java.util.List;
import org.pytorch.IValue;
import org.pytorch.Module;
import org.pytorch.Tensor;
import org.pytorch.examples.EfficientNet;
import org.pytorch.examples.Labels;
import org.pytorch.torchvision.TensorImageUtils;

/** Frames of a camera in, what is likely on each out. Knows nothing of screens. One buffer serves all frames. */
final class FrameClassifier {
  static final int TOP_K = 3;
  static final int MOVING_AVG_PERIOD = 10;

  static final class AnalysisResult {
    final List<Labels.Scored> topK;
    final long moduleForwardDuration; // ms
    final long analysisDuration; // ms, with the conversion of the frame
    final double movingAverage; // ms of the last frames' forward

    AnalysisResult(List<Labels.Scored> topK, long moduleForwardDuration, long analysisDuration, double movingAverage) {
      this.topK = topK;
      this.moduleForwardDuration = moduleForwardDuration;
      this.analysisDuration = analysisDuration;
      this.movingAverage = movingAverage;
    }
  }

  private final Module mModule;
  private final Labels mLabels;
  private final FloatBuffer mInputTensorBuffer = Tensor.allocateFloatBuffer(3 * EfficientNet.SIZE * EfficientNet.SIZE);
  private final Tensor mInputTensor = Tensor.fromBlob(mInputTensorBuffer, new long[] {1, 3, EfficientNet.SIZE, EfficientNet.SIZE});
  private final MovingAverage mMovingAverage = new MovingAverage(MOVING_AVG_PERIOD);

  FrameClassifier(Module module, Labels labels) {
    mModule = module;
    mLabels = labels;
  }

  AnalysisResult analyzeImage(Image image, int rotationDegrees) {
    final long startTime = System.nanoTime();
    TensorImageUtils.imageYUV420CenterCropToFloatBuffer(
        image,
        rotationDegrees,
        EfficientNet.SIZE,
        EfficientNet.SIZE,
        EfficientNet.MEAN,
        EfficientNet.STD,
        mInputTensorBuffer,
        0);
    final long moduleForwardStartTime = System.nanoTime();
    final Tensor outputTensor = mModule.forward(IValue.from(mInputTensor)).toTensor();
    final long moduleForwardDuration = (System.nanoTime() - moduleForwardStartTime) / 1_000_000;
    final List<Labels.Scored> topK = mLabels.top(outputTensor.getDataAsFloatArray(), TOP_K);
    final long analysisDuration = (System.nanoTime() - startTime) / 1_000_000;
    return new AnalysisResult(topK, moduleForwardDuration, analysisDuration, mMovingAverage.add(moduleForwardDuration));
  }
}
