package org.pytorch;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;

/** What tests share: the models that tests/java/models.py made, and how they are looked at. */
public final class Numbers {
  private Numbers() {}

  public static String path(String name) {
    return new File(System.getProperty("models"), name).getPath();
  }

  public static FloatBuffer read(String name) throws IOException {
    byte[] bytes = Files.readAllBytes(new File(path(name)).toPath());
    ByteBuffer made = ByteBuffer.allocateDirect(bytes.length).order(ByteOrder.nativeOrder());
    made.put(bytes);
    made.clear();
    return made.asFloatBuffer();
  }

  public static Tensor tensor(String name, long... shape) throws IOException {
    return Tensor.fromBlob(read(name), shape);
  }

  /** x of the containers' and other models: 0 to 7, two rows. */
  public static Tensor rows() {
    return Tensor.fromBlob(new float[] {0, 1, 2, 3, 4, 5, 6, 7}, new long[] {2, 4});
  }

  public static void close(FloatBuffer expected, Tensor got) {
    float[] numbers = got.getDataAsFloatArray();
    assertEquals(expected.capacity(), numbers.length);
    for (int i = 0; i < numbers.length; ++i) assertEquals(expected.get(i), numbers[i], 1e-5);
  }

  public static void floats(Tensor got, double... expected) {
    float[] numbers = got.getDataAsFloatArray();
    assertEquals(expected.length, numbers.length);
    for (int i = 0; i < numbers.length; ++i) assertEquals(expected[i], numbers[i], 1e-6);
  }

  public interface Call {
    void run() throws Exception;
  }

  /** That a call fails with this kind of exception and with these words in its message. */
  public static void fails(Class<? extends Exception> kind, Call call, String... words) {
    try {
      call.run();
    } catch (Exception e) {
      assertTrue("expected " + kind + ", got " + e, kind.isInstance(e));
      for (String word : words) assertTrue("expected '" + word + "' in: " + e.getMessage(), String.valueOf(e.getMessage()).contains(word));
      return;
    }
    fail("expected " + kind.getName() + ", got none");
  }
}
