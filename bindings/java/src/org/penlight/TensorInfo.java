package org.penlight;

import java.util.Arrays;
import org.pytorch.DType;

/** What a planned method takes or gives. */
public final class TensorInfo {
  public final String name;
  public final DType dtype;
  /** -1: free. */
  public final long[] shape;
  public final long[] leastShape;
  /** Long.MAX_VALUE: no bound. */
  public final long[] greatestShape;

  TensorInfo(String name, long[] numbers) {
    this.name = name;
    dtype = Tensors.dtype((int) numbers[0]);
    int rank = (int) numbers[1];
    shape = Arrays.copyOfRange(numbers, 2, 2 + rank);
    leastShape = Arrays.copyOfRange(numbers, 10, 10 + rank);
    greatestShape = Arrays.copyOfRange(numbers, 18, 18 + rank);
  }

  @Override
  public String toString() {
    return name + ": " + dtype + Arrays.toString(shape).replace("-1", "?");
  }
}
