package org.pytorch;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;
import static org.pytorch.Numbers.fails;
import static org.pytorch.Numbers.floats;
import static org.pytorch.Numbers.path;
import static org.pytorch.Numbers.rows;

import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Paths;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.Before;
import org.junit.Test;

/** Interpreted code: every kind of value there and back, state, and what code raises. */
public class KindsTest {
  private Module module;

  @Before
  public void load() {
    module = Module.load(path("kinds.pen"));
  }

  private IValue run(String method, IValue... args) {
    return module.runMethod(method, args);
  }

  private static Tensor two(float a, float b) {
    return Tensor.fromBlob(new float[] {a, b}, new long[] {2});
  }

  @Test
  public void plain() {
    floats(module.forward(IValue.from(two(1, 2))).toTensor(), 2, 4);
    assertTrue(run("optional", IValue.optionalNull()).isNull());
    floats(run("optional", IValue.from(two(1, 2))).toTensor(), 2, 3);
    assertFalse(run("boolean", IValue.from(true)).toBool());
    assertEquals(-(1L << 40), run("integer", IValue.from(1L << 40), IValue.from(-1L)).toLong());
    assertEquals(21, run("integer", IValue.from(7L)).toLong()); // a default
    assertEquals(0.25, run("number", IValue.from(0.5)).toDouble(), 0);
    String[] texts = {"", "é \uD83D\uDE00 \0 end"};
    for (String text : texts) assertEquals(text + "!", run("text", IValue.from(text)).toStr());
    assertTrue(run("nothing").isNull());
  }

  @Test
  public void containers() {
    IValue[] pair = run("pair", IValue.tupleFrom(IValue.from(3L), IValue.from(two(1, 2)))).toTuple();
    floats(pair[0].toTensor(), 3, 6);
    assertEquals(4, pair[1].toLong());
    assertEquals("pair", pair[2].toStr());
    assertArrayEquals(new boolean[] {false, true}, run("bools", IValue.listFrom(true, false)).toBoolList());
    assertArrayEquals(new long[] {4, 9}, run("ints", IValue.listFrom(-2L, 3L)).toLongList());
    assertArrayEquals(new double[] {0.5, 1}, run("floats", IValue.listFrom(1.0, 2.0)).toDoubleList(), 0);
    floats(run("tensors", IValue.listFrom(two(1, 2), two(3, 4))).toTensorList()[1], 4, 5);
    IValue[] some = run("optionals", IValue.listFrom(IValue.from(two(1, 2)), IValue.optionalNull())).toList();
    assertTrue(some[1].isNull());
    floats(some[0].toTensor(), 1, 2);
    IValue[] lists = run("lists", IValue.listFrom(IValue.listFrom(1L, 2L), IValue.listFrom(new long[0]))).toList();
    assertArrayEquals(new long[] {1, 2, 2}, lists[0].toLongList());
    assertArrayEquals(new long[] {0}, lists[1].toLongList());
    IValue[] named = run("point", IValue.from(two(1, 2))).toTuple();
    assertEquals(4, named[1].toLong());
    // empty ones are of every kind
    assertEquals(0, run("ints", IValue.listFrom(new long[0])).toLongList().length);
    assertEquals(0, run("tensors", IValue.listFrom(new Tensor[0])).toTensorList().length);
    assertTrue(run("by_number", IValue.dictLongKeyFrom(Collections.<Long, IValue>emptyMap())).toDictLongKey().isEmpty());
  }

  @Test
  public void dicts() {
    Map<String, IValue> names = new LinkedHashMap<>();
    Map<Long, IValue> numbers = new LinkedHashMap<>();
    for (long i = 9; i > 0; --i) {
      names.put("k" + i, IValue.from(two(i, 0)));
      numbers.put(i, IValue.from(two(i, 0)));
    }
    Map<String, IValue> doubled = run("by_name", IValue.dictStringKeyFrom(names)).toDictStringKey();
    assertEquals("[k92, k82, k72, k62, k52, k42, k32, k22, k12]", doubled.keySet().toString());
    floats(doubled.get("k32").toTensor(), 6, 0);
    Map<Long, IValue> squares = run("by_number", IValue.dictLongKeyFrom(numbers)).toDictLongKey();
    floats(squares.get(5L).toTensor(), 16, 0);
    IValue list = IValue.listFrom(IValue.tupleFrom(IValue.from(4L), IValue.dictLongKeyFrom(numbers)));
    IValue deep = run("deep", IValue.dictStringKeyFrom(Collections.singletonMap("a", list)));
    IValue[] tuple = deep.toDictStringKey().get("a").toList()[0].toTuple();
    assertEquals(5, tuple[0].toLong());
    floats(tuple[1].toDictLongKey().get(2L).toTensor(), 6, 4);
  }

  @Test
  public void stateAndMemory() throws Exception {
    for (int i = 1; i <= 3; ++i) {
      IValue[] got = run("add", IValue.from(two(1, 2))).toTuple();
      floats(got[0].toTensor(), i, 2 * i);
      assertEquals(i, got[1].toLong());
    }
    // A tensor in the module's state keeps its buffer, also when Java let go of it.
    run("keep", IValue.from(two(5, 6)));
    for (int i = 0; i < 20; ++i) {
      System.gc();
      Tensor.allocateFloatBuffer(1 << 20);
    }
    floats(run("keep", IValue.from(two(7, 8))).toTensor(), 5, 6);
    Tensor turned = run("turned", IValue.from(rows())).toTensor();
    assertArrayEquals(new long[] {4, 2}, turned.shape());
    floats(turned, 0, 4, 1, 5, 2, 6, 3, 7);
    FloatBuffer written = Tensor.allocateFloatBuffer(2);
    run("write", IValue.from(Tensor.fromBlob(written, new long[] {2})));
    assertEquals(1, written.get(1), 0);
    // Memory that Java may not write is not written by a model: here it would be a crash.
    try (FileChannel file = FileChannel.open(Paths.get(path("classifier.x")))) {
      FloatBuffer mapped = file.map(FileChannel.MapMode.READ_ONLY, 0, 8).order(ByteOrder.nativeOrder()).asFloatBuffer();
      float before = mapped.get(0);
      run("write", IValue.from(Tensor.fromBlob(mapped, new long[] {2})));
      floats(module.forward(IValue.from(Tensor.fromBlob(mapped, new long[] {2}))).toTensor(), 2 * mapped.get(0), 2 * mapped.get(1));
      assertEquals(before, mapped.get(0), 0);
    }
  }

  @Test
  public void mistakes() {
    Class<RuntimeException> any = RuntimeException.class;
    fails(any, () -> run("fails", IValue.from(1L)), "no more than 0 — a “limit”");
    fails(any, () -> run("integer", IValue.from("a")), "int");
    fails(any, () -> run("integer"), "integer");
    fails(any, () -> run("integer", IValue.from(1), IValue.from(1), IValue.from(1)), "integer");
    fails(any, () -> run("ints", IValue.listFrom(0.5)), "int");
    fails(IllegalArgumentException.class, () -> run("boolean", (IValue) null), "IValue.optionalNull()");
    Tensor odd = Tensor.fromBlob(new float[0], new long[] {0, Long.MAX_VALUE});
    fails(IllegalArgumentException.class, () -> run("optional", IValue.from(odd)), "sizes that memory may have"); // no OutOfMemoryError
    IValue nested = IValue.from(1L);
    for (int i = 0; i < 100000; ++i) nested = IValue.tupleFrom(nested);
    final IValue deep = nested;
    fails(IllegalArgumentException.class, () -> run("integer", deep), "at most 256 containers");
    fails(IllegalArgumentException.class, () -> run("missing"), "Undefined method missing", "by_number");
    module.destroy();
    fails(NullPointerException.class, () -> run("nothing"), "was destroyed");
  }
}
