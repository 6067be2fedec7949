package androidx.camera.core;

import java.util.concurrent.Executor;

public final class ImageAnalysis extends UseCase {
  public static final int STRATEGY_KEEP_ONLY_LATEST = 0;

  public interface Analyzer {
    void analyze(ImageProxy image);
  }

  public static final class Builder {
    public Builder setBackpressureStrategy(int strategy) {
      return this;
    }

    public ImageAnalysis build() {
      throw new UnsupportedOperationException();
    }
  }

  public void setAnalyzer(Executor executor, Analyzer analyzer) {}
}
