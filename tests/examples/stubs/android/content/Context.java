package android.content;

import android.content.res.AssetManager;
import java.io.File;

public abstract class Context {
  public abstract AssetManager getAssets();

  public abstract Context getApplicationContext();

  public abstract File getNoBackupFilesDir();

  public abstract String getPackageCodePath();

  public final String getString(int id, Object... arguments) {
    throw new UnsupportedOperationException();
  }
}
