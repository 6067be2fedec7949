package org.pytorch.imagesegmentation;

import android.graphics.Bitmap;
import java.util.List;
import org.pytorch.LiteModuleLoader;
import org.pytorch.examples.Photographs;

/** The app without its screen: model, photograph; writes the overlay, and classes as grey values. */
public final class Desktop {
  public static void main(String[] files) throws Exception {
    Bitmap photograph = Photographs.bitmap(files[1]);
    int[] classes = new Segmenter(LiteModuleLoader.load(files[0])).segment(photograph);
    Photographs.write(Segmenter.overlay(photograph, classes), Segmenter.SIZE, files[2]);
    List<String> found = Segmenter.found(classes);
    for (int i = 0; i < classes.length; i++) classes[i] *= 0x010101;
    Photographs.write(classes, Segmenter.SIZE, files[3]);
    System.out.println(String.join(", ", found));
    for (int c = 0; c < Segmenter.CLASSES.length; c++) System.out.printf("%06x %s%n", Segmenter.colour(c), Segmenter.CLASSES[c]);
  }
}
