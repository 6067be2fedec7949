package org.pytorch;

import android.content.res.AssetManager;
import java.util.Map;

/** Loads modules, under the name that apps with the lite interpreter know. */
public class LiteModuleLoader {
  private LiteModuleLoader() {}

  /** See {@link Module#load(String, Map, Device)}. */
  public static Module load(final String modelPath, final Map<String, String> extraFiles, final Device device) {
    return new Module(new LiteNativePeer(modelPath, extraFiles, device));
  }

  /** Loads a model for the CPU. */
  public static Module load(final String modelPath) {
    return load(modelPath, null, Device.CPU);
  }

  /** See {@link PyTorchAndroid#loadModuleFromAsset(AssetManager, String, Device)}. */
  public static Module loadModuleFromAsset(final AssetManager assetManager, final String assetName, Device device) {
    return PyTorchAndroid.loadModuleFromAsset(assetManager, assetName, device);
  }

  public static Module loadModuleFromAsset(final AssetManager assetManager, final String assetName) {
    return PyTorchAndroid.loadModuleFromAsset(assetManager, assetName, Device.CPU);
  }
}
