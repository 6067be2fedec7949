package org.penlight;

/** One kernel call in a profile. */
public final class StepTime {
  public final String kernel;
  public final String output;
  /** The Python line that it came from. */
  public final String source;
  public final double seconds;

  StepTime(byte[][] texts, double seconds) {
    kernel = Native.string(texts[0]);
    output = Native.string(texts[1]);
    source = Native.string(texts[2]);
    this.seconds = seconds;
  }
}
