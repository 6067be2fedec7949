package androidx.camera.core;

import android.media.Image;

public interface ImageProxy extends AutoCloseable {
  Image getImage();

  ImageInfo getImageInfo();

  @Override
  void close();
}
