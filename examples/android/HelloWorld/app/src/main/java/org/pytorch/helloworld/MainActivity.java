package org.pytorch.helloworld;

import android.app.Activity;
import android.graphics.Bitmap;
import android.graphics.BitmapFactory;
import android.os.Bundle;
import android.text.TextUtils;
import android.widget.ImageView;
import android.widget.TextView;
import java.io.IOException;
import java.io.InputStream;
import org.pytorch.LiteModuleLoader;
import org.pytorch.examples.Labels;

/** Shows a photograph and the three classes that a model finds likeliest. */
public class MainActivity extends Activity {
  @Override
  protected void onCreate(Bundle savedInstanceState) {
    super.onCreate(savedInstanceState);
    setContentView(R.layout.activity_main);
    TextView text = findViewById(R.id.text);
    try (InputStream photograph = getAssets().open("image.jpg")) {
      Bitmap bitmap = BitmapFactory.decodeStream(photograph);
      ((ImageView) findViewById(R.id.image)).setImageBitmap(bitmap);
      Labels labels = new Labels(getAssets().open("labels.txt"));
      Classifier classifier = new Classifier(LiteModuleLoader.loadModuleFromAsset(getAssets(), "model.pen"), labels);
      text.setText(TextUtils.join("\n", classifier.top(bitmap, 3)));
    } catch (IOException e) {
      text.setText(e.toString());
    }
  }
}
