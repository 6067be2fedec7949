package org.pytorch.cameraclassification;

import android.Manifest;
import android.content.pm.PackageManager;
import android.os.Bundle;
import android.text.TextUtils;
import android.widget.TextView;
import androidx.activity.ComponentActivity;
import androidx.annotation.OptIn;
import androidx.camera.core.CameraSelector;
import androidx.camera.core.ExperimentalGetImage;
import androidx.camera.core.ImageAnalysis;
import androidx.camera.core.ImageProxy;
import androidx.camera.core.Preview;
import androidx.camera.lifecycle.ProcessCameraProvider;
import androidx.camera.view.PreviewView;
import androidx.core.app.ActivityCompat;
import androidx.core.content.ContextCompat;
import com.google.common.util.concurrent.ListenableFuture;
import java.io.IOException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.pytorch.LiteModuleLoader;
import org.pytorch.Module;
import org.pytorch.examples.Labels;

/** Shows what the camera sees, and below it what that is likely to be. Frames that come while one is looked at are left out. */
public class MainActivity extends ComponentActivity {
  private static final int REQUEST_CAMERA = 200;

  private final ExecutorService mBackground = Executors.newSingleThreadExecutor();
  private TextView mText;
  private Module mModule;
  private FrameClassifier mClassifier;

  @Override
  protected void onCreate(Bundle savedInstanceState) {
    super.onCreate(savedInstanceState);
    setContentView(R.layout.activity_main);
    mText = findViewById(R.id.text);
    try {
      Labels labels = new Labels(getAssets().open("labels.txt"));
      mModule = LiteModuleLoader.loadModuleFromAsset(getAssets(), "model.pen");
      mClassifier = new FrameClassifier(mModule, labels);
    } catch (IOException e) {
      mText.setText(e.toString());
      return;
    }
    if (ContextCompat.checkSelfPermission(this, Manifest.permission.CAMERA) == PackageManager.PERMISSION_GRANTED) {
      startCamera();
    } else {
      ActivityCompat.requestPermissions(this, new String[] {Manifest.permission.CAMERA}, REQUEST_CAMERA);
    }
  }

  @Override
  public void onRequestPermissionsResult(int requestCode, String[] permissions, int[] grantResults) {
    super.onRequestPermissionsResult(requestCode, permissions, grantResults);
    if (requestCode != REQUEST_CAMERA) return;
    if (grantResults.length > 0 && grantResults[0] == PackageManager.PERMISSION_GRANTED) {
      startCamera();
    } else {
      mText.setText(R.string.needs_camera);
    }
  }

  private void startCamera() {
    ListenableFuture<ProcessCameraProvider> provider = ProcessCameraProvider.getInstance(this);
    provider.addListener(
        () -> {
          try {
            bind(provider.get());
          } catch (ExecutionException | InterruptedException e) {
            mText.setText(e.toString());
          }
        },
        ContextCompat.getMainExecutor(this));
  }

  private void bind(ProcessCameraProvider provider) {
    Preview preview = new Preview.Builder().build();
    preview.setSurfaceProvider(((PreviewView) findViewById(R.id.preview)).getSurfaceProvider());
    ImageAnalysis analysis =
        new ImageAnalysis.Builder().setBackpressureStrategy(ImageAnalysis.STRATEGY_KEEP_ONLY_LATEST).build();
    analysis.setAnalyzer(mBackground, this::analyze);
    provider.unbindAll();
    provider.bindToLifecycle(this, CameraSelector.DEFAULT_BACK_CAMERA, preview, analysis);
  }

  @OptIn(markerClass = ExperimentalGetImage.class)
  private void analyze(ImageProxy image) {
    try (ImageProxy frame = image) { // the next one comes when this one is closed
      FrameClassifier.AnalysisResult result =
          mClassifier.analyzeImage(frame.getImage(), frame.getImageInfo().getRotationDegrees());
      runOnUiThread(() -> show(result));
    }
  }

  private void show(FrameClassifier.AnalysisResult result) {
    double perSecond = 1000.0 / Math.max(result.analysisDuration, 1);
    String times = getString(R.string.times, result.moduleForwardDuration, result.movingAverage, perSecond);
    mText.setText(TextUtils.join("\n", result.topK) + "\n" + times);
  }

  @Override
  protected void onDestroy() {
    super.onDestroy();
    if (mModule != null) mBackground.execute(mModule::destroy); // after the last frame
    mBackground.shutdown();
  }
}
