package org.pytorch;

/** Kinds of numbers in a {@link Tensor}. The last four are Penlight's: {@link org.penlight.Tensors} makes and reads them. */
public enum DType {
  UINT8(1),
  INT8(2),
  INT32(3),
  FLOAT32(4),
  INT64(5),
  FLOAT64(6),
  FLOAT16(7),
  BOOL(8),
  INT16(9),
  BFLOAT16(10);

  final int jniCode;

  DType(int jniCode) {
    this.jniCode = jniCode;
  }
}
