package org.pytorch;

import java.util.Map;

/** A model that runs: what a {@code .pen} file holds, under whatever name it has. May be called from several threads, which take turns. */
public class Module {
  private final INativePeer mNativePeer;

  Module(INativePeer nativePeer) {
    mNativePeer = nativePeer;
  }

  /**
   * Loads a model for a device.
   *
   * @param extraFiles names of files that were saved with the model; their contents are put in as values. May be null.
   */
  public static Module load(final String modelPath, final Map<String, String> extraFiles, final Device device) {
    return new Module(new NativePeer(modelPath, extraFiles, device));
  }

  /** Loads a model for the CPU. */
  public static Module load(final String modelPath) {
    return load(modelPath, null, Device.CPU);
  }

  /** Runs the method {@code forward}. */
  public IValue forward(IValue... inputs) {
    return mNativePeer.forward(inputs);
  }

  /** Runs a method by its name. */
  public IValue runMethod(String methodName, IValue... inputs) {
    return mNativePeer.runMethod(methodName, inputs);
  }

  /** Gives the memory back now, not when the garbage collector comes by. The module cannot be called afterwards. */
  public void destroy() {
    mNativePeer.resetNative();
  }
}
