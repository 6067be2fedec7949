package org.pytorch.vulkantest;

import android.app.Activity;
import android.graphics.Bitmap;
import android.graphics.BitmapFactory;
import android.os.Bundle;
import android.text.TextUtils;
import android.widget.ImageView;
import android.widget.TextView;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import org.pytorch.PyTorchAndroid;
import org.pytorch.examples.Labels;

/** Runs the model that lies in its assets on the CPU and on the GPU, and shows what both say. */
public class MainActivity extends Activity {
  private static final int RUNS = 10;

  @Override
  protected void onCreate(Bundle savedInstanceState) {
    super.onCreate(savedInstanceState);
    setContentView(R.layout.activity_main);
    TextView text = findViewById(R.id.text);
    text.setText(R.string.running);
    try (InputStream photograph = getAssets().open("image.jpg")) {
      Bitmap bitmap = BitmapFactory.decodeStream(photograph);
      ((ImageView) findViewById(R.id.image)).setImageBitmap(bitmap);
      Labels labels = new Labels(getAssets().open("labels.txt"));
      new Thread(
              () -> {
                DeviceTest.Loader loader = device -> PyTorchAndroid.loadModuleFromAsset(getAssets(), "model.pen", device);
                List<String> lines = DeviceTest.run(loader, labels, bitmap, RUNS);
                runOnUiThread(() -> text.setText(TextUtils.join("\n", lines)));
              })
          .start();
    } catch (IOException e) {
      text.setText(e.toString());
    }
  }
}
