package org.pytorch;

import java.util.Map;
import org.penlight.Model;
import org.penlight.Options;
import org.penlight.Session;

/**
 * A module's model and its session, in the manner of the old interface: calls from several threads wait for each other, and the number
 * of threads is whatever {@link PyTorchAndroid#setNumThreads} said last.
 */
class NativePeer implements INativePeer {
  private static volatile int threads; // 0: one per core

  private final Device device;
  private Session session; // null: destroyed

  NativePeer(String modelPath, Map<String, String> extraFiles, Device device) {
    this(Model.open(modelPath), extraFiles, device);
  }

  NativePeer(Model model, Map<String, String> extraFiles, Device device) {
    this.device = device;
    try {
      if (extraFiles != null) {
        for (Map.Entry<String, String> file : extraFiles.entrySet()) {
          String content = model.extraFile(file.getKey());
          if (content != null) file.setValue(content);
        }
      }
      session = model.session(options());
    } finally {
      model.close(); // the session keeps what it needs of it
    }
  }

  static void setNumThreads(int count) {
    threads = count;
  }

  private Options options() {
    Options options = new Options().threads(threads);
    return device == Device.VULKAN ? options.device("vulkan") : options;
  }

  @Override
  public synchronized void resetNative() {
    if (session != null) session.close();
    session = null;
  }

  @Override
  public IValue forward(IValue... inputs) {
    return runMethod("forward", inputs);
  }

  @Override
  public synchronized IValue runMethod(String methodName, IValue... inputs) {
    if (session == null) {
      throw new NullPointerException(methodName + ": this module was destroyed: expected no call after destroy(); load it again");
    }
    session.setThreads(threads);
    return session.run(methodName, inputs);
  }
}
