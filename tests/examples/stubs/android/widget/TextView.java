package android.widget;

import android.view.View;

public class TextView extends View {
  public final void setText(CharSequence text) {}

  public final void setText(int id) {}
}
