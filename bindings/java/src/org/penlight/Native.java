package org.penlight;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.charset.Charset;

/**
 * penlight.h as Java sees it, one function each. Handles are addresses, texts UTF-8 (those that go in end with a 0, see text()). What
 * fails throws a PenlightException. Callers hold their session's lock and keep buffers alive until a run is over.
 */
final class Native {
  private static final Charset UTF8 = Charset.forName("UTF-8");

  static {
    System.loadLibrary("penlight_jni");
  }

  private Native() {}

  static void load() {}

  static byte[] text(String text) {
    if (text.indexOf('\0') >= 0) throw new IllegalArgumentException("a name or path: expected no character 0 in it");
    return (text + '\0').getBytes(UTF8);
  }

  static byte[] bytes(String text) {
    return text.getBytes(UTF8);
  }

  static String string(byte[] text) {
    return new String(text, UTF8);
  }

  // --- the library ---
  static native byte[] version();

  /** Null where a device can be used, else why not. */
  static native byte[] vulkanProblem();

  // --- models ---
  static native long openPath(byte[] path, int flags);

  static native long openMemory(ByteBuffer bytes, int flags);

  static native long openDescriptor(int descriptor, long offset, long size, int flags);

  static native void closeModel(long model);

  static native byte[] metadata(long model);

  static native int methodCount(long model);

  static native byte[] methodName(long model, int index);

  static native int functionCount(long model);

  static native byte[] functionName(long model, int index);

  static native byte[] functionSchema(long model, int index);

  static native int portCount(long model, byte[] method, boolean inputs);

  /** Its name; numbers: dtype, rank, then 8 dims, 8 least and 8 greatest dims. */
  static native byte[] port(long model, byte[] method, boolean inputs, int index, long[] numbers);

  static native byte[] specText(long model, byte[] method, boolean inputs);

  /** The nodes of penlight_spec.hpp: a long[] of Spec.FIELDS for each, byte[][] of their texts, byte[][] of their keys, int[] of arguments. */
  static native Object[] spec(long model, byte[] method, boolean inputs);

  static native byte[] describe(long model, byte[] method, boolean inputs, int node);

  static native long dim(byte[] expression, long[] dims, int[] ranks);

  static native int bundleCount(long model);

  /** Its method and info; values: arguments and outputs (0: not told), references of the caller's; limits: absolute and relative. */
  static native byte[][] bundle(long model, int index, long[] values, double[] limits);

  // --- sessions ---
  static native long createSession(long model, byte[] method, byte[] device, int threads, long memoryLimit, boolean f16);

  static native void destroySession(long session);

  static native void setInput(long session, int index, Buffer data, int dtype, long[] dims, int rank, int format);

  static native void prepare(long session);

  /** dtype | rank << 8 | (its size is known before the run) << 16, and the dims. */
  static native int output(long session, int index, long[] dims);

  static native void setOutput(long session, int index, Buffer data, long bytes);

  /** Whether two buffers, of so many bytes each, have memory in common. */
  static native boolean overlap(Buffer a, long aBytes, Buffer b, long bBytes);

  static native void readOutput(long session, int index, ByteBuffer to);

  static native void run(long session);

  static native void seed(long session, long seed);

  static native void setProfiling(long session, boolean on);

  static native int stepCount(long session);

  /** Its key, output and source; times: nanoseconds and calls. */
  static native byte[][] step(long session, int index, long[] times);

  /** The device; numbers: dispatches, copies, bytes up, bytes down. */
  static native byte[] deviceReport(long session, boolean isModule, long[] numbers);

  static native long arenaBytes(long session);

  // --- modules and values ---
  static native long createModule(long model, byte[] device, int threads, long memoryLimit, long maxSteps, boolean f16);

  static native void destroyModule(long module);

  static native long runModule(long module, byte[] method, long[] args);

  static native void resetModule(long module);

  static native void seedModule(long module, long seed);

  static native long valueNone();

  static native long valueBool(boolean value);

  static native long valueInt(long value);

  static native long valueFloat(double value);

  static native long valueString(byte[] text);

  /** isConstant: in-place operators copy it first. */
  static native long valueTensor(Buffer data, int dtype, long[] dims, int rank, int format, boolean isConstant);

  static native long valueList(long[] items);

  static native long valueTuple(long[] items);

  static native long valueDict(long[] keys, long[] values);

  static native void valueRelease(long value);

  static native int valueKind(long value);

  static native long valueAsInt(long value);

  static native double valueAsFloat(long value);

  static native byte[] valueText(long value);

  /** dtype | rank << 8 | (it is quantized) << 16, and the dims. */
  static native int valueTensorInfo(long value, long[] dims);

  /** Its numbers, row-major. */
  static native void valueTensorRead(long value, ByteBuffer to);

  static native int valueCount(long value);

  static native long valueItem(long value, int index);

  static native long valueKey(long value, int index);

  // --- images: penlight_image.h ---
  static native void imageArgb(
      int[] pixels, int width, int height, int plane, float[] mean, float[] std, Buffer out, int outOffset, boolean channelsLast);

  static native void imageYuv420(
      ByteBuffer y,
      ByteBuffer u,
      ByteBuffer v,
      int[] strides,
      int width,
      int height,
      int rotate,
      int outWidth,
      int outHeight,
      float[] mean,
      float[] std,
      Buffer out,
      int outOffset,
      boolean channelsLast);
}
