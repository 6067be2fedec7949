package org.pytorch.vulkantest;

import java.io.FileInputStream;
import org.pytorch.Module;
import org.pytorch.examples.Labels;
import org.pytorch.examples.Photographs;

/** The app without its screen: model, labels, photograph. */
public final class Desktop {
  public static void main(String[] files) throws Exception {
    Labels labels = new Labels(new FileInputStream(files[1]));
    DeviceTest.run(device -> Module.load(files[0], null, device), labels, Photographs.bitmap(files[2]), 2)
        .forEach(System.out::println);
  }
}
