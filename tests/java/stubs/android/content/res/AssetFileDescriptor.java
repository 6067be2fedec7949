package android.content.res;

import android.os.ParcelFileDescriptor;
import java.io.Closeable;
import java.io.IOException;

/** Part of an open file. */
public class AssetFileDescriptor implements Closeable {
  private final ParcelFileDescriptor descriptor;
  private final long startOffset;
  private final long length;

  public AssetFileDescriptor(ParcelFileDescriptor descriptor, long startOffset, long length) {
    this.descriptor = descriptor;
    this.startOffset = startOffset;
    this.length = length;
  }

  public ParcelFileDescriptor getParcelFileDescriptor() {
    return descriptor;
  }

  public long getStartOffset() {
    return startOffset;
  }

  public long getLength() {
    return length;
  }

  @Override
  public void close() throws IOException {
    descriptor.close();
  }
}
