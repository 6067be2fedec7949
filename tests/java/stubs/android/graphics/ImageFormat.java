package android.graphics;

/** The one format that is asked for. */
public class ImageFormat {
  public static final int YUV_420_888 = 35;
}
