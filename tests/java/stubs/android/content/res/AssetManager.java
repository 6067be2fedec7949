package android.content.res;

import android.os.ParcelFileDescriptor;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;

/** Assets for tests: files in a folder. One whose name begins with "compressed" has no descriptor, as in a real package; others lie at an offset. */
public final class AssetManager {
  public static final int OFFSET = 4096;
  private final File folder;

  public AssetManager(File folder) {
    this.folder = folder;
  }

  public AssetFileDescriptor openFd(String name) throws IOException {
    if (name.startsWith("compressed")) throw new FileNotFoundException("This file can not be opened as a file descriptor; it is probably compressed");
    File file = new File(folder, name);
    if (!file.exists()) throw new FileNotFoundException(name);
    return new AssetFileDescriptor(new ParcelFileDescriptor(file), OFFSET, file.length() - 2 * OFFSET);
  }

  public InputStream open(String name) throws IOException {
    return new FileInputStream(new File(folder, name));
  }
}
