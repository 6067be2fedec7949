package org.pytorch;

import android.content.res.AssetFileDescriptor;
import android.content.res.AssetManager;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import org.penlight.Model;

/** Models in an app's assets, and the number of threads. */
public final class PyTorchAndroid {
  private PyTorchAndroid() {}

  /**
   * Loads a model from an app's assets. One that the package holds uncompressed ({@code noCompress} in build.gradle) is mapped where it
   * lies; a compressed one is unpacked into memory.
   */
  public static Module loadModuleFromAsset(final AssetManager assetManager, final String assetName, final Device device) {
    return new Module(new LiteNativePeer(open(assetManager, assetName), device));
  }

  public static Module loadModuleFromAsset(final AssetManager assetManager, final String assetName) {
    return loadModuleFromAsset(assetManager, assetName, Device.CPU);
  }

  /** Threads of all modules, from the next call on; those with code that is interpreted keep what they began with. */
  public static void setNumThreads(int numThreads) {
    if (numThreads < 1) throw new IllegalArgumentException("Number of threads cannot be less than 1");
    NativePeer.setNumThreads(numThreads);
  }

  private static Model open(AssetManager assets, String name) {
    try (AssetFileDescriptor file = descriptor(assets, name)) {
      if (file != null) {
        long length = Math.max(0, file.getLength()); // not known: up to the file's end
        return Model.open(file.getParcelFileDescriptor().getFd(), file.getStartOffset(), length);
      }
      return Model.open(unpacked(assets, name));
    } catch (IOException e) {
      throw new IllegalArgumentException("Failed to open asset '" + name + "'", e);
    }
  }

  /** Null where the asset is compressed, or is not there. */
  private static AssetFileDescriptor descriptor(AssetManager assets, String name) throws IOException {
    try {
      return assets.openFd(name);
    } catch (FileNotFoundException e) {
      return null;
    }
  }

  private static ByteBuffer unpacked(AssetManager assets, String name) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    byte[] part = new byte[1 << 16];
    try (InputStream in = assets.open(name)) {
      for (int n = in.read(part); n >= 0; n = in.read(part)) bytes.write(part, 0, n);
    }
    ByteBuffer all = ByteBuffer.allocateDirect(bytes.size());
    all.put(bytes.toByteArray());
    return all;
  }
}
