package org.pytorch;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertTrue;
import static org.pytorch.Numbers.fails;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import org.junit.Test;

/** Tensor as the old interface has it: every factory, every getter, every mistake. */
public class TensorTest {
  private static final long[] SHAPE = {1, 2};

  private static void check(Tensor t, DType dtype, MemoryFormat format, String name) {
    assertEquals(dtype, t.dtype());
    assertEquals(format, t.memoryFormat());
    assertArrayEquals(SHAPE, t.shape());
    assertEquals(2, t.numel());
    assertEquals("Tensor([1, 2], dtype=torch." + name + ")", t.toString());
  }

  @Test
  public void everyKind() {
    MemoryFormat plain = MemoryFormat.CONTIGUOUS, last = MemoryFormat.CHANNELS_LAST;
    byte[] b = {1, -2};
    int[] i = {1, -2};
    float[] f = {1, -2};
    long[] l = {1, -2};
    double[] d = {1, -2};
    for (MemoryFormat m : new MemoryFormat[] {plain, last}) {
      Tensor[] made = {
        m == plain ? Tensor.fromBlob(b, SHAPE) : Tensor.fromBlob(b, SHAPE, m),
        m == plain ? Tensor.fromBlobUnsigned(b, SHAPE) : Tensor.fromBlobUnsigned(b, SHAPE, m),
        m == plain ? Tensor.fromBlob(i, SHAPE) : Tensor.fromBlob(i, SHAPE, m),
        m == plain ? Tensor.fromBlob(f, SHAPE) : Tensor.fromBlob(f, SHAPE, m),
        m == plain ? Tensor.fromBlob(l, SHAPE) : Tensor.fromBlob(l, SHAPE, m),
        m == plain ? Tensor.fromBlob(d, SHAPE) : Tensor.fromBlob(d, SHAPE, m),
      };
      DType[] kinds = {DType.INT8, DType.UINT8, DType.INT32, DType.FLOAT32, DType.INT64, DType.FLOAT64};
      String[] names = {"int8", "uint8", "int32", "float32", "int64", "float64"};
      for (int n = 0; n < 6; ++n) check(made[n], kinds[n], m, names[n]);
      assertArrayEquals(b, made[0].getDataAsByteArray());
      assertArrayEquals(b, made[1].getDataAsUnsignedByteArray());
      assertArrayEquals(i, made[2].getDataAsIntArray());
      assertArrayEquals(f, made[3].getDataAsFloatArray(), 0);
      assertArrayEquals(l, made[4].getDataAsLongArray());
      assertArrayEquals(d, made[5].getDataAsDoubleArray(), 0);
      String other = "Tensor of type Tensor_float32 cannot return data as ";
      fails(IllegalStateException.class, () -> made[3].getDataAsByteArray(), other + "byte array.");
      fails(IllegalStateException.class, () -> made[3].getDataAsUnsignedByteArray(), other + "byte array.");
      fails(IllegalStateException.class, () -> made[3].getDataAsIntArray(), other + "int array.");
      fails(IllegalStateException.class, () -> made[3].getDataAsLongArray(), other + "long array.");
      fails(IllegalStateException.class, () -> made[3].getDataAsDoubleArray(), other + "double array.");
      fails(IllegalStateException.class, () -> made[0].getDataAsFloatArray(), "Tensor_int8 cannot return data as float array.");
    }
  }

  @Test
  public void buffersAreUsedInPlace() {
    Buffer[] buffers = {
      Tensor.allocateByteBuffer(2),
      Tensor.allocateIntBuffer(2),
      Tensor.allocateFloatBuffer(2),
      Tensor.allocateLongBuffer(2),
      Tensor.allocateDoubleBuffer(2),
    };
    for (Buffer buffer : buffers) {
      assertTrue(buffer.isDirect());
      assertEquals(2, buffer.capacity());
    }
    MemoryFormat last = MemoryFormat.CHANNELS_LAST_3D;
    check(Tensor.fromBlob((ByteBuffer) buffers[0], SHAPE), DType.INT8, MemoryFormat.CONTIGUOUS, "int8");
    check(Tensor.fromBlob((ByteBuffer) buffers[0], SHAPE, last), DType.INT8, last, "int8");
    check(Tensor.fromBlobUnsigned((ByteBuffer) buffers[0], SHAPE), DType.UINT8, MemoryFormat.CONTIGUOUS, "uint8");
    check(Tensor.fromBlobUnsigned((ByteBuffer) buffers[0], SHAPE, last), DType.UINT8, last, "uint8");
    check(Tensor.fromBlob((java.nio.IntBuffer) buffers[1], SHAPE), DType.INT32, MemoryFormat.CONTIGUOUS, "int32");
    check(Tensor.fromBlob((java.nio.IntBuffer) buffers[1], SHAPE, last), DType.INT32, last, "int32");
    check(Tensor.fromBlob((java.nio.LongBuffer) buffers[3], SHAPE), DType.INT64, MemoryFormat.CONTIGUOUS, "int64");
    check(Tensor.fromBlob((java.nio.LongBuffer) buffers[3], SHAPE, last), DType.INT64, last, "int64");
    check(Tensor.fromBlob((java.nio.DoubleBuffer) buffers[4], SHAPE), DType.FLOAT64, MemoryFormat.CONTIGUOUS, "float64");
    check(Tensor.fromBlob((java.nio.DoubleBuffer) buffers[4], SHAPE, last), DType.FLOAT64, last, "float64");
    FloatBuffer floats = (FloatBuffer) buffers[2];
    floats.put(5); // the position is not looked at
    Tensor t = Tensor.fromBlob(floats, SHAPE);
    assertSame(floats, t.getRawDataBuffer());
    floats.put(1, 7);
    assertArrayEquals(new float[] {5, 7}, t.getDataAsFloatArray(), 0);
    check(Tensor.fromBlob(floats, SHAPE, last), DType.FLOAT32, last, "float32");
  }

  @Test
  public void shapes() {
    assertEquals(1, Tensor.numel(new long[0]));
    assertEquals(0, Tensor.numel(new long[] {3, 0}));
    long[] shape = {2};
    Tensor t = Tensor.fromBlob(new float[2], shape);
    shape[0] = 3;
    t.shape()[0] = 4;
    assertArrayEquals(new long[] {2}, t.shape());
    assertEquals(Long.MAX_VALUE, Tensor.numel(new long[] {1L << 40, 1L << 40}));
  }

  @Test
  public void mistakes() {
    Class<IllegalArgumentException> illegal = IllegalArgumentException.class;
    fails(illegal, () -> Tensor.fromBlob((float[]) null, SHAPE), "Data array must be not null");
    fails(illegal, () -> Tensor.fromBlob((FloatBuffer) null, SHAPE), "Data buffer must be not null");
    fails(illegal, () -> Tensor.fromBlob(new float[2], null), "Shape must be not null");
    fails(illegal, () -> Tensor.fromBlob(new float[2], new long[] {-1, 2}), "Shape elements must be non negative");
    fails(illegal, () -> Tensor.numel(null), "Shape must be not null");
    fails(
        illegal,
        () -> Tensor.fromBlob(new float[3], SHAPE),
        "Inconsistent data capacity:3 and shape number elements:2 shape:[1, 2]");
    fails(illegal, () -> Tensor.fromBlob(new byte[1], new long[] {1L << 33, 1L << 31}), "Inconsistent data capacity");
    fails(illegal, () -> Tensor.fromBlob(FloatBuffer.allocate(2), SHAPE), "Data buffer must be direct (java.nio.ByteBuffer#allocateDirect)");
    FloatBuffer swapped = ByteBuffer.allocateDirect(8).order(ByteOrder.BIG_ENDIAN).asFloatBuffer();
    fails(illegal, () -> Tensor.fromBlob(swapped, SHAPE), "Data buffer must have native byte order (java.nio.ByteOrder#nativeOrder)");
    fails(illegal, () -> Tensor.allocateLongBuffer(1 << 30), "larger than Java's buffers");
  }
}
