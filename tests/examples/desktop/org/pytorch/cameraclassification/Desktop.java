package org.pytorch.cameraclassification;

import android.graphics.Bitmap;
import android.media.Image;
import java.io.FileInputStream;
import org.pytorch.LiteModuleLoader;
import org.pytorch.examples.Labels;
import org.pytorch.examples.Photographs;

/** The app without its screen: model, labels, photograph, number of frames, and by how many degrees the camera is built in askew. */
public final class Desktop {
  public static void main(String[] words) throws Exception {
    FrameClassifier classifier = new FrameClassifier(LiteModuleLoader.load(words[0]), new Labels(new FileInputStream(words[1])));
    int rotation = Integer.parseInt(words[4]);
    Bitmap seen = Photographs.bitmap(words[2]);
    for (int degrees = 0; degrees < rotation; degrees += 90) seen = Photographs.onItsSide(seen);
    Image frame = Photographs.frame(seen);
    FrameClassifier.AnalysisResult result = null;
    for (int i = 0; i < Integer.parseInt(words[3]); i++) {
      result = classifier.analyzeImage(frame, rotation);
      System.out.println(result.moduleForwardDuration + " " + result.movingAverage);
    }
    result.topK.forEach(System.out::println);
  }
}
