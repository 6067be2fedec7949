package android.text;

public class TextUtils {
  public static String join(CharSequence delimiter, Iterable<?> tokens) {
    throw new UnsupportedOperationException();
  }
}
