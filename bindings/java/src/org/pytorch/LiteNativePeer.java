package org.pytorch;

import java.util.Map;
import org.penlight.Model;

/** As {@link NativePeer}: one runtime serves both loaders of the old interface. */
class LiteNativePeer extends NativePeer {
  LiteNativePeer(String modelPath, Map<String, String> extraFiles, Device device) {
    super(modelPath, extraFiles, device);
  }

  LiteNativePeer(Model model, Device device) {
    super(model, null, device);
  }
}
