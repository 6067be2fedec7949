package org.penlight;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.pytorch.IValue;
import org.pytorch.MemoryFormat;
import org.pytorch.Tensor;

/**
 * A model that runs: its methods, with the state of those that are interpreted. Threads that share one take turns; for runs side by side
 * make several. Tensors are read and written where their buffers lie: a run of a planned method copies nothing and allocates nothing but
 * Java's memory for its results (runInto: nothing).
 */
public final class Session implements AutoCloseable {
  private static final int SMALL_BYTES = 4096;
  private static final int BLOCK_BYTES = 1 << 16;

  /** A planned method: its native session, and how its arguments and results nest. */
  private static final class Planned {
    final byte[] name;
    final Spec inputs;
    final Spec outputs;
    final Tensor[] given; // held here while a run reads and writes their memory: callers may have let go of them
    final Tensor[] results;
    final long[] dims = new long[8];
    long session; // 0: to be made

    Planned(long model, String method) {
      name = Native.text(method);
      inputs = new Spec(model, name, true);
      outputs = new Spec(model, name, false);
      given = new Tensor[Native.portCount(model, name, true)];
      results = new Tensor[Native.portCount(model, name, false)];
    }

    void forget() {
      Arrays.fill(given, null);
      Arrays.fill(results, null);
    }
  }

  private static final class Memory extends Owned {
    final Model.Handle model;
    final Map<String, Planned> planned = new HashMap<>();
    long module; // of interpreted methods; 0: to be made

    Memory(Session session, Model.Handle model) {
      super(session);
      this.model = model;
      model.retain();
    }

    void endSessions() {
      for (Planned method : planned.values()) {
        Native.destroySession(method.session);
        method.session = 0;
      }
    }

    @Override
    void free() {
      endSessions();
      if (module != 0) Native.destroyModule(module);
      model.release();
    }
  }

  private final Memory memory;
  private final List<String> planned;
  private final List<String> interpreted;
  private final byte[] device;
  private final boolean f16;
  private final long memoryLimit;
  private final long maxSteps;
  private ByteBuffer block; // its next results lie past its limit
  private int threads;
  private long seed;
  private boolean closed;

  Session(Model.Handle model, List<String> planned, List<String> interpreted, Options options) {
    memory = new Memory(this, model);
    this.planned = planned;
    this.interpreted = interpreted;
    device = Native.text(options.device);
    threads = options.threads;
    f16 = options.f16;
    memoryLimit = options.memoryLimit;
    maxSteps = options.maxSteps;
    if (options.device.equals("cpu")) return;
    try { // a device that is not there, or lacks something, is told of now
      if (!planned.isEmpty()) planned(planned.contains("forward") ? "forward" : planned.get(0));
      if (!interpreted.isEmpty()) module();
    } catch (RuntimeException e) {
      close();
      throw e;
    }
  }

  /** Runs a method. Outputs are new tensors, which later runs leave alone. */
  public synchronized IValue run(String method, IValue... args) {
    if (interpreted.contains(method)) return interpret(method, args);
    Planned run = planned(method);
    try {
      bind(run, args);
      for (int i = 0; i < run.results.length; ++i) run.results[i] = room(run, i);
      start(run);
      for (int i = 0; i < run.results.length; ++i) {
        if (run.results[i] == null) run.results[i] = copied(run, i);
      }
      return run.outputs.build(run.results, run.given);
    } finally {
      run.forget();
    }
  }

  /**
   * As run of a planned method, into tensors that the caller has, one for each of outputs(), in memory that neither inputs nor other results
   * have: a loop allocates nothing at all.
   */
  public synchronized void runInto(String method, Tensor[] results, IValue... args) {
    Planned run = planned(method);
    try {
      bind(run, args);
      if (results.length != run.results.length) {
        throw new IllegalArgumentException("results: expected " + run.results.length + " tensors, got " + results.length);
      }
      for (int i = 0; i < results.length; ++i) {
        checkFits(run, i, results[i]);
        for (Tensor input : run.given) checkApart(i, results[i], input, "an input");
        for (int j = 0; j < i; ++j) checkApart(i, results[i], results[j], "another result");
        run.results[i] = results[i];
      }
      start(run);
    } finally {
      run.forget();
    }
  }

  /** Plans a method for the shapes of these arguments without running it: a warm-up. */
  public synchronized void prepare(String method, IValue... args) {
    Planned run = planned(method);
    try {
      bind(run, args);
    } finally {
      run.forget();
    }
  }

  /** Runs a planned method a few times and says how long each of its kernels took, on average. */
  public synchronized List<StepTime> profile(String method, int runs, IValue... args) {
    if (runs < 1) throw new IllegalArgumentException("runs: expected 1 or more, got " + runs);
    Planned run = planned(method);
    run(method, args);
    Native.setProfiling(run.session, true);
    try {
      for (int i = 0; i < runs; ++i) run(method, args);
      List<StepTime> times = new ArrayList<>();
      long[] numbers = new long[2];
      for (int i = 0; i < Native.stepCount(run.session); ++i) {
        byte[][] texts = Native.step(run.session, i, numbers);
        times.add(new StepTime(texts, 1e-9 * numbers[0] / runs));
      }
      return times;
    } finally {
      Native.setProfiling(run.session, false);
    }
  }

  /** What the last run of a method had its device do. */
  public synchronized DeviceReport deviceReport(String method) {
    boolean isModule = interpreted.contains(method);
    long[] numbers = new long[4];
    byte[] name = Native.deviceReport(isModule ? module() : planned(method).session, isModule, numbers);
    return new DeviceReport(Native.string(name), numbers);
  }

  /** Memory for intermediate values of a planned method at the shapes of its last run or prepare. */
  public synchronized long arenaBytes(String method) {
    return Native.arenaBytes(planned(method).session);
  }

  /** From the next run on; 0: one per core. Interpreted methods keep the threads that they began with, as they keep their state. */
  public synchronized void setThreads(int count) {
    checkOpen();
    if (count < 0) throw new IllegalArgumentException("threads: expected 0 (one per core) or more, got " + count);
    if (count == threads) return;
    threads = count;
    memory.endSessions();
  }

  /** Where random operators start from. */
  public synchronized void seed(long seed) {
    checkOpen();
    this.seed = seed;
    for (Planned method : memory.planned.values()) {
      if (method.session != 0) Native.seed(method.session, seed);
    }
    if (memory.module != 0) Native.seedModule(memory.module, seed);
  }

  /** Takes the model's state back to what the file says. Plans of planned methods, which keep theirs, are made anew. */
  public synchronized void reset() {
    checkOpen();
    memory.endSessions();
    if (memory.module != 0) Native.resetModule(memory.module);
  }

  @Override
  public synchronized void close() {
    closed = true;
    memory.release();
  }

  // --- planned methods ---
  private Planned planned(String method) {
    checkOpen();
    Planned found = memory.planned.get(method);
    if (found == null) {
      if (interpreted.contains(method)) {
        throw new IllegalArgumentException("method " + method + " is interpreted: expected a planned one, which are " + planned);
      }
      if (!planned.contains(method)) {
        List<String> all = new ArrayList<>(planned);
        all.addAll(interpreted);
        throw new IllegalArgumentException("Undefined method " + method + "; this model has " + all);
      }
      found = new Planned(memory.model.pointer, method);
      memory.planned.put(method, found);
    }
    if (found.session == 0) {
      found.session = Native.createSession(memory.model.pointer, found.name, device, threads, memoryLimit, f16);
      Native.seed(found.session, seed);
    }
    return found;
  }

  private void bind(Planned run, IValue[] args) {
    run.inputs.flatten(args, run.given);
    for (int i = 0; i < run.given.length; ++i) {
      Tensor tensor = run.given[i];
      int rank = Tensors.dims(tensor, run.dims);
      Native.setInput(run.session, i, tensor.getRawDataBuffer(), Tensors.code(tensor), run.dims, rank, format(tensor));
    }
    Native.prepare(run.session);
  }

  /** Java memory for an output, or null where its size is not known before the run. */
  private Tensor room(Planned run, int index) {
    int info = Native.output(run.session, index, run.dims), code = info & 255;
    if (info >> 16 == 0) return null;
    long[] shape = Arrays.copyOf(run.dims, info >> 8 & 255);
    long bytes = Tensor.numel(shape) * Tensors.elementBytes(code);
    ByteBuffer room = bytes <= SMALL_BYTES ? smallRoom((int) bytes) : Tensors.room(bytes, shape);
    return Tensor.fromBlob(room, shape, MemoryFormat.CONTIGUOUS, Tensors.dtype(code));
  }

  /** Part of a block: a direct buffer takes Java microseconds to make, which is longer than small models run. */
  private ByteBuffer smallRoom(int bytes) {
    if (block == null || block.limit() + SMALL_BYTES > BLOCK_BYTES) {
      block = ByteBuffer.allocateDirect(BLOCK_BYTES);
      block.limit(0);
    }
    int start = block.limit();
    block.limit(start + (bytes + 63) / 64 * 64);
    block.position(start);
    ByteBuffer part = block.slice();
    part.limit(bytes);
    return part.slice().order(ByteOrder.nativeOrder());
  }

  private static void start(Planned run) {
    for (int i = 0; i < run.results.length; ++i) {
      Tensor result = run.results[i];
      if (result != null) Native.setOutput(run.session, i, result.getRawDataBuffer(), Tensors.bytes(result));
    }
    Native.run(run.session);
  }

  private static Tensor copied(Planned run, int index) {
    int info = Native.output(run.session, index, run.dims), code = info & 255;
    long[] shape = Arrays.copyOf(run.dims, info >> 8 & 255);
    ByteBuffer room = Tensors.room(Tensor.numel(shape) * Tensors.elementBytes(code), shape);
    Native.readOutput(run.session, index, room);
    return Tensor.fromBlob(room, shape, MemoryFormat.CONTIGUOUS, Tensors.dtype(code));
  }

  private static void checkFits(Planned run, int index, Tensor result) {
    int info = Native.output(run.session, index, run.dims);
    if (info >> 16 == 0) throw new IllegalArgumentException("result " + index + ": its size depends on the data: expected run, not runInto");
    int code = info & 255, rank = info >> 8 & 255;
    boolean fits = result != null && Tensors.code(result) == code && result.dim() == rank && result.memoryFormat() == MemoryFormat.CONTIGUOUS;
    for (int i = 0; fits && i < rank; ++i) fits = result.size(i) == run.dims[i];
    boolean readOnly = fits && result.getRawDataBuffer().isReadOnly();
    if (fits && !readOnly) return;
    String expected = Tensors.dtype(code) + Arrays.toString(Arrays.copyOf(run.dims, rank)) + " CONTIGUOUS, to be written";
    String got = result == null ? "null" : result + " " + result.memoryFormat() + (readOnly ? ", read-only" : "");
    throw new IllegalArgumentException("result " + index + ": expected " + expected + ", got " + got);
  }

  /** A result is written while inputs are still read. */
  private static void checkApart(int index, Tensor result, Tensor other, String name) {
    if (!Native.overlap(result.getRawDataBuffer(), Tensors.bytes(result), other.getRawDataBuffer(), Tensors.bytes(other))) return;
    throw new IllegalArgumentException("result " + index + ": expected memory of its own, got memory that " + name + " has too");
  }

  static int format(Tensor tensor) {
    return tensor.memoryFormat().ordinal();
  }

  // --- interpreted methods ---
  private long module() {
    checkOpen();
    if (memory.module == 0) {
      memory.module = Native.createModule(memory.model.pointer, device, threads, memoryLimit, maxSteps, f16);
      Native.seedModule(memory.module, seed);
    }
    return memory.module;
  }

  private IValue interpret(String method, IValue[] args) {
    long module = module();
    long[] values = Values.toNative(args);
    try {
      long result = Native.runModule(module, Native.text(method), values);
      try {
        return Values.fromNative(result, memoryLimit);
      } finally {
        Native.valueRelease(result);
      }
    } finally {
      Values.release(values);
    }
  }

  private void checkOpen() {
    if (closed) throw new IllegalStateException("this session was closed: expected no call after close(); make another of the model");
  }
}
