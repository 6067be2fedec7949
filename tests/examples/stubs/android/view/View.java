package android.view;

public class View {
  public interface OnClickListener {
    void onClick(View view);
  }

  public void setOnClickListener(OnClickListener listener) {}

  public void setEnabled(boolean enabled) {}
}
