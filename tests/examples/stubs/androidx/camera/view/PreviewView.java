package androidx.camera.view;

import android.view.View;
import androidx.camera.core.Preview;

public final class PreviewView extends View {
  public Preview.SurfaceProvider getSurfaceProvider() {
    throw new UnsupportedOperationException();
  }
}
