package org.pytorch;

import org.penlight.Model;

/** Loads the native libraries ahead of their first use: whoever comes later does not wait for it. */
public class PyTorchCodegenLoader {
  private PyTorchCodegenLoader() {}

  public static void loadNativeLibs() {
    Model.loadLibrary();
  }
}
