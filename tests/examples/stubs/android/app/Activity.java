package android.app;

import android.content.Context;
import android.content.res.AssetManager;
import android.os.Bundle;
import android.view.View;
import java.io.File;

public class Activity extends Context {
  protected void onCreate(Bundle savedInstanceState) {}

  protected void onDestroy() {}

  public void setContentView(int layout) {}

  public <T extends View> T findViewById(int id) {
    throw new UnsupportedOperationException();
  }

  public final void runOnUiThread(Runnable action) {}

  public void onRequestPermissionsResult(int requestCode, String[] permissions, int[] grantResults) {}

  @Override
  public AssetManager getAssets() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Context getApplicationContext() {
    throw new UnsupportedOperationException();
  }

  @Override
  public File getNoBackupFilesDir() {
    throw new UnsupportedOperationException();
  }

  @Override
  public String getPackageCodePath() {
    throw new UnsupportedOperationException();
  }
}
