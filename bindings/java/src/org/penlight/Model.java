package org.penlight;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.pytorch.IValue;

/**
 * An open {@code .pen} file: what it holds, and sessions that run it. May be used by many threads at once. The file stays open until the
 * model and all its sessions are closed, or the garbage collector took them.
 *
 * <pre>{@code
 * try (Model model = Model.open("mobilenet_v2.pen");
 *     Session session = model.session(new Options().threads(2))) {
 *   float[] scores = session.run("forward", IValue.from(image)).toTensor().getDataAsFloatArray();
 * }
 * }</pre>
 */
public final class Model implements AutoCloseable {
  /** Also compare the content hash: reads the whole file. */
  public static final int VERIFY = 1;
  /** Copy the file into memory: for files that may change underneath. */
  public static final int COPY = 2;

  /** The native model, as long as anybody uses it. */
  static final class Handle {
    final long pointer;
    private final ByteBuffer bytes; // that it was opened from: kept as long
    private int users = 1;

    Handle(long pointer, ByteBuffer bytes) {
      this.pointer = pointer;
      this.bytes = bytes;
    }

    synchronized void retain() {
      ++users;
    }

    synchronized void release() {
      if (--users == 0) Native.closeModel(pointer);
    }
  }

  private static final class Memory extends Owned {
    private final Handle handle;

    Memory(Model model, Handle handle) {
      super(model);
      this.handle = handle;
    }

    @Override
    void free() {
      handle.release();
    }
  }

  private final Handle handle;
  private final Memory memory;
  private final List<String> planned;
  private final List<String> interpreted;
  private boolean closed;

  private Model(long pointer, ByteBuffer bytes) {
    handle = new Handle(pointer, bytes);
    memory = new Memory(this, handle);
    List<String> names = new ArrayList<>();
    for (int i = 0; i < Native.methodCount(pointer); ++i) {
      String name = Native.string(Native.methodName(pointer, i));
      if (!name.startsWith("~")) names.add(name); // those are parts of interpreted methods
    }
    planned = Collections.unmodifiableList(names);
    names = new ArrayList<>();
    for (int i = 0; i < Native.functionCount(pointer); ++i) names.add(Native.string(Native.functionName(pointer, i)));
    interpreted = Collections.unmodifiableList(names);
  }

  /** Loads the native library ahead of its first use. */
  public static void loadLibrary() {
    Native.load();
  }

  public static String version() {
    return Native.string(Native.version());
  }

  /** Null where a device for "vulkan" can be used, else what is missing: a driver, or a library that was built with it. */
  public static String vulkanProblem() {
    byte[] problem = Native.vulkanProblem();
    return problem == null ? null : Native.string(problem);
  }

  public static Model open(String path) {
    return open(path, 0);
  }

  public static Model open(String path, int flags) {
    return new Model(Native.openPath(Native.text(path), flags), null);
  }

  /** Part of an open file, such as an uncompressed asset; size 0: up to its end. The descriptor may be closed afterwards. */
  public static Model open(int descriptor, long offset, long size) {
    if (offset < 0 || size < 0) throw new IllegalArgumentException("offset and size: expected 0 or more, got " + offset + " and " + size);
    return new Model(Native.openDescriptor(descriptor, offset, size, 0), null);
  }

  /** A file in memory: all bytes of a direct buffer, which must not change while the model is open. */
  public static Model open(ByteBuffer bytes) {
    if (!bytes.isDirect()) throw new IllegalArgumentException("bytes: expected a direct buffer (ByteBuffer.allocateDirect)");
    return new Model(Native.openMemory(bytes, 0), bytes);
  }

  // --- what it is ---
  /** Name, labels, preprocessing, licence: maps, lists, strings, Longs, Doubles, Booleans. */
  @SuppressWarnings("unchecked")
  public synchronized Map<String, Object> metadata() {
    Object read = Json.read(Native.string(Native.metadata(pointer())));
    return read instanceof Map ? (Map<String, Object>) read : Collections.<String, Object>emptyMap();
  }

  /** A text file that was saved with the model, or null where it has none of this name. */
  public String extraFile(String name) {
    Object files = metadata().get("extra_files");
    Object content = files instanceof Map ? ((Map<?, ?>) files).get(name) : null;
    if (content == null || content instanceof String) return (String) content;
    throw new IllegalArgumentException("extra file " + name + ": expected text, got other bytes: see metadata()");
  }

  /** All methods: those that are planned, then those that are interpreted. */
  public List<String> methods() {
    List<String> all = new ArrayList<>(planned);
    all.addAll(interpreted);
    return all;
  }

  public List<String> plannedMethods() {
    return planned;
  }

  public List<TensorInfo> inputs(String method) {
    return ports(method, true);
  }

  public List<TensorInfo> outputs(String method) {
    return ports(method, false);
  }

  /** How a method's arguments and results nest, as JSON (file/SPEC.md, Containers; of interpreted ones: arguments and returns). */
  public synchronized String inputSpec(String method) {
    return spec(method, true);
  }

  public synchronized String outputSpec(String method) {
    return spec(method, false);
  }

  /** Example inputs that the file carries for a method. */
  public synchronized List<Bundle> bundledInputs(String method) {
    List<Bundle> found = new ArrayList<>();
    for (int i = 0; i < Native.bundleCount(pointer()); ++i) {
      long[] values = new long[2];
      double[] limits = new double[2];
      byte[][] texts = Native.bundle(handle.pointer, i, values, limits);
      try {
        if (!Native.string(texts[0]).equals(method)) continue;
        IValue output = values[1] == 0 ? null : Values.fromNative(values[1]);
        found.add(new Bundle(texts, Values.fromNative(values[0]).toTuple(), output, limits));
      } finally {
        Native.valueRelease(values[0]);
        Native.valueRelease(values[1]);
      }
    }
    return found;
  }

  /** To run it: memory, plans and threads of one caller at a time. Close it, or leave it to the garbage collector. */
  public synchronized Session session(Options options) {
    pointer();
    return new Session(handle, planned, interpreted, options);
  }

  public Session session() {
    return session(new Options());
  }

  /** Its sessions live on. */
  @Override
  public synchronized void close() {
    closed = true;
    memory.release();
  }

  private long pointer() {
    if (closed) throw new IllegalStateException("this model was closed: expected no call after close(); open it again");
    return handle.pointer;
  }

  private synchronized List<TensorInfo> ports(String method, boolean inputs) {
    byte[] name = Native.text(known(method));
    List<TensorInfo> found = new ArrayList<>();
    for (int i = 0; i < Native.portCount(pointer(), name, inputs); ++i) {
      long[] numbers = new long[26];
      byte[] port = Native.port(handle.pointer, name, inputs, i, numbers);
      found.add(new TensorInfo(Native.string(port), numbers));
    }
    return found;
  }

  private String spec(String method, boolean inputs) {
    int function = interpreted.indexOf(method);
    if (function >= 0) return Native.string(Native.functionSchema(pointer(), function));
    return Native.string(Native.specText(pointer(), Native.text(known(method)), inputs));
  }

  private String known(String method) {
    if (planned.contains(method)) return method;
    if (interpreted.contains(method)) {
      throw new IllegalArgumentException("method " + method + " is interpreted: it has no fixed inputs and outputs");
    }
    throw new IllegalArgumentException("Undefined method " + method + "; this model has " + methods());
  }
}
