package org.pytorch;

/** What a {@link Module} hands its calls to. */
public interface INativePeer {
  void resetNative();

  IValue forward(IValue... inputs);

  IValue runMethod(String methodName, IValue... inputs);
}
