package org.pytorch;

import java.util.Locale;
import java.util.Map;

/** A value that a module takes or gives: a tensor, a number, a string, or a container of them. */
public class IValue {
  private static final int TYPE_CODE_NULL = 1;
  private static final int TYPE_CODE_TENSOR = 2;
  private static final int TYPE_CODE_BOOL = 3;
  private static final int TYPE_CODE_LONG = 4;
  private static final int TYPE_CODE_DOUBLE = 5;
  private static final int TYPE_CODE_STRING = 6;
  private static final int TYPE_CODE_TUPLE = 7;
  private static final int TYPE_CODE_BOOL_LIST = 8;
  private static final int TYPE_CODE_LONG_LIST = 9;
  private static final int TYPE_CODE_DOUBLE_LIST = 10;
  private static final int TYPE_CODE_TENSOR_LIST = 11;
  private static final int TYPE_CODE_LIST = 12;
  private static final int TYPE_CODE_DICT_STRING_KEY = 13;
  private static final int TYPE_CODE_DICT_LONG_KEY = 14;
  private static final String[] TYPE_NAMES = {
    "Unknown", "Null", "Tensor", "Bool", "Long", "Double", "String", "Tuple", "BoolList", "LongList", "DoubleList", "TensorList",
    "GenericList", "DictStringKey", "DictLongKey",
  };

  private final int mTypeCode;
  private final Object mData;

  private IValue(int typeCode, Object data) {
    mTypeCode = typeCode;
    mData = data;
  }

  public boolean isNull() {
    return mTypeCode == TYPE_CODE_NULL;
  }

  public boolean isTensor() {
    return mTypeCode == TYPE_CODE_TENSOR;
  }

  public boolean isBool() {
    return mTypeCode == TYPE_CODE_BOOL;
  }

  public boolean isLong() {
    return mTypeCode == TYPE_CODE_LONG;
  }

  public boolean isDouble() {
    return mTypeCode == TYPE_CODE_DOUBLE;
  }

  public boolean isString() {
    return mTypeCode == TYPE_CODE_STRING;
  }

  public boolean isTuple() {
    return mTypeCode == TYPE_CODE_TUPLE;
  }

  public boolean isBoolList() {
    return isList(TYPE_CODE_BOOL_LIST);
  }

  public boolean isLongList() {
    return isList(TYPE_CODE_LONG_LIST);
  }

  public boolean isDoubleList() {
    return isList(TYPE_CODE_DOUBLE_LIST);
  }

  public boolean isTensorList() {
    return isList(TYPE_CODE_TENSOR_LIST);
  }

  public boolean isList() {
    return mTypeCode == TYPE_CODE_LIST;
  }

  public boolean isDictStringKey() {
    return mTypeCode == TYPE_CODE_DICT_STRING_KEY || isEmptyDict();
  }

  public boolean isDictLongKey() {
    return mTypeCode == TYPE_CODE_DICT_LONG_KEY || isEmptyDict();
  }

  /** An optional that is empty: None. */
  public static IValue optionalNull() {
    return new IValue(TYPE_CODE_NULL, null);
  }

  public static IValue from(Tensor tensor) {
    return new IValue(TYPE_CODE_TENSOR, tensor);
  }

  public static IValue from(boolean value) {
    return new IValue(TYPE_CODE_BOOL, value);
  }

  public static IValue from(long value) {
    return new IValue(TYPE_CODE_LONG, value);
  }

  public static IValue from(double value) {
    return new IValue(TYPE_CODE_DOUBLE, value);
  }

  public static IValue from(String value) {
    return new IValue(TYPE_CODE_STRING, value);
  }

  public static IValue listFrom(boolean... list) {
    return new IValue(TYPE_CODE_BOOL_LIST, list);
  }

  public static IValue listFrom(long... list) {
    return new IValue(TYPE_CODE_LONG_LIST, list);
  }

  public static IValue listFrom(double... list) {
    return new IValue(TYPE_CODE_DOUBLE_LIST, list);
  }

  public static IValue listFrom(Tensor... list) {
    return new IValue(TYPE_CODE_TENSOR_LIST, list);
  }

  /** A list of any values of one kind: lists, tuples, dicts … Some of them may be None. */
  public static IValue listFrom(IValue... array) {
    int kind = TYPE_CODE_NULL;
    for (IValue item : array) {
      if (item.isNull()) continue;
      if (kind != TYPE_CODE_NULL && kind != item.mTypeCode) throw new IllegalArgumentException("List must contain items of the same type");
      kind = item.mTypeCode;
    }
    return new IValue(TYPE_CODE_LIST, array);
  }

  public static IValue tupleFrom(IValue... array) {
    return new IValue(TYPE_CODE_TUPLE, array);
  }

  public static IValue dictStringKeyFrom(Map<String, IValue> map) {
    return new IValue(TYPE_CODE_DICT_STRING_KEY, map);
  }

  public static IValue dictLongKeyFrom(Map<Long, IValue> map) {
    return new IValue(TYPE_CODE_DICT_LONG_KEY, map);
  }

  public Tensor toTensor() {
    preconditionType(TYPE_CODE_TENSOR, isTensor());
    return (Tensor) mData;
  }

  public boolean toBool() {
    preconditionType(TYPE_CODE_BOOL, isBool());
    return (boolean) mData;
  }

  public long toLong() {
    preconditionType(TYPE_CODE_LONG, isLong());
    return (long) mData;
  }

  public double toDouble() {
    preconditionType(TYPE_CODE_DOUBLE, isDouble());
    return (double) mData;
  }

  public String toStr() {
    preconditionType(TYPE_CODE_STRING, isString());
    return (String) mData;
  }

  public boolean[] toBoolList() {
    preconditionType(TYPE_CODE_BOOL_LIST, isBoolList());
    return isEmptyList() ? new boolean[0] : (boolean[]) mData;
  }

  public long[] toLongList() {
    preconditionType(TYPE_CODE_LONG_LIST, isLongList());
    return isEmptyList() ? new long[0] : (long[]) mData;
  }

  public double[] toDoubleList() {
    preconditionType(TYPE_CODE_DOUBLE_LIST, isDoubleList());
    return isEmptyList() ? new double[0] : (double[]) mData;
  }

  public Tensor[] toTensorList() {
    preconditionType(TYPE_CODE_TENSOR_LIST, isTensorList());
    return isEmptyList() ? new Tensor[0] : (Tensor[]) mData;
  }

  public IValue[] toList() {
    preconditionType(TYPE_CODE_LIST, isList());
    return (IValue[]) mData;
  }

  public IValue[] toTuple() {
    preconditionType(TYPE_CODE_TUPLE, isTuple());
    return (IValue[]) mData;
  }

  @SuppressWarnings("unchecked") // the two kinds of dicts differ in their type code
  public Map<String, IValue> toDictStringKey() {
    preconditionType(TYPE_CODE_DICT_STRING_KEY, isDictStringKey());
    return (Map<String, IValue>) mData;
  }

  @SuppressWarnings("unchecked")
  public Map<Long, IValue> toDictLongKey() {
    preconditionType(TYPE_CODE_DICT_LONG_KEY, isDictLongKey());
    return (Map<Long, IValue>) mData;
  }

  /** Lists and dicts that a model gives know their kind by what is in them: an empty one is of every kind. */
  private boolean isEmptyList() {
    return mTypeCode == TYPE_CODE_LIST && ((IValue[]) mData).length == 0;
  }

  private boolean isEmptyDict() {
    return (mTypeCode == TYPE_CODE_DICT_STRING_KEY || mTypeCode == TYPE_CODE_DICT_LONG_KEY) && ((Map<?, ?>) mData).isEmpty();
  }

  private boolean isList(int typeCode) {
    return mTypeCode == typeCode || isEmptyList();
  }

  private void preconditionType(int expected, boolean fits) {
    if (fits) return;
    throw new IllegalStateException(
        String.format(Locale.US, "Expected IValue type %s, actual type %s", TYPE_NAMES[expected], TYPE_NAMES[mTypeCode]));
  }
}
