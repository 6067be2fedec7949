package android.graphics;

import java.io.InputStream;

public class BitmapFactory {
  public static Bitmap decodeStream(InputStream stream) {
    throw new UnsupportedOperationException();
  }
}
