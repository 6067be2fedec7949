package org.penlight;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.pytorch.Numbers.close;
import static org.pytorch.Numbers.fails;
import static org.pytorch.Numbers.floats;
import static org.pytorch.Numbers.path;
import static org.pytorch.Numbers.read;
import static org.pytorch.Numbers.rows;
import static org.pytorch.Numbers.tensor;

import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.Test;
import org.pytorch.DType;
import org.pytorch.IValue;
import org.pytorch.MemoryFormat;
import org.pytorch.Tensor;

/** What org.penlight has beyond the old interface. */
public class PenlightTest {
  private static IValue image() throws Exception {
    return IValue.from(tensor("classifier.x", 1, 3, 8, 8));
  }

  @Test
  public void whatAModelIs() throws Exception {
    assertTrue(Model.version().matches("\\d+\\.\\d+\\..+"));
    try (Model model = Model.open(path("classifier.pen"), Model.VERIFY | Model.COPY)) {
      Map<String, Object> metadata = model.metadata();
      assertEquals(Arrays.asList("cat", "dog — “é”"), metadata.get("labels"));
      assertEquals("{a=[1, 2.5, true, null]}", metadata.get("nested").toString());
      assertEquals("cat\ndog é", model.extraFile("labels.txt"));
      assertNull(model.extraFile("other"));
      assertEquals(Arrays.asList("forward"), model.methods());
      assertEquals("x: FLOAT32[1, 3, 8, 8]", model.inputs("forward").get(0).toString());
      assertEquals(DType.FLOAT32, model.outputs("forward").get(0).dtype);
      assertEquals("0", model.outputSpec("forward"));
      assertTrue(model.inputSpec("forward").contains("\"args\""));
      fails(IllegalArgumentException.class, () -> model.inputs("other"), "Undefined method other", "forward");
      List<Bundle> bundles = model.bundledInputs("forward");
      assertEquals(1, bundles.size());
      assertTrue(model.bundledInputs("other").isEmpty());
      try (Session session = model.session()) {
        Tensor y = session.run("forward", bundles.get(0).inputs).toTensor();
        close((java.nio.FloatBuffer) bundles.get(0).output.toTensor().getRawDataBuffer(), y);
      }
    }
    try (Model free = Model.open(path("containers.pen"))) {
      TensorInfo x = free.inputs("forward").get(0);
      assertEquals("x: FLOAT32[?, 4]", x.toString());
      assertEquals(0, x.leastShape[0]);
      assertEquals(64, x.greatestShape[0]);
    }
    try (Model kinds = Model.open(path("kinds.pen"))) {
      assertTrue(kinds.methods().contains("by_name"));
      assertTrue(kinds.inputSpec("by_name").contains("\"name\": \"x\", \"type\": \"Dict"));
      fails(IllegalArgumentException.class, () -> kinds.inputs("by_name"), "is interpreted");
    }
  }

  @Test
  public void memoryAndLifetimes() throws Exception {
    byte[] bytes = Files.readAllBytes(Paths.get(path("classifier.pen")));
    ByteBuffer direct = ByteBuffer.allocateDirect(bytes.length);
    direct.put(bytes);
    Model model = Model.open(direct);
    Session session = model.session(new Options().threads(2)), other = model.session();
    model.close();
    model.close();
    fails(IllegalStateException.class, () -> model.session(), "this model was closed");
    fails(IllegalStateException.class, () -> model.metadata(), "this model was closed");
    close(read("classifier.y"), session.run("forward", image()).toTensor()); // lives on
    session.close();
    session.close();
    fails(IllegalStateException.class, () -> session.run("forward", image()), "this session was closed");
    fails(IllegalStateException.class, () -> session.setThreads(3), "this session was closed");
    close(read("classifier.y"), other.run("forward", image()).toTensor());
    other.close();
    fails(IllegalArgumentException.class, () -> Model.open(ByteBuffer.allocate(8)), "direct");
    fails(PenlightException.class, () -> Model.open(ByteBuffer.allocateDirect(0)), "a .pen file");
    fails(PenlightException.class, () -> Model.open(9999, 0, 0), "");
    fails(IllegalArgumentException.class, () -> Model.open(0, -1, 0), "0 or more");
    try {
      Model.open(path("legacy.ptl"));
    } catch (PenlightException e) {
      assertEquals(2, e.status()); // PEN_ERROR_FORMAT
    }
  }

  @Test
  public void copiesInResults() throws Exception {
    try (Model model = Model.open(path("kinds.pen")); Session session = model.session(new Options().memoryLimit(1 << 20))) {
      IValue row = IValue.from(Tensor.fromBlob(new float[1000], new long[] {1000}));
      assertEquals(100, session.run("copies", row, IValue.from(100)).toTensorList().length);
      fails(IllegalArgumentException.class, () -> session.run("copies", row, IValue.from(1000)), "as memoryLimit says");
    }
  }

  @Test
  public void codeWithoutEnd() throws Exception {
    try (Model model = Model.open(path("kinds.pen")); Session session = model.session(new Options().maxSteps(10000))) {
      IValue row = IValue.from(Tensor.fromBlob(new float[10], new long[] {10}));
      assertEquals(100, session.run("copies", row, IValue.from(100)).toTensorList().length);
      fails(PenlightException.class, () -> session.run("copies", row, IValue.from(100000)), "at most 10000 steps");
      fails(IllegalArgumentException.class, () -> new Options().maxSteps(-1), "expected 0 (no limit) or more");
    }
  }

  @Test
  public void runInto() throws Exception {
    try (Model model = Model.open(path("classifier.pen")); Session session = model.session()) {
      Tensor y = Tensors.empty(DType.FLOAT32, 1, 10);
      Tensor[] results = {y};
      for (int i = 0; i < 3; ++i) session.runInto("forward", results, image());
      close(read("classifier.y"), y);
      session.prepare("forward", image());
      assertTrue(session.arenaBytes("forward") > 0);
      Class<IllegalArgumentException> illegal = IllegalArgumentException.class;
      fails(illegal, () -> session.runInto("forward", new Tensor[0], image()), "expected 1 tensors, got 0");
      Tensor wrong = Tensors.empty(DType.FLOAT32, 10);
      fails(illegal, () -> session.runInto("forward", new Tensor[] {wrong}, image()), "expected FLOAT32[1, 10] CONTIGUOUS", "[10]");
      Tensor locked = Tensor.fromBlob(Tensor.allocateFloatBuffer(10).asReadOnlyBuffer(), new long[] {1, 10});
      fails(illegal, () -> session.runInto("forward", new Tensor[] {locked}, image()), "to be written", "read-only");
      fails(illegal, () -> session.runInto("forward", new Tensor[1], image()), "got null");
      IValue input = image();
      FloatBuffer pixels = ((FloatBuffer) input.toTensor().getRawDataBuffer()).duplicate();
      pixels.limit(pixels.capacity()).position(pixels.capacity() - 10);
      Tensor inside = Tensor.fromBlob(pixels.slice(), new long[] {1, 10});
      fails(illegal, () -> session.runInto("forward", new Tensor[] {inside}, input), "memory of its own", "memory that an input has too");
    }
    try (Model model = Model.open(path("nonzero.pen")); Session session = model.session()) {
      Tensor[] results = {Tensors.empty(DType.INT64, 7, 2)};
      fails(IllegalArgumentException.class, () -> session.runInto("forward", results, IValue.from(rows())), "depends on the data");
    }
  }

  @Test
  public void profileSeedAndReset() throws Exception {
    try (Model model = Model.open(path("classifier.pen")); Session session = model.session()) {
      List<StepTime> steps = session.profile("forward", 3, image());
      assertFalse(steps.isEmpty());
      double total = 0;
      for (StepTime step : steps) {
        assertFalse(step.kernel.isEmpty());
        total += step.seconds;
      }
      assertTrue(total > 0 && total < 1);
      assertEquals("cpu", session.deviceReport("forward").device);
      fails(IllegalArgumentException.class, () -> session.profile("forward", 0, image()), "1 or more");
      fails(IllegalArgumentException.class, () -> new Options().threads(-1), "0 (one per core) or more");
    }
    try (Model model = Model.open(path("random.pen")); Session session = model.session()) {
      float[][] runs = new float[4][];
      for (int i = 0; i < 4; ++i) {
        if (i % 2 == 0) session.seed(7);
        runs[i] = session.run("forward", IValue.from(rows())).toTensor().getDataAsFloatArray();
      }
      assertArrayEquals(runs[0], runs[2], 0);
      assertArrayEquals(runs[1], runs[3], 0);
      assertFalse(Arrays.equals(runs[0], runs[1]));
    }
    try (Model model = Model.open(path("kinds.pen")); Session session = model.session()) {
      IValue x = IValue.from(Tensor.fromBlob(new float[] {1, 2}, new long[] {2}));
      for (int i = 0; i < 4; ++i) {
        if (i == 2) session.reset();
        assertEquals(1 + i % 2, session.run("add", x).toTuple()[1].toLong());
      }
      fails(IllegalArgumentException.class, () -> session.prepare("add", x), "is interpreted");
    }
  }

  @Test
  public void numbersThatJavaHasNone() throws Exception {
    try (Model model = Model.open(path("halves.pen")); Session session = model.session()) {
      float[] x = {0, 1.5f, -2.25f, 65504, 6e-8f, -0.0f, Float.NaN, 100};
      boolean[] mask = {true, false, true, false, true, false, true, false};
      IValue[] got = session.run("forward", IValue.from(Tensors.half(x, 2, 4)), IValue.from(Tensors.bool(mask, 2, 4))).toTuple();
      float[] twice = Tensors.floats(got[0].toTensor());
      assertEquals(DType.FLOAT16, got[0].toTensor().dtype());
      assertArrayEquals(new float[] {0, 3, -4.5f, Float.POSITIVE_INFINITY, 2 / 16777216f, -0.0f, Float.NaN, 200}, twice, 0);
      assertFalse(Tensors.booleans(got[1].toTensor())[0]);
      fails(IllegalStateException.class, () -> Tensors.floats(got[1].toTensor()), "BFLOAT16");
      fails(IllegalStateException.class, () -> Tensors.booleans(got[0].toTensor()), "expected a tensor of BOOL");
      fails(IllegalStateException.class, () -> got[0].toTensor().getDataAsFloatArray(), "Tensor_float16 cannot return data as float");
      fails(PenlightException.class, () -> session.run("forward", IValue.from(rows()), IValue.from(Tensors.bool(mask, 2, 4))), "f16");
    }
    for (int bits = 0; bits < 65536; ++bits) { // all of them there and back
      float value = Tensors.fromHalf((short) bits);
      if (!Float.isNaN(value)) assertEquals((short) bits, Tensors.toHalf(value));
    }
    assertEquals(0x3c00, Tensors.toHalf(1 + 1 / 2048f)); // ties go to the even one
    assertEquals(0x3c02, Tensors.toHalf(1 + 3 / 2048f));
    assertEquals(0x7c00, Tensors.toHalf(65520));
    try (Model model = Model.open(path("dtypes.pen")); Session session = model.session()) {
      ByteBuffer shorts = ByteBuffer.allocateDirect(16).order(java.nio.ByteOrder.nativeOrder());
      long[] shape = {2, 4};
      Tensor[] got =
          session.run("forward",
                  IValue.from(Tensor.fromBlobUnsigned(new byte[] {-2, 0, 0, 0, 0, 0, 0, 0}, shape)),
                  IValue.from(Tensor.fromBlob(new byte[8], shape)), IValue.from(Tensor.fromBlob(new int[8], shape)),
                  IValue.from(Tensor.fromBlob(new long[8], shape)), IValue.from(Tensor.fromBlob(new double[8], shape)),
                  IValue.from(Tensor.fromBlob(shorts, shape, MemoryFormat.CONTIGUOUS, DType.INT16)))
              .toTensorList();
      assertEquals(-1, got[0].getDataAsUnsignedByteArray()[0]);
      assertEquals(1, got[1].getDataAsByteArray()[7]);
      assertEquals(1, got[2].getDataAsIntArray()[7]);
      assertEquals(1, got[3].getDataAsLongArray()[7]);
      assertEquals(1, got[4].getDataAsDoubleArray()[7], 0);
      assertEquals(DType.INT16, got[5].dtype());
    }
  }

  @Test
  public void json() {
    assertEquals("{a=[1, -2.5E10, true, null, {}], b=\"\\/\b\f\n\r\té}",
        Json.read(" {\"a\" : [1,-2.5e10, true,null,{}],\"b\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"} ").toString());
    String[] wrong = {"", "{", "[1", "[1 2]", "{\"a\"}", "{1:2}", "\"a", "\"\\x\"", "\"\\u12g4\"", "-", "1 2", "nul", "1e", "{\"a\":1,}"};
    for (String text : wrong) fails(IllegalArgumentException.class, () -> Json.read(text), "metadata, character", "expected");
    StringBuilder deep = new StringBuilder();
    for (int i = 0; i < 100000; ++i) deep.append('[');
    fails(IllegalArgumentException.class, () -> Json.read(deep.toString()), "at most 256");
  }
}
