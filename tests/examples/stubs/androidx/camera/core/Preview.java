package androidx.camera.core;

public final class Preview extends UseCase {
  public interface SurfaceProvider {}

  public static final class Builder {
    public Preview build() {
      throw new UnsupportedOperationException();
    }
  }

  public void setSurfaceProvider(SurfaceProvider provider) {}
}
