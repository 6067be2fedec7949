package org.pytorch.cameraclassification;

import java.util.ArrayDeque;
import java.util.Queue;

/** Of the last few numbers. */
final class MovingAverage {
  private final int mPeriod;
  private final Queue<Long> mQueue = new ArrayDeque<>();
  private long mSum;

  MovingAverage(int period) {
    mPeriod = period;
  }

  /** Takes one more, and says the average of those that count. */
  double add(long value) {
    mSum += value;
    mQueue.add(value);
    if (mQueue.size() > mPeriod) mSum -= mQueue.remove();
    return (double) mSum / mQueue.size();
  }
}
