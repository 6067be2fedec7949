package org.pytorch.helloworld;

import java.io.FileInputStream;
import org.pytorch.LiteModuleLoader;
import org.pytorch.examples.Labels;
import org.pytorch.examples.Photographs;

/** The app without its screen: model, labels, photograph. */
public final class Desktop {
  public static void main(String[] files) throws Exception {
    Classifier classifier = new Classifier(LiteModuleLoader.load(files[0]), new Labels(new FileInputStream(files[1])));
    classifier.top(Photographs.bitmap(files[2]), 3).forEach(System.out::println);
  }
}
