package org.penlight;

import org.pytorch.IValue;

/** Example inputs that a file carries for a method, and what they should give. */
public final class Bundle {
  public final String method;
  public final String info;
  public final IValue[] inputs;
  /** Null: not told. */
  public final IValue output;
  public final double absolute;
  public final double relative;

  Bundle(byte[][] texts, IValue[] inputs, IValue output, double[] limits) {
    method = Native.string(texts[0]);
    info = Native.string(texts[1]);
    this.inputs = inputs;
    this.output = output;
    absolute = limits[0];
    relative = limits[1];
  }
}
