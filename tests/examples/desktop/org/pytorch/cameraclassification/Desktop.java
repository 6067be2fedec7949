package org.pytorch.cameraclassification;

import android.media.Image;
import java.io.FileInputStream;
import org.pytorch.LiteModuleLoader;
import org.pytorch.examples.Labels;
import org.pytorch.examples.Photographs;

/** The app without its screen: model, labels, photograph, which stands before the camera for a number of frames. */
public final class Desktop {
  public static void main(String[] words) throws Exception {
    FrameClassifier classifier = new FrameClassifier(LiteModuleLoader.load(words[0]), new Labels(new FileInputStream(words[1])));
    Image frame = Photographs.frame(Photographs.onItsSide(Photographs.bitmap(words[2])));
    FrameClassifier.AnalysisResult result = null;
    for (int i = 0; i < Integer.parseInt(words[3]); i++) {
      result = classifier.analyzeImage(frame, 90);
      System.out.println(result.moduleForwardDuration + " " + result.movingAverage);
    }
    result.topK.forEach(System.out::println);
  }
}
