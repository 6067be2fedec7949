package android.media;

import java.nio.ByteBuffer;

/** A camera's picture. */
public abstract class Image {
  public abstract static class Plane {
    public abstract ByteBuffer getBuffer();

    public abstract int getRowStride();

    public abstract int getPixelStride();
  }

  public abstract int getFormat();

  public abstract int getWidth();

  public abstract int getHeight();

  public abstract Plane[] getPlanes();
}
