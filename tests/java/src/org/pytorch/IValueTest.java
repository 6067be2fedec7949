package org.pytorch;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertTrue;
import static org.pytorch.Numbers.fails;

import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Map;
import org.junit.Test;

/** IValue as the old interface has it. */
public class IValueTest {
  private static final String[] KINDS = {
    "Null", "Tensor", "Bool", "Long", "Double", "String", "Tuple", "BoolList", "LongList", "DoubleList", "TensorList", "List",
    "DictStringKey", "DictLongKey",
  };
  private static final Tensor TENSOR = Tensor.fromBlob(new float[1], new long[] {1});
  private static final Map<String, IValue> STRINGS = Collections.singletonMap("a", IValue.from(1));
  private static final Map<Long, IValue> LONGS = Collections.singletonMap(3L, IValue.from(1));
  private static final IValue[] VALUES = {
    IValue.optionalNull(),
    IValue.from(TENSOR),
    IValue.from(true),
    IValue.from(7L),
    IValue.from(0.5),
    IValue.from("text"),
    IValue.tupleFrom(IValue.from(1L), IValue.from("a")),
    IValue.listFrom(true, false),
    IValue.listFrom(1L, 2L),
    IValue.listFrom(0.5, 1.5),
    IValue.listFrom(TENSOR, TENSOR),
    IValue.listFrom(IValue.from(1L), IValue.from(2L)),
    IValue.dictStringKeyFrom(STRINGS),
    IValue.dictLongKeyFrom(LONGS),
  };

  /** Each is of one kind only, and every other getter says so, in the original's words. */
  @Test
  public void kinds() throws Exception {
    for (int i = 0; i < KINDS.length; ++i) {
      for (int j = 0; j < KINDS.length; ++j) {
        assertEquals(i == j, IValue.class.getMethod("is" + KINDS[j]).invoke(VALUES[i]));
        if (j == 0) continue;
        Method get = IValue.class.getMethod("to" + KINDS[j].replace("String", j == 5 ? "Str" : "String"));
        if (i == j) {
          get.invoke(VALUES[i]);
          continue;
        }
        final int value = i;
        fails(
            IllegalStateException.class,
            () -> {
              try {
                get.invoke(VALUES[value]);
              } catch (java.lang.reflect.InvocationTargetException e) {
                throw (Exception) e.getCause();
              }
            },
            "Expected IValue type " + (j == 11 ? "GenericList" : KINDS[j]) + ", actual type " + (i == 11 ? "GenericList" : KINDS[i]));
      }
    }
  }

  @Test
  public void contents() {
    assertSame(TENSOR, VALUES[1].toTensor());
    assertTrue(VALUES[2].toBool());
    assertEquals(7, VALUES[3].toLong());
    assertEquals(0.5, VALUES[4].toDouble(), 0);
    assertEquals("text", VALUES[5].toStr());
    assertEquals("a", VALUES[6].toTuple()[1].toStr());
    assertTrue(VALUES[7].toBoolList()[0]);
    assertEquals(2, VALUES[8].toLongList()[1]);
    assertEquals(1.5, VALUES[9].toDoubleList()[1], 0);
    assertSame(TENSOR, VALUES[10].toTensorList()[1]);
    assertEquals(2, VALUES[11].toList()[1].toLong());
    assertSame(STRINGS, VALUES[12].toDictStringKey());
    assertSame(LONGS, VALUES[13].toDictLongKey());
    fails(
        IllegalArgumentException.class,
        () -> IValue.listFrom(IValue.from(1L), IValue.from(true)),
        "List must contain items of the same type");
    IValue empty = IValue.listFrom(new IValue[0]); // of every kind
    assertEquals(0, empty.toList().length + empty.toTensorList().length + empty.toLongList().length);
    assertEquals(0, empty.toBoolList().length + empty.toDoubleList().length);
  }
}
