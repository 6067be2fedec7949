package android.os;

import java.io.Closeable;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.nio.file.Files;

/** A file's descriptor, as a number: the desktop's Java hides it, the kernel lists it. */
public class ParcelFileDescriptor implements Closeable {
  private final FileInputStream stream;
  private final int fd;

  public ParcelFileDescriptor(File file) throws IOException {
    stream = new FileInputStream(file);
    int found = -1;
    for (File entry : new File("/proc/self/fd").listFiles()) {
      if (Files.exists(entry.toPath()) && Files.isSameFile(entry.toPath(), file.toPath())) found = Integer.parseInt(entry.getName());
    }
    fd = found;
  }

  public int getFd() {
    return fd;
  }

  @Override
  public void close() throws IOException {
    stream.close();
  }
}
