package org.pytorch;

/** The order in which the numbers of a {@link Tensor} lie in memory. */
public enum MemoryFormat {
  /** The last dimension runs fastest: NCHW for images. */
  CONTIGUOUS(1),
  /** NHWC, of four dimensions. */
  CHANNELS_LAST(2),
  /** NDHWC, of five dimensions. */
  CHANNELS_LAST_3D(3);

  final int jniCode;

  MemoryFormat(int jniCode) {
    this.jniCode = jniCode;
  }
}
