import android.graphics.Bitmap;
import android.media.Image;
import java.lang.management.ManagementFactory;
import java.nio.FloatBuffer;
import java.util.Random;
import org.penlight.Model;
import org.penlight.Options;
import org.penlight.Session;
import org.penlight.TensorInfo;
import org.penlight.Tensors;
import org.pytorch.IValue;
import org.pytorch.MemoryFormat;
import org.pytorch.Module;
import org.pytorch.PyTorchAndroid;
import org.pytorch.Tensor;
import org.pytorch.torchvision.PlainImages;
import org.pytorch.torchvision.TensorImageUtils;

/** Times of the Java binding: `calls FILE SECONDS` and `images SECONDS`, each a line of names and numbers (see bench/java_binding.py). */
public final class JavaBinding {
  private static final float[] MEAN = TensorImageUtils.TORCHVISION_NORM_MEAN_RGB, STD = TensorImageUtils.TORCHVISION_NORM_STD_RGB;

  private JavaBinding() {}

  /** Seconds of one call, the best of pieces of a quarter of a second; the first second is the compiler's. */
  private static double best(double seconds, Runnable call) {
    double best = Double.MAX_VALUE, end = System.nanoTime() * 1e-9 + 1 + seconds, warm = end - seconds;
    while (System.nanoTime() * 1e-9 < end) {
      long start = System.nanoTime();
      int calls = 0;
      for (; System.nanoTime() - start < 250_000_000L; ++calls) call.run();
      double taken = (System.nanoTime() - start) * 1e-9 / calls;
      if (System.nanoTime() * 1e-9 > warm && taken < best) best = taken;
    }
    return best;
  }

  private static long bytes(Runnable call) {
    com.sun.management.ThreadMXBean bean = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    long thread = Thread.currentThread().getId(), before = bean.getThreadAllocatedBytes(thread);
    for (int i = 0; i < 1000; ++i) call.run();
    return (bean.getThreadAllocatedBytes(thread) - before) / 1000;
  }

  private static void calls(String path, double seconds) {
    PyTorchAndroid.setNumThreads(1);
    Module module = Module.load(path);
    Model model = Model.open(path);
    Session session = model.session(new Options().threads(1));
    TensorInfo in = model.inputs("forward").get(0), out = model.outputs("forward").get(0);
    FloatBuffer data = Tensor.allocateFloatBuffer((int) Tensor.numel(in.leastShape));
    IValue[] args = {IValue.from(Tensor.fromBlob(data, in.leastShape))};
    Tensor[] results = {Tensors.empty(out.dtype, out.shape)};
    Runnable forward = () -> module.forward(args), into = () -> session.runInto("forward", results, args);
    System.out.printf("forward %.1f into %.1f", 1 / best(seconds, forward), 1 / best(seconds, into));
    System.out.printf(" forward_bytes %d into_bytes %d%n", bytes(forward), bytes(into));
  }

  private static void images(double seconds) {
    int side = 224;
    int[] pixels = new Random(1).ints(side * side).toArray();
    Bitmap bitmap = new Bitmap(pixels, side);
    Image image = PlainImages.camera(640, 480, 0, 1, 0, 2, 1);
    FloatBuffer out = Tensor.allocateFloatBuffer(3 * side * side);
    for (MemoryFormat format : new MemoryFormat[] {MemoryFormat.CONTIGUOUS, MemoryFormat.CHANNELS_LAST}) {
      boolean last = format == MemoryFormat.CHANNELS_LAST;
      double plain =
          best(
              seconds,
              () -> {
                int[] room = new int[side * side];
                bitmap.getPixels(room, 0, side, 0, 0, side, side);
                PlainImages.bitmap(room, side, side, MEAN, STD, out, 0, last);
              });
      double ours = best(seconds, () -> TensorImageUtils.bitmapToFloatBuffer(bitmap, 0, 0, side, side, MEAN, STD, out, 0, format));
      System.out.printf("bitmap %s %.1f %.1f%n", format, 1e6 * plain, 1e6 * ours);
      for (int rotate = 0; rotate <= 90; rotate += 90) {
        final int turn = rotate;
        plain = best(seconds, () -> PlainImages.yuv(image, turn, side, side, MEAN, STD, out, 0, last));
        ours = best(seconds, () -> TensorImageUtils.imageYUV420CenterCropToFloatBuffer(image, turn, side, side, MEAN, STD, out, 0, format));
        System.out.printf("camera/%d %s %.1f %.1f%n", rotate, format, 1e6 * plain, 1e6 * ours);
      }
    }
  }

  public static void main(String[] args) {
    if (args[0].equals("calls")) calls(args[1], Double.parseDouble(args[2]));
    else images(Double.parseDouble(args[1]));
  }
}
