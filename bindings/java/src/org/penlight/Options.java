package org.penlight;

/** How a session runs. Every setter returns the options themselves. */
public final class Options {
  int threads;
  String device = "cpu";
  boolean f16;
  long memoryLimit;
  long maxSteps;

  /** 0: one per core. */
  public Options threads(int count) {
    if (count < 0) throw new IllegalArgumentException("threads: expected 0 (one per core) or more, got " + count);
    threads = count;
    return this;
  }

  /** "cpu", "vulkan", "vulkan:1" (a number in the list of devices, or part of a name). */
  public Options device(String name) {
    device = name;
    return this;
  }

  /** A GPU that can stores f32 values as f16; sums stay f32. */
  public Options f16(boolean on) {
    f16 = on;
    return this;
  }

  /** Bytes of all memory for intermediate values, and of any one tensor; 0: no limit but the machine's. */
  public Options memoryLimit(long bytes) {
    memoryLimit = bytes;
    return this;
  }

  /**
   * Of interpreted methods, in one run: instructions, and elements that operators go through; 0: no limit. For models of unknown origin, whose
   * code may have no end.
   */
  public Options maxSteps(long count) {
    if (count < 0) throw new IllegalArgumentException("maxSteps: expected 0 (no limit) or more, got " + count);
    maxSteps = count;
    return this;
  }
}
