package org.penlight;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.pytorch.IValue;
import org.pytorch.MemoryFormat;
import org.pytorch.Tensor;

/** Values of interpreted code on their way there and back. Tensors go in place and are kept alive by the native value; they come copied. */
final class Values {
  private static final int NONE = 0, BOOL = 1, INT = 2, FLOAT = 3, STRING = 4, TENSOR = 5, LIST = 6, TUPLE = 7, DICT = 8; // pen_kind

  private static final int PART_LIMIT = 1 << 22;
  private static final int DEPTH_LIMIT = 256; // a few times what any code nests: no stack overflow

  private Values() {}

  static void release(long[] values) {
    for (long value : values) Native.valueRelease(value);
  }

  /** New references, which the caller releases. */
  static long[] toNative(IValue[] values) {
    return toNative(values, 0);
  }

  private static long[] toNative(IValue[] values, int depth) {
    if (depth > DEPTH_LIMIT) throw new IllegalArgumentException("expected at most " + DEPTH_LIMIT + " containers inside each other, got more");
    long[] made = new long[values.length];
    boolean whole = false;
    try {
      for (int i = 0; i < values.length; ++i) made[i] = toNative(values[i], depth);
      whole = true;
    } finally {
      if (!whole) release(made);
    }
    return made;
  }

  private static long toNative(IValue value, int depth) {
    if (value == null) throw new IllegalArgumentException("expected an IValue, got null: None is IValue.optionalNull()");
    if (value.isNull()) return Native.valueNone();
    if (value.isBool()) return Native.valueBool(value.toBool());
    if (value.isLong()) return Native.valueInt(value.toLong());
    if (value.isDouble()) return Native.valueFloat(value.toDouble());
    if (value.isString()) return Native.valueString(Native.bytes(value.toStr()));
    if (value.isTensor()) {
      Tensor tensor = value.toTensor();
      long[] dims = new long[8];
      int rank = Tensors.dims(tensor, dims);
      Buffer data = tensor.getRawDataBuffer();
      return Native.valueTensor(data, Tensors.code(tensor), dims, rank, Session.format(tensor), data.isReadOnly());
    }
    if (value.isDictStringKey()) return dictToNative(value.toDictStringKey(), depth);
    if (value.isDictLongKey()) return dictToNative(value.toDictLongKey(), depth);
    long[] items = toNative(items(value), depth + 1);
    try {
      return value.isTuple() ? Native.valueTuple(items) : Native.valueList(items);
    } finally {
      release(items);
    }
  }

  private static long dictToNative(Map<?, IValue> map, int depth) {
    IValue[] names = new IValue[map.size()], parts = new IValue[map.size()];
    int i = 0;
    for (Map.Entry<?, IValue> entry : map.entrySet()) {
      Object key = entry.getKey();
      names[i] = key instanceof String ? IValue.from((String) key) : IValue.from((Long) key);
      parts[i++] = entry.getValue();
    }
    long[] keys = toNative(names, depth + 1);
    try {
      long[] values = toNative(parts, depth + 1);
      try {
        return Native.valueDict(keys, values);
      } finally {
        release(values);
      }
    } finally {
      release(keys);
    }
  }

  /** The elements of a list or tuple of any kind; null where it is none. */
  static IValue[] items(IValue value) {
    if (value.isTuple()) return value.toTuple();
    if (value.isList()) return value.toList();
    IValue[] items;
    if (value.isTensorList()) {
      Tensor[] list = value.toTensorList();
      items = new IValue[list.length];
      for (int i = 0; i < list.length; ++i) items[i] = IValue.from(list[i]);
    } else if (value.isLongList()) {
      long[] list = value.toLongList();
      items = new IValue[list.length];
      for (int i = 0; i < list.length; ++i) items[i] = IValue.from(list[i]);
    } else if (value.isDoubleList()) {
      double[] list = value.toDoubleList();
      items = new IValue[list.length];
      for (int i = 0; i < list.length; ++i) items[i] = IValue.from(list[i]);
    } else if (value.isBoolList()) {
      boolean[] list = value.toBoolList();
      items = new IValue[list.length];
      for (int i = 0; i < list.length; ++i) items[i] = IValue.from(list[i]);
    } else {
      return null;
    }
    return items;
  }

  /** What a native value holds; the reference stays the caller's. */
  static IValue fromNative(long value) {
    return fromNative(value, 0);
  }

  /** Copies of tensors take at most so many bytes; 0: any number. */
  static IValue fromNative(long value, long memoryLimit) {
    return fromNative(value, 0, new long[] {PART_LIMIT, memoryLimit > 0 ? memoryLimit : Long.MAX_VALUE});
  }

  // A value may contain itself, and shared parts are written out here: depth and number are bounded, as they are for Python, and copies of
  // one tensor count as many. `left`: parts, and bytes of tensors.
  private static IValue fromNative(long value, int depth, long[] left) {
    if (depth > DEPTH_LIMIT || --left[0] < 0) {
      throw new IllegalArgumentException(
          "a result: expected at most " + DEPTH_LIMIT + " levels and " + PART_LIMIT + " parts, got more, or one that contains itself");
    }
    int kind = Native.valueKind(value);
    switch (kind) {
      case NONE:
        return IValue.optionalNull();
      case BOOL:
        return IValue.from(Native.valueAsInt(value) != 0);
      case INT:
        return IValue.from(Native.valueAsInt(value));
      case FLOAT:
        return IValue.from(Native.valueAsFloat(value));
      case STRING:
        return IValue.from(Native.string(Native.valueText(value)));
      case TENSOR:
        return IValue.from(tensor(value, left));
      case LIST:
      case TUPLE:
        IValue[] items = new IValue[Native.valueCount(value)];
        for (int i = 0; i < items.length; ++i) items[i] = part(Native.valueItem(value, i), depth + 1, left);
        return kind == TUPLE ? IValue.tupleFrom(items) : list(items);
      case DICT:
        IValue[] keys = new IValue[Native.valueCount(value)], parts = new IValue[keys.length];
        for (int i = 0; i < keys.length; ++i) {
          keys[i] = part(Native.valueKey(value, i), depth + 1, left);
          parts[i] = part(Native.valueItem(value, i), depth + 1, left);
        }
        return dict(keys, parts);
      default:
        throw new IllegalArgumentException("Unsupported IValue type Object: expected a method that gives numbers, strings, tensors and containers");
    }
  }

  private static IValue part(long reference, int depth, long[] left) {
    try {
      return fromNative(reference, depth, left);
    } finally {
      Native.valueRelease(reference);
    }
  }

  private static Tensor tensor(long value, long[] left) {
    long[] dims = new long[8];
    int info = Native.valueTensorInfo(value, dims), code = info & 255;
    if (info >> 16 != 0) throw new IllegalArgumentException("at::Tensor scalar type of a quantized tensor is not supported on java side");
    long[] shape = Arrays.copyOf(dims, info >> 8 & 255);
    long bytes = Tensor.numel(shape) * Tensors.elementBytes(code);
    if (bytes > left[1]) throw new IllegalArgumentException("a result: expected at most as many bytes as memoryLimit says, got more");
    left[1] -= bytes;
    ByteBuffer room = Tensors.room(bytes, shape);
    Native.valueTensorRead(value, room);
    return Tensor.fromBlob(room, shape, MemoryFormat.CONTIGUOUS, Tensors.dtype(code));
  }

  /** A list of the kind that its elements have; a tuple where they are of several, for which there is no kind of list. */
  static IValue list(IValue[] items) {
    boolean tensors = items.length > 0, longs = tensors, doubles = tensors, bools = tensors;
    for (IValue item : items) {
      tensors &= item.isTensor();
      longs &= item.isLong();
      doubles &= item.isDouble();
      bools &= item.isBool();
    }
    if (tensors) {
      Tensor[] list = new Tensor[items.length];
      for (int i = 0; i < list.length; ++i) list[i] = items[i].toTensor();
      return IValue.listFrom(list);
    }
    if (longs) {
      long[] list = new long[items.length];
      for (int i = 0; i < list.length; ++i) list[i] = items[i].toLong();
      return IValue.listFrom(list);
    }
    if (doubles) {
      double[] list = new double[items.length];
      for (int i = 0; i < list.length; ++i) list[i] = items[i].toDouble();
      return IValue.listFrom(list);
    }
    if (bools) {
      boolean[] list = new boolean[items.length];
      for (int i = 0; i < list.length; ++i) list[i] = items[i].toBool();
      return IValue.listFrom(list);
    }
    try {
      return IValue.listFrom(items);
    } catch (IllegalArgumentException e) {
      return IValue.tupleFrom(items);
    }
  }

  static IValue dict(IValue[] keys, IValue[] values) {
    Map<String, IValue> strings = new LinkedHashMap<>();
    Map<Long, IValue> longs = new LinkedHashMap<>();
    for (int i = 0; i < keys.length; ++i) {
      if (keys[i].isString()) strings.put(keys[i].toStr(), values[i]);
      if (keys[i].isLong()) longs.put(keys[i].toLong(), values[i]);
      if (keys[i].isBool()) longs.put(keys[i].toBool() ? 1L : 0L, values[i]);
    }
    if (strings.size() == keys.length) return IValue.dictStringKeyFrom(strings);
    if (longs.size() == keys.length) return IValue.dictLongKeyFrom(longs);
    throw new IllegalArgumentException("Unsupported IValue-Dict key type: expected strings, or whole numbers");
  }
}
