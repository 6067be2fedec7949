package org.penlight;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.ShortBuffer;
import java.util.Arrays;
import org.pytorch.DType;
import org.pytorch.MemoryFormat;
import org.pytorch.Tensor;

/** Tensors of numbers that Java has no type for: f16 and bool. */
public final class Tensors {
  private static final DType[] DTYPES = { // by the numbers of pen_dtype
    DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL, DType.BFLOAT16,
  };
  private static final int[] BYTES = {4, 2, 8, 1, 1, 2, 4, 8, 1, 2};
  private static final int[] CODES = new int[DTYPES.length]; // by the numbers of the enum

  static {
    for (int code = 0; code < DTYPES.length; ++code) CODES[DTYPES[code].ordinal()] = code;
  }

  private Tensors() {}

  /** An f16 tensor; floats are rounded to the nearest. */
  public static Tensor half(float[] values, long... shape) {
    ByteBuffer bytes = room(2L * values.length, shape);
    for (int i = 0; i < values.length; ++i) bytes.putShort(2 * i, toHalf(values[i]));
    return Tensor.fromBlob(bytes, shape, MemoryFormat.CONTIGUOUS, DType.FLOAT16);
  }

  public static Tensor bool(boolean[] values, long... shape) {
    ByteBuffer bytes = room(values.length, shape);
    for (int i = 0; i < values.length; ++i) bytes.put(i, (byte) (values[i] ? 1 : 0));
    return Tensor.fromBlob(bytes, shape, MemoryFormat.CONTIGUOUS, DType.BOOL);
  }

  /** The numbers of an f16, bf16 or f32 tensor. */
  public static float[] floats(Tensor tensor) {
    if (tensor.dtype() == DType.FLOAT32) return tensor.getDataAsFloatArray();
    boolean half = tensor.dtype() == DType.FLOAT16;
    if (!half && tensor.dtype() != DType.BFLOAT16) {
      throw new IllegalStateException("floats: expected a tensor of FLOAT16, BFLOAT16 or FLOAT32, got " + tensor);
    }
    ShortBuffer data = (ShortBuffer) tensor.getRawDataBuffer();
    float[] values = new float[data.capacity()];
    for (int i = 0; i < values.length; ++i) values[i] = half ? fromHalf(data.get(i)) : Float.intBitsToFloat(data.get(i) << 16);
    return values;
  }

  public static boolean[] booleans(Tensor tensor) {
    if (tensor.dtype() != DType.BOOL) throw new IllegalStateException("booleans: expected a tensor of BOOL, got " + tensor);
    ByteBuffer data = (ByteBuffer) tensor.getRawDataBuffer();
    boolean[] values = new boolean[data.capacity()];
    for (int i = 0; i < values.length; ++i) values[i] = data.get(i) != 0;
    return values;
  }

  /** An empty tensor of a kind and shape, to run into (Session.runInto). */
  public static Tensor empty(DType dtype, long... shape) {
    ByteBuffer room = room(Tensor.numel(shape) * BYTES[CODES[dtype.ordinal()]], shape);
    return Tensor.fromBlob(room, shape, MemoryFormat.CONTIGUOUS, dtype);
  }

  static ByteBuffer room(long bytes, long[] shape) {
    if (bytes > Integer.MAX_VALUE || bytes < 0) {
      throw new IllegalArgumentException("a tensor of shape " + Arrays.toString(shape) + " is larger than Java's buffers (2 GiB)");
    }
    return ByteBuffer.allocateDirect((int) bytes).order(ByteOrder.nativeOrder());
  }

  static DType dtype(int code) {
    return DTYPES[code];
  }

  static int code(Tensor tensor) {
    return CODES[tensor.dtype().ordinal()];
  }

  /** Puts a tensor's dims into room for 8, and returns how many there are. */
  static int dims(Tensor tensor, long[] dims) {
    int rank = tensor.dim();
    if (rank > 8) throw new IllegalArgumentException("a tensor: expected at most 8 dimensions, got " + rank);
    for (int i = 0; i < rank; ++i) dims[i] = tensor.size(i);
    return rank;
  }

  static long bytes(Tensor tensor) {
    Buffer data = tensor.getRawDataBuffer();
    return (long) data.capacity() * BYTES[code(tensor)];
  }

  static int elementBytes(int code) {
    return BYTES[code];
  }

  static short toHalf(float value) {
    int bits = Float.floatToIntBits(value), sign = bits >>> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (short) (sign | 0x7e00);
    if (magnitude >= 0x477ff000) return (short) (sign | 0x7c00); // 65520 and more
    if (magnitude < 0x38800000) { // below 2^-14: in steps of 2^-24
      return (short) (sign | (int) Math.rint(Math.abs((double) value) * (1 << 24)));
    }
    int rounded = magnitude + 0xfff + (magnitude >>> 13 & 1);
    return (short) (sign | (rounded - 0x38000000) >>> 13);
  }

  static float fromHalf(short half) {
    int exponent = half >>> 10 & 31, fraction = half & 1023;
    float sign = half < 0 ? -1 : 1;
    if (exponent == 31) return fraction != 0 ? Float.NaN : sign * Float.POSITIVE_INFINITY;
    if (exponent == 0) return sign * fraction / (1 << 24);
    return Float.intBitsToFloat((half & 0x8000) << 16 | exponent + 112 << 23 | fraction << 13);
  }
}
