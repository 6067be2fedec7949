package org.penlight;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.pytorch.Numbers.close;
import static org.pytorch.Numbers.path;
import static org.pytorch.Numbers.read;

import java.nio.FloatBuffer;
import org.junit.Test;
import org.pytorch.DType;
import org.pytorch.IValue;
import org.pytorch.MemoryFormat;
import org.pytorch.Module;
import org.pytorch.Tensor;

/** A loop of forward with direct buffers: no native allocation and no copy by the libraries (counted by allocations.c, preloaded). */
public class AllocationTest {
  /** Calls of malloc and its kin so far, from our libraries. */
  static native long allocations();

  /** Copies by memcpy and memmove so far: of 16 bytes and more in the binding, of 16 KiB and more in the runtime. */
  static native long copies();

  /** Allocations of our libraries that were not freed. */
  static native long held();

  private static native int find();

  static {
    System.load(System.getProperty("counting"));
    Model.loadLibrary();
    assertEquals(2, find());
  }

  private interface Loop {
    void once() throws Exception;
  }

  private static void countsNothing(Loop loop) throws Exception {
    for (int i = 0; i < 3; ++i) loop.once(); // plans
    long allocations = allocations(), copies = copies();
    for (int i = 0; i < 500; ++i) loop.once();
    assertEquals("allocations", 0, allocations() - allocations);
    assertEquals("copies", 0, copies() - copies);
  }

  @Test
  public void forward() throws Exception {
    long before = allocations();
    Module module = Module.load(path("big.pen"));
    assertTrue(allocations() > before); // it does count
    FloatBuffer x = Tensor.allocateFloatBuffer(3 * 64 * 64);
    x.put(read("big.x"));
    Tensor input = Tensor.fromBlob(x, new long[] {1, 3, 64, 64});
    FloatBuffer y = read("big.y");
    countsNothing(() -> close(y, module.forward(IValue.from(input)).toTensor()));
    Tensor turned = Tensor.fromBlob(x, new long[] {1, 3, 64, 64}, MemoryFormat.CHANNELS_LAST);
    for (int i = 0; i < 3; ++i) module.forward(IValue.from(turned));
    long allocations = allocations();
    for (int i = 0; i < 100; ++i) module.forward(IValue.from(turned));
    assertEquals(0, allocations() - allocations);
  }

  @Test
  public void runInto() throws Exception {
    try (Model model = Model.open(path("big.pen")); Session session = model.session(new Options().threads(1))) {
      FloatBuffer x = Tensor.allocateFloatBuffer(3 * 64 * 64);
      IValue[] args = {IValue.from(Tensor.fromBlob(x, new long[] {1, 3, 64, 64}))};
      Tensor[] results = {Tensors.empty(DType.FLOAT32, 1, 10)};
      x.put(read("big.x"));
      countsNothing(() -> session.runInto("forward", results, args));
      close(read("big.y"), results[0]);
    }
  }

  /** Values of interpreted code are native memory: as much is freed as is taken. */
  @Test
  public void interpreted() throws Exception {
    Module module = Module.load(path("kinds.pen"));
    FloatBuffer x = Tensor.allocateFloatBuffer(1 << 16);
    IValue input = IValue.from(Tensor.fromBlob(x, new long[] {1 << 16}));
    for (int i = 0; i < 50; ++i) module.runMethod("tensors", IValue.listFrom(input.toTensor()));
    long held = held();
    for (int i = 0; i < 500; ++i) module.runMethod("tensors", IValue.listFrom(input.toTensor()));
    assertEquals(0, held() - held);
  }
}
