package org.pytorch;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.pytorch.Numbers.close;
import static org.pytorch.Numbers.fails;
import static org.pytorch.Numbers.floats;
import static org.pytorch.Numbers.path;
import static org.pytorch.Numbers.read;
import static org.pytorch.Numbers.rows;
import static org.pytorch.Numbers.tensor;

import android.content.res.AssetManager;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.Test;

/** Modules of planned methods, by the old interface: all ways to load, containers, mistakes. */
public class ModuleTest {
  private static final long[] IMAGE = {1, 3, 8, 8};

  private static void runs(Module module) throws Exception {
    Tensor y = module.forward(IValue.from(tensor("classifier.x", IMAGE))).toTensor();
    close(read("classifier.y"), y);
    assertArrayEquals(new long[] {1, 10}, y.shape());
    close(read("classifier.y"), module.runMethod("forward", IValue.from(tensor("classifier.x", IMAGE))).toTensor());
    module.destroy();
    module.destroy(); // again: nothing
    fails(
        NullPointerException.class, () -> module.forward(IValue.from(tensor("classifier.x", IMAGE))), "this module was destroyed");
  }

  @Test
  public void everyWayToLoad() throws Exception {
    PyTorchCodegenLoader.loadNativeLibs();
    runs(Module.load(path("classifier.pen")));
    runs(Module.load(path("any name é.bin"), null, Device.CPU));
    runs(LiteModuleLoader.load(path("classifier.pen")));
    Map<String, String> extra = new HashMap<>();
    extra.put("labels.txt", "");
    extra.put("not there", "as it was");
    runs(LiteModuleLoader.load(path("classifier.pen"), extra, Device.CPU));
    assertEquals("cat\ndog é", extra.get("labels.txt"));
    assertEquals("as it was", extra.get("not there"));
    AssetManager assets = new AssetManager(new File(System.getProperty("models")));
    runs(PyTorchAndroid.loadModuleFromAsset(assets, "asset.ptl"));
    runs(PyTorchAndroid.loadModuleFromAsset(assets, "asset.ptl", Device.CPU));
    runs(LiteModuleLoader.loadModuleFromAsset(assets, "asset.ptl"));
    runs(LiteModuleLoader.loadModuleFromAsset(assets, "compressed.pen", Device.CPU));
    fails(
        IllegalArgumentException.class,
        () -> PyTorchAndroid.loadModuleFromAsset(assets, "none.pen"),
        "Failed to open asset 'none.pen'");
  }

  @Test
  public void filesThatAreNone() {
    fails(RuntimeException.class, () -> Module.load(path("legacy.ptl")), "legacy.ptl", "penlight optimize", "zip");
    fails(RuntimeException.class, () -> LiteModuleLoader.load(path("flat.ptl")), "flat.ptl", "penlight optimize", ".ptl");
    fails(RuntimeException.class, () -> Module.load(path("none.pen")), "none.pen");
    fails(RuntimeException.class, () -> Module.load(path("cut.pen")), "truncated");
    fails(RuntimeException.class, () -> Module.load("a\0b"), "expected no character 0");
  }

  @Test
  public void channelsLast() throws Exception {
    FloatBuffer planes = read("classifier.x"), pixels = Tensor.allocateFloatBuffer(192);
    for (int c = 0; c < 3; ++c) for (int i = 0; i < 64; ++i) pixels.put(3 * i + c, planes.get(64 * c + i));
    Module module = Module.load(path("classifier.pen"));
    close(read("classifier.y"), module.forward(IValue.from(Tensor.fromBlob(pixels, IMAGE, MemoryFormat.CHANNELS_LAST))).toTensor());
    fails(
        IllegalArgumentException.class,
        () -> module.forward(IValue.from(Tensor.fromBlob(pixels, IMAGE, MemoryFormat.CHANNELS_LAST_3D))),
        "CHANNELS_LAST_3D: expected 5 dimensions, got 4");
  }

  @Test
  public void results() {
    Module module = Module.load(path("containers.pen"));
    for (int n = 2; n <= 4; ++n) {
      float[] data = new float[4 * n];
      Arrays.fill(data, 2);
      Tensor number = Tensor.fromBlob(new long[] {5 + n}, new long[0]);
      IValue[] args = {IValue.from(Tensor.fromBlob(data, new long[] {n, 4})), IValue.from(number)};
      Map<String, IValue> got = module.forward(args).toDictStringKey();
      assertEquals(
          "[twice, rows, item, list, pair, text, numbers, halves, mixed, by_number, yes, none]", got.keySet().toString());
      assertEquals(4, got.get("twice").toTensor().getDataAsFloatArray()[4 * n - 1], 0);
      assertEquals(n, got.get("rows").toLong());
      assertEquals(5 + n, got.get("item").toLong());
      assertEquals(4, got.get("list").toTensorList()[1].getDataAsFloatArray()[0], 0);
      floats(got.get("pair").toTuple()[0].toTensor(), 8 * n);
      assertTrue(got.get("pair").toTuple()[1].isNull());
      assertEquals("fixed", got.get("text").toStr());
      assertArrayEquals(new long[] {1, 2}, got.get("numbers").toLongList());
      assertArrayEquals(new double[] {0.5}, got.get("halves").toDoubleList(), 0);
      assertEquals(7, got.get("mixed").toTuple()[1].toLong());
      assertEquals(6, got.get("by_number").toDictLongKey().get(3L).toTensor().getDataAsFloatArray()[0], 0);
      assertTrue(got.get("yes").toBool());
      assertTrue(got.get("none").isList());
    }
  }

  private static IValue[] nested() {
    Map<String, IValue> parts = new LinkedHashMap<>();
    parts.put("b", IValue.from(rows()));
    parts.put("a", IValue.from(rows()));
    return new IValue[] {
      IValue.from(rows()),
      IValue.dictStringKeyFrom(parts),
      IValue.listFrom(rows(), rows()),
      IValue.tupleFrom(IValue.from(rows()), IValue.listFrom(IValue.from(rows()))),
      IValue.from(0.5),
      IValue.from("fixed é"),
      IValue.from(true),
      IValue.optionalNull(),
    };
  }

  @Test
  public void arguments() {
    Module module = Module.load(path("nested.pen"));
    double[] expected = new double[8];
    for (int x = 0; x < 8; ++x) expected[x] = 0.5 * x + 2 * x * x;
    floats(module.forward(nested()).toTensor(), expected);
    IValue[] wrong = {
      IValue.from(1L), IValue.dictStringKeyFrom(new HashMap<String, IValue>()), IValue.listFrom(rows()), IValue.tupleFrom(), IValue.from(0.25),
      IValue.from("other"), IValue.from(false), IValue.from(rows()),
    };
    String[][] words = {
      {"argument 'x': expected tensor, got int 1"}, {"'parts': expected dict(a: tensor, b: tensor), got a dict with the keys []"},
      {"'more': expected list(tensor, tensor), got a list of 1"}, {"'pair': expected tuple(tensor, list(tensor)), got a tuple of 0"},
      {"'scale': expected 0.5, as when the model was captured, got float 0.25"}, {"'text'", "fixed é", "got 'other'"},
      {"'flag': expected True"}, {"'nothing': expected None", "got Tensor([2, 4], dtype=torch.float32)"},
    };
    for (int i = 0; i < wrong.length; ++i) {
      IValue[] args = nested();
      args[i] = wrong[i];
      fails(IllegalArgumentException.class, () -> module.forward(args), words[i]);
      args[i] = null;
      fails(IllegalArgumentException.class, () -> module.forward(args), "got null");
    }
    fails(IllegalArgumentException.class, () -> module.forward(), "expected so many arguments, got 0");
    IValue[] many = Arrays.copyOf(nested(), 9);
    fails(IllegalArgumentException.class, () -> module.forward(many), "expected so many arguments, got 9");
  }

  @Test
  public void wrongTensors() throws Exception {
    Module module = Module.load(path("classifier.pen"));
    Class<RuntimeException> any = RuntimeException.class;
    fails(any, () -> module.forward(IValue.from(rows())), "input 0 (x): expected f32 of rank 4, got f32 of rank 2");
    fails(any, () -> module.forward(IValue.from(Tensor.fromBlob(new int[192], IMAGE))), "x", "i32");
    fails(any, () -> module.forward(IValue.from(Tensor.fromBlob(new float[1], new long[9 - 1]))), "shape");
    long[] nine = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    fails(any, () -> module.forward(IValue.from(Tensor.fromBlob(new float[1], nine))), "at most 8 dimensions, got 9");
    fails(IllegalArgumentException.class, () -> module.runMethod("no such é"), "Undefined method no such é", "[forward]");
    ByteBuffer odd = ByteBuffer.allocateDirect(4 * 192 + 1);
    ((java.nio.Buffer) odd).position(1);
    FloatBuffer off = odd.slice().order(ByteOrder.nativeOrder()).asFloatBuffer();
    fails(IllegalArgumentException.class, () -> module.forward(IValue.from(Tensor.fromBlob(off, IMAGE))), "multiple of its 4 bytes");
    runs(module); // as if nothing had been
  }

  /** Results are of their own: a later run leaves them alone, whatever was written into the input. */
  @Test
  public void buffersAreReused() throws Exception {
    FloatBuffer x = Tensor.allocateFloatBuffer(192);
    Tensor input = Tensor.fromBlob(x, IMAGE);
    Module module = Module.load(path("classifier.pen"));
    Tensor zero = module.forward(IValue.from(input)).toTensor();
    float[] before = zero.getDataAsFloatArray();
    x.put(read("classifier.x"));
    close(read("classifier.y"), module.forward(IValue.from(input)).toTensor());
    assertArrayEquals(before, zero.getDataAsFloatArray(), 0);
    List<Tensor> kept = new ArrayList<>(); // small results share blocks, and stay apart
    for (int i = 0; i < 3000; ++i) {
      kept.add(module.forward(IValue.from(input)).toTensor());
      if (i % 2 == 0) ((FloatBuffer) kept.get(i).getRawDataBuffer()).put(0, i);
    }
    for (int i = 0; i < 3000; ++i) {
      if (i % 2 == 0) ((FloatBuffer) kept.get(i).getRawDataBuffer()).put(0, ((FloatBuffer) kept.get(1).getRawDataBuffer()).get(0));
      close(read("classifier.y"), kept.get(i));
    }
  }

  @Test
  public void threads() throws Exception {
    fails(IllegalArgumentException.class, () -> PyTorchAndroid.setNumThreads(0), "Number of threads cannot be less than 1");
    Module module = Module.load(path("classifier.pen"));
    for (int n = 1; n <= 3; ++n) {
      PyTorchAndroid.setNumThreads(n);
      close(read("classifier.y"), module.forward(IValue.from(tensor("classifier.x", IMAGE))).toTensor());
    }
  }

  @Test
  public void sizesThatDependOnData() {
    Module module = Module.load(path("nonzero.pen"));
    assertArrayEquals(new long[] {7, 2}, module.forward(IValue.from(rows())).toTensor().shape());
    Tensor none = module.forward(IValue.from(Tensor.fromBlob(new float[8], new long[] {2, 4}))).toTensor();
    assertArrayEquals(new long[] {0, 2}, none.shape());
    assertEquals(0, none.getDataAsLongArray().length);
    fails(
        IllegalArgumentException.class,
        () -> Module.load(path("complex.pen")).forward(IValue.from(rows())),
        "at::Tensor scalar type ComplexFloat is not supported on java side");
  }
}
