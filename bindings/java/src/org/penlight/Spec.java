package org.penlight;

import java.util.Map;
import org.pytorch.IValue;
import org.pytorch.Tensor;

/**
 * How a planned method's arguments or results nest around flat tensors: the nodes that penlight_spec.hpp read, in preorder, here walked to
 * take a caller's values apart and to put results together.
 */
final class Spec {
  private static final int FIELDS = 9; // of each node in the numbers that Native.spec gives
  // SpecKind
  private static final int ARGUMENTS = 0, TENSOR = 1, COMPLEX = 2, NONE = 3, BOOL = 4, INT = 5, FLOAT = 6, STRING = 7, OPAQUE = 8,
      DIM = 9, ITEM = 10, TUPLE = 11, LIST = 12, DICT = 13, ORDERED_DICT = 14, NAMED_TUPLE = 15;

  private static final class Node {
    int kind;
    int keyKind;
    int count;
    int end;
    int tensor;
    long integer;
    double number;
    String text;
    byte[] expression; // of a DIM
    Object key; // a String or Long; null: none
  }

  private final long model;
  private final byte[] method;
  private final boolean inputs;
  private final Node[] nodes;
  private final int[] arguments; // the part that each positional argument goes to

  Spec(long model, byte[] method, boolean inputs) {
    this.model = model;
    this.method = method;
    this.inputs = inputs;
    Object[] read = Native.spec(model, method, inputs);
    long[] numbers = (long[]) read[0];
    byte[][] texts = (byte[][]) read[1], keys = (byte[][]) read[2];
    arguments = (int[]) read[3];
    nodes = new Node[texts.length];
    for (int i = 0; i < nodes.length; ++i) {
      Node node = nodes[i] = new Node();
      int at = FIELDS * i;
      node.kind = (int) numbers[at];
      node.keyKind = (int) numbers[at + 1];
      node.count = (int) numbers[at + 2];
      node.end = (int) numbers[at + 3];
      node.tensor = (int) numbers[at + 4];
      node.integer = numbers[at + 6];
      node.number = Double.longBitsToDouble(numbers[at + 7]);
      node.text = Native.string(texts[i]);
      if (node.kind == DIM) node.expression = Native.text(node.text);
      if (node.keyKind == STRING) node.key = Native.string(keys[i]);
      if (node.keyKind == INT || node.keyKind == BOOL) node.key = numbers[at + 8];
    }
  }

  // --- arguments ---
  /** The tensors in a call's arguments, in the order of the method's inputs. */
  void flatten(IValue[] args, Tensor[] leaves) {
    if (args.length > arguments.length) throw wrongCount(args.length);
    for (int i = 0; i < args.length; ++i) {
      Node part = nodes[arguments[i]];
      if (part.kind == TENSOR && args[i] != null && args[i].isTensor()) {
        leaves[part.tensor] = args[i].toTensor();
      } else {
        flatten(arguments[i], args[i], part.key != null ? (String) part.key : "args[" + i + "]", leaves);
      }
    }
    for (Tensor leaf : leaves) {
      if (leaf == null) throw wrongCount(args.length);
    }
  }

  private void flatten(int index, IValue value, String where, Tensor[] leaves) {
    Node node = nodes[index];
    boolean fits = value != null;
    switch (fits ? node.kind : ARGUMENTS) {
      case ARGUMENTS: // null
        break;
      case TENSOR:
        if (fits = value.isTensor() && value.toTensor() != null) leaves[node.tensor] = value.toTensor();
        break;
      case NONE:
        fits = value.isNull();
        break;
      case BOOL:
        fits = value.isBool() && value.toBool() == (node.integer != 0);
        break;
      case INT:
        fits = value.isLong() && value.toLong() == node.integer;
        break;
      case FLOAT:
        fits = value.isDouble() && Double.compare(value.toDouble(), node.number) == 0;
        break;
      case STRING:
      case OPAQUE:
        fits = value.isString() && value.toStr().equals(node.text);
        break;
      case TUPLE:
      case LIST:
        fits = flattenItems(index, Values.items(value), where, leaves);
        break;
      case NAMED_TUPLE:
        fits = value.isTuple() ? flattenItems(index, value.toTuple(), where, leaves) : flattenDict(index, value, where, leaves);
        break;
      case DICT:
      case ORDERED_DICT:
        fits = flattenDict(index, value, where, leaves);
        break;
      default: // complex numbers, which Java has none of
        fits = false;
    }
    if (fits) return;
    throw new IllegalArgumentException("argument '" + where + "': expected " + expected(index) + ", got " + what(value));
  }

  private boolean flattenItems(int index, IValue[] items, String where, Tensor[] leaves) {
    if (items == null || items.length != nodes[index].count) return false;
    int part = index + 1;
    for (int i = 0; i < items.length; ++i, part = nodes[part].end) flatten(part, items[i], where + "[" + i + "]", leaves);
    return true;
  }

  private boolean flattenDict(int index, IValue value, String where, Tensor[] leaves) {
    Map<?, IValue> map = value.isDictStringKey() ? value.toDictStringKey() : value.isDictLongKey() ? value.toDictLongKey() : null;
    if (map == null || map.size() != nodes[index].count) return false;
    int part = index + 1;
    for (int i = 0; i < nodes[index].count; ++i, part = nodes[part].end) {
      if (!map.containsKey(nodes[part].key)) return false;
      flatten(part, map.get(nodes[part].key), where + "." + nodes[part].key, leaves);
    }
    return true;
  }

  private IllegalArgumentException wrongCount(int got) {
    return new IllegalArgumentException(describe(0) + ": expected so many arguments, got " + got);
  }

  private String expected(int index) {
    int kind = nodes[index].kind;
    String words = kind == FLOAT ? String.valueOf(nodes[index].number) : describe(index);
    return kind >= NONE && kind <= OPAQUE ? words + ", as when the model was captured" : words;
  }

  private String describe(int node) {
    return Native.string(Native.describe(model, method, inputs, node));
  }

  private static String what(IValue value) {
    if (value == null) return "null";
    if (value.isNull()) return "None";
    if (value.isTensor()) return value.toTensor() == null ? "a null tensor" : value.toTensor().toString();
    if (value.isBool()) return "bool " + value.toBool();
    if (value.isLong()) return "int " + value.toLong();
    if (value.isDouble()) return "float " + value.toDouble();
    if (value.isString()) return "'" + value.toStr() + "'";
    if (value.isDictStringKey()) return "a dict with the keys " + value.toDictStringKey().keySet();
    if (value.isDictLongKey()) return "a dict with the keys " + value.toDictLongKey().keySet();
    return (value.isTuple() ? "a tuple of " : "a list of ") + Values.items(value).length;
  }

  // --- results ---
  /** What a call gives, of its flat tensors; `given` are those that came in, whose sizes results may depend on. */
  IValue build(Tensor[] results, Tensor[] given) {
    return build(0, results, given);
  }

  private IValue build(int index, Tensor[] results, Tensor[] given) {
    Node node = nodes[index];
    switch (node.kind) {
      case TENSOR:
        return IValue.from(results[node.tensor]);
      case NONE:
        return IValue.optionalNull();
      case BOOL:
        return IValue.from(node.integer != 0);
      case INT:
        return IValue.from(node.integer);
      case FLOAT:
        return IValue.from(node.number);
      case STRING:
      case OPAQUE:
        return IValue.from(node.text);
      case DIM:
        return IValue.from(dim(node.expression, given));
      case ITEM:
        return item(results[node.tensor]);
      case COMPLEX:
        throw new IllegalArgumentException("at::Tensor scalar type ComplexFloat is not supported on java side");
      default:
        break;
    }
    IValue[] parts = new IValue[node.count], keys = new IValue[node.count];
    int part = index + 1;
    for (int i = 0; i < node.count; ++i, part = nodes[part].end) {
      parts[i] = build(part, results, given);
      Object key = nodes[part].key;
      keys[i] = key == null ? null : key instanceof String ? IValue.from((String) key) : IValue.from((Long) key);
    }
    if (node.kind == DICT || node.kind == ORDERED_DICT) return Values.dict(keys, parts);
    return node.kind == LIST ? Values.list(parts) : IValue.tupleFrom(parts);
  }

  private static long dim(byte[] expression, Tensor[] given) {
    long[] dims = new long[8 * given.length];
    int[] ranks = new int[given.length];
    for (int i = 0; i < given.length; ++i) {
      long[] shape = given[i].shape();
      ranks[i] = shape.length;
      System.arraycopy(shape, 0, dims, 8 * i, shape.length);
    }
    return Native.dim(expression, dims, ranks);
  }

  private static IValue item(Tensor tensor) {
    switch (tensor.dtype()) {
      case FLOAT32:
      case FLOAT16:
      case BFLOAT16:
        return IValue.from((double) Tensors.floats(tensor)[0]);
      case FLOAT64:
        return IValue.from(tensor.getDataAsDoubleArray()[0]);
      case BOOL:
        return IValue.from(Tensors.booleans(tensor)[0]);
      case INT64:
        return IValue.from(tensor.getDataAsLongArray()[0]);
      case INT32:
        return IValue.from((long) tensor.getDataAsIntArray()[0]);
      case INT16:
        return IValue.from((long) ((java.nio.ShortBuffer) tensor.getRawDataBuffer()).get(0));
      case UINT8:
        return IValue.from((long) (tensor.getDataAsUnsignedByteArray()[0] & 255));
      default:
        return IValue.from((long) tensor.getDataAsByteArray()[0]);
    }
  }
}
