package org.pytorch.imagesegmentation;

import android.app.Activity;
import android.content.Context;
import android.graphics.Bitmap;
import android.graphics.BitmapFactory;
import android.os.Bundle;
import android.os.SystemClock;
import android.text.TextUtils;
import android.widget.Button;
import android.widget.ImageView;
import android.widget.TextView;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import org.pytorch.LiteModuleLoader;
import org.pytorch.Module;

/** Shows a photograph and, at the press of a button, what is where on it. */
public class MainActivity extends Activity implements Runnable {
  private ImageView mImageView;
  private TextView mTextView;
  private Button mButtonSegment;
  private Bitmap mBitmap;
  private Module mModule;

  @Override
  protected void onCreate(Bundle savedInstanceState) {
    super.onCreate(savedInstanceState);
    setContentView(R.layout.activity_main);
    mImageView = findViewById(R.id.image);
    mTextView = findViewById(R.id.text);
    mButtonSegment = findViewById(R.id.segment);
    try (InputStream photograph = getAssets().open("image.jpg")) {
      mBitmap = BitmapFactory.decodeStream(photograph);
      mModule = LiteModuleLoader.load(MainActivity.assetFilePath(getApplicationContext(), "deeplabv3.pen"));
    } catch (IOException e) {
      mTextView.setText(e.toString());
      mButtonSegment.setEnabled(false);
    }
    mImageView.setImageBitmap(mBitmap);
    findViewById(R.id.restart)
        .setOnClickListener(
            view -> {
              mImageView.setImageBitmap(mBitmap);
              mTextView.setText("");
            });
    mButtonSegment.setOnClickListener(
        view -> {
          mButtonSegment.setEnabled(false);
          mTextView.setText(R.string.running);
          new Thread(this).start();
        });
  }

  /** Copies an asset to where it has a path, once for each version of the app. */
  static String assetFilePath(Context context, String assetName) throws IOException {
    File file = new File(context.getNoBackupFilesDir(), assetName);
    long installed = new File(context.getPackageCodePath()).lastModified();
    if (file.exists() && file.lastModified() > installed) return file.getAbsolutePath();
    File part = new File(context.getNoBackupFilesDir(), assetName + ".part");
    try (InputStream in = context.getAssets().open(assetName);
        OutputStream out = new FileOutputStream(part)) {
      byte[] buffer = new byte[1 << 16];
      for (int read = in.read(buffer); read != -1; read = in.read(buffer)) out.write(buffer, 0, read);
    }
    if (!part.renameTo(file)) throw new IOException(part + ": cannot be renamed to " + file);
    return file.getAbsolutePath();
  }

  @Override
  public void run() {
    final long startTime = SystemClock.elapsedRealtime();
    final int[] classes = new Segmenter(mModule).segment(mBitmap);
    final long inferenceTime = SystemClock.elapsedRealtime() - startTime;
    int size = Segmenter.SIZE;
    Bitmap overlay = Bitmap.createBitmap(Segmenter.overlay(mBitmap, classes), size, size, Bitmap.Config.ARGB_8888);
    Bitmap transferred = Bitmap.createScaledBitmap(overlay, mBitmap.getWidth(), mBitmap.getHeight(), true);
    runOnUiThread(
        () -> {
          mImageView.setImageBitmap(transferred);
          mTextView.setText(getString(R.string.found, TextUtils.join(", ", Segmenter.found(classes)), inferenceTime));
          mButtonSegment.setEnabled(true);
        });
  }
}
