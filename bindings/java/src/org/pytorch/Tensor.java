package org.pytorch;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.Arrays;
import java.util.Locale;

/**
 * Numbers of one kind in one or more dimensions, in a direct buffer of native byte order. The buffer is used in place, never copied: what
 * is written into it before the next call is what that call reads.
 */
public abstract class Tensor {
  private static final String ERROR_MSG_DATA_BUFFER_NOT_NULL = "Data buffer must be not null";
  private static final String ERROR_MSG_DATA_ARRAY_NOT_NULL = "Data array must be not null";
  private static final String ERROR_MSG_SHAPE_NOT_NULL = "Shape must be not null";
  private static final String ERROR_MSG_SHAPE_NON_NEGATIVE = "Shape elements must be non negative";
  private static final String ERROR_MSG_DATA_BUFFER_MUST_HAVE_NATIVE_BYTE_ORDER =
      "Data buffer must have native byte order (java.nio.ByteOrder#nativeOrder)";
  private static final String ERROR_MSG_DATA_BUFFER_MUST_BE_DIRECT =
      "Data buffer must be direct (java.nio.ByteBuffer#allocateDirect)";

  final long[] shape;
  final MemoryFormat memoryFormat;

  private Tensor(long[] shape, MemoryFormat memoryFormat) {
    checkShape(shape);
    this.shape = Arrays.copyOf(shape, shape.length);
    this.memoryFormat = memoryFormat;
  }

  // --- room for data ---

  /** A direct buffer of native byte order, as tensors need it. */
  public static ByteBuffer allocateByteBuffer(int numElements) {
    return ByteBuffer.allocateDirect(numElements).order(ByteOrder.nativeOrder());
  }

  /** A direct buffer of native byte order, as tensors need it. */
  public static IntBuffer allocateIntBuffer(int numElements) {
    return ByteBuffer.allocateDirect(bytesOf(numElements, 4)).order(ByteOrder.nativeOrder()).asIntBuffer();
  }

  /** A direct buffer of native byte order, as tensors need it. */
  public static FloatBuffer allocateFloatBuffer(int numElements) {
    return ByteBuffer.allocateDirect(bytesOf(numElements, 4)).order(ByteOrder.nativeOrder()).asFloatBuffer();
  }

  /** A direct buffer of native byte order, as tensors need it. */
  public static LongBuffer allocateLongBuffer(int numElements) {
    return ByteBuffer.allocateDirect(bytesOf(numElements, 8)).order(ByteOrder.nativeOrder()).asLongBuffer();
  }

  /** A direct buffer of native byte order, as tensors need it. */
  public static DoubleBuffer allocateDoubleBuffer(int numElements) {
    return ByteBuffer.allocateDirect(bytesOf(numElements, 8)).order(ByteOrder.nativeOrder()).asDoubleBuffer();
  }

  // --- tensors over arrays (copied) and buffers (used in place) ---

  public static Tensor fromBlob(byte[] data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    final ByteBuffer buffer = allocateByteBuffer(data.length);
    buffer.put(data);
    return fromBlob(buffer, shape, memoryFormat);
  }

  public static Tensor fromBlob(byte[] data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlob(ByteBuffer data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    checkOrder(data.order());
    return new Dense(DType.INT8, data, shape, memoryFormat);
  }

  public static Tensor fromBlob(ByteBuffer data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlob(int[] data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    final IntBuffer buffer = allocateIntBuffer(data.length);
    buffer.put(data);
    return fromBlob(buffer, shape, memoryFormat);
  }

  public static Tensor fromBlob(int[] data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlob(IntBuffer data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    checkOrder(data.order());
    return new Dense(DType.INT32, data, shape, memoryFormat);
  }

  public static Tensor fromBlob(IntBuffer data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlob(float[] data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    final FloatBuffer buffer = allocateFloatBuffer(data.length);
    buffer.put(data);
    return fromBlob(buffer, shape, memoryFormat);
  }

  public static Tensor fromBlob(float[] data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlob(FloatBuffer data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    checkOrder(data.order());
    return new Dense(DType.FLOAT32, data, shape, memoryFormat);
  }

  public static Tensor fromBlob(FloatBuffer data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlob(long[] data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    final LongBuffer buffer = allocateLongBuffer(data.length);
    buffer.put(data);
    return fromBlob(buffer, shape, memoryFormat);
  }

  public static Tensor fromBlob(long[] data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlob(LongBuffer data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    checkOrder(data.order());
    return new Dense(DType.INT64, data, shape, memoryFormat);
  }

  public static Tensor fromBlob(LongBuffer data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlob(double[] data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    final DoubleBuffer buffer = allocateDoubleBuffer(data.length);
    buffer.put(data);
    return fromBlob(buffer, shape, memoryFormat);
  }

  public static Tensor fromBlob(double[] data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlob(DoubleBuffer data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    checkOrder(data.order());
    return new Dense(DType.FLOAT64, data, shape, memoryFormat);
  }

  public static Tensor fromBlob(DoubleBuffer data, long[] shape) {
    return fromBlob(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlobUnsigned(byte[] data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    final ByteBuffer buffer = allocateByteBuffer(data.length);
    buffer.put(data);
    return fromBlobUnsigned(buffer, shape, memoryFormat);
  }

  public static Tensor fromBlobUnsigned(byte[] data, long[] shape) {
    return fromBlobUnsigned(data, shape, MemoryFormat.CONTIGUOUS);
  }

  public static Tensor fromBlobUnsigned(ByteBuffer data, long[] shape, MemoryFormat memoryFormat) {
    checkData(data, shape);
    checkOrder(data.order());
    return new Dense(DType.UINT8, data, shape, memoryFormat);
  }

  public static Tensor fromBlobUnsigned(ByteBuffer data, long[] shape) {
    return fromBlobUnsigned(data, shape, MemoryFormat.CONTIGUOUS);
  }

  /** Any kind of numbers over their bytes. Penlight's own: the old interface has no f16, bool, i16 and bf16. */
  public static Tensor fromBlob(ByteBuffer data, long[] shape, MemoryFormat memoryFormat, DType dtype) {
    checkArgument(data != null, ERROR_MSG_DATA_BUFFER_NOT_NULL);
    checkArgument(data.isDirect(), ERROR_MSG_DATA_BUFFER_MUST_BE_DIRECT);
    checkOrder(data.order());
    final ByteBuffer bytes = data.duplicate().order(ByteOrder.nativeOrder());
    bytes.clear();
    final Buffer view = view(bytes, dtype);
    checkData(view, shape);
    return new Dense(dtype, view, shape, memoryFormat);
  }

  // --- what it is ---
  public long numel() {
    return numel(shape);
  }

  /** The number of elements of a shape. */
  public static long numel(long[] shape) {
    checkShape(shape);
    long result = 1;
    for (long size : shape) {
      // A shape of more elements than a long counts fits no buffer: its product must not come around to a small number.
      result = size != 0 && result > Long.MAX_VALUE / size ? Long.MAX_VALUE : result * size;
    }
    return result;
  }

  public long[] shape() {
    return Arrays.copyOf(shape, shape.length);
  }

  /** The number of dimensions. Penlight's own, as is size(): loops ask for them without a copy of the shape. */
  public int dim() {
    return shape.length;
  }

  public long size(int dim) {
    return shape[dim];
  }

  public MemoryFormat memoryFormat() {
    return memoryFormat;
  }

  public abstract DType dtype();

  /** The buffer itself, not a copy. Penlight's own: results can be read in place. */
  public abstract Buffer getRawDataBuffer();

  // --- its data, copied ---

  public byte[] getDataAsByteArray() {
    checkKind(DType.INT8, "byte");
    final ByteBuffer data = ((ByteBuffer) getRawDataBuffer()).duplicate();
    data.clear();
    final byte[] array = new byte[data.remaining()];
    data.get(array);
    return array;
  }

  public byte[] getDataAsUnsignedByteArray() {
    checkKind(DType.UINT8, "byte");
    final ByteBuffer data = ((ByteBuffer) getRawDataBuffer()).duplicate();
    data.clear();
    final byte[] array = new byte[data.remaining()];
    data.get(array);
    return array;
  }

  public int[] getDataAsIntArray() {
    checkKind(DType.INT32, "int");
    final IntBuffer data = ((IntBuffer) getRawDataBuffer()).duplicate();
    data.clear();
    final int[] array = new int[data.remaining()];
    data.get(array);
    return array;
  }

  public float[] getDataAsFloatArray() {
    checkKind(DType.FLOAT32, "float");
    final FloatBuffer data = ((FloatBuffer) getRawDataBuffer()).duplicate();
    data.clear();
    final float[] array = new float[data.remaining()];
    data.get(array);
    return array;
  }

  public long[] getDataAsLongArray() {
    checkKind(DType.INT64, "long");
    final LongBuffer data = ((LongBuffer) getRawDataBuffer()).duplicate();
    data.clear();
    final long[] array = new long[data.remaining()];
    data.get(array);
    return array;
  }

  public double[] getDataAsDoubleArray() {
    checkKind(DType.FLOAT64, "double");
    final DoubleBuffer data = ((DoubleBuffer) getRawDataBuffer()).duplicate();
    data.clear();
    final double[] array = new double[data.remaining()];
    data.get(array);
    return array;
  }

  private void checkKind(DType wanted, String array) {
    if (dtype() == wanted) return;
    throw new IllegalStateException("Tensor of type Tensor_" + name() + " cannot return data as " + array + " array.");
  }

  private String name() {
    return dtype().name().toLowerCase(Locale.US);
  }

  @Override
  public String toString() {
    return String.format(Locale.US, "Tensor(%s, dtype=torch.%s)", Arrays.toString(shape), name());
  }

  private static final class Dense extends Tensor {
    private final DType dtype;
    private final Buffer data;

    Dense(DType dtype, Buffer data, long[] shape, MemoryFormat memoryFormat) {
      super(shape, memoryFormat);
      this.dtype = dtype;
      this.data = data;
    }

    @Override
    public DType dtype() {
      return dtype;
    }

    @Override
    public Buffer getRawDataBuffer() {
      return data;
    }
  }

  // --- checks ---
  private static Buffer view(ByteBuffer bytes, DType dtype) {
    switch (dtype) {
      case INT32:
        return bytes.asIntBuffer();
      case FLOAT32:
        return bytes.asFloatBuffer();
      case INT64:
        return bytes.asLongBuffer();
      case FLOAT64:
        return bytes.asDoubleBuffer();
      case FLOAT16:
      case INT16:
      case BFLOAT16:
        return bytes.asShortBuffer();
      default:
        return bytes;
    }
  }

  private static int bytesOf(int numElements, int size) {
    checkArgument(numElements <= Integer.MAX_VALUE / size, "A buffer of so many elements is larger than Java's buffers");
    return numElements * size;
  }

  private static void checkData(Object array, long[] shape) {
    checkArgument(array != null, ERROR_MSG_DATA_ARRAY_NOT_NULL);
    checkArgument(shape != null, ERROR_MSG_SHAPE_NOT_NULL);
    checkShape(shape);
    checkCapacity(java.lang.reflect.Array.getLength(array), shape);
  }

  private static void checkData(Buffer data, long[] shape) {
    checkArgument(data != null, ERROR_MSG_DATA_BUFFER_NOT_NULL);
    checkArgument(shape != null, ERROR_MSG_SHAPE_NOT_NULL);
    checkShape(shape);
    checkCapacity(data.capacity(), shape);
    checkArgument(data.isDirect(), ERROR_MSG_DATA_BUFFER_MUST_BE_DIRECT);
  }

  private static void checkOrder(ByteOrder order) {
    checkArgument(order == ByteOrder.nativeOrder(), ERROR_MSG_DATA_BUFFER_MUST_HAVE_NATIVE_BYTE_ORDER);
  }

  private static void checkCapacity(int capacity, long[] shape) {
    final long numel = numel(shape);
    if (numel == capacity) return;
    String words = "Inconsistent data capacity:%d and shape number elements:%d shape:%s";
    throw new IllegalArgumentException(String.format(Locale.US, words, capacity, numel, Arrays.toString(shape)));
  }

  private static void checkShape(long[] shape) {
    checkArgument(shape != null, ERROR_MSG_SHAPE_NOT_NULL);
    for (long size : shape) checkArgument(size >= 0, ERROR_MSG_SHAPE_NON_NEGATIVE);
  }

  private static void checkArgument(boolean fine, String message) {
    if (!fine) throw new IllegalArgumentException(message);
  }
}
