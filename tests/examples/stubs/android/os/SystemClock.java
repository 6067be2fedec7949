package android.os;

public final class SystemClock {
  public static long elapsedRealtime() {
    throw new UnsupportedOperationException();
  }
}
