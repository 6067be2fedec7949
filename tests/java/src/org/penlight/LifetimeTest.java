package org.penlight;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.pytorch.Numbers.close;
import static org.pytorch.Numbers.path;
import static org.pytorch.Numbers.read;
import static org.pytorch.Numbers.tensor;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.Test;
import org.pytorch.IValue;
import org.pytorch.Module;
import org.pytorch.Tensor;

/** Sixteen threads, garbage collection under load, destroy() beside a run: never a crash, nothing left behind. */
public class LifetimeTest {
  private static final int THREADS = 16;

  private interface Task {
    void run(int thread) throws Exception;
  }

  private static void together(Task task) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(THREADS);
    List<Future<?>> all = new ArrayList<>();
    for (int i = 0; i < THREADS; ++i) {
      final int thread = i;
      all.add(
          pool.submit(
              () -> {
                task.run(thread);
                return null;
              }));
    }
    try {
      for (Future<?> one : all) one.get();
    } finally {
      pool.shutdownNow();
    }
  }

  @Test
  public void oneModuleForAll() throws Exception {
    Module module = Module.load(path("classifier.pen")), kinds = Module.load(path("kinds.pen"));
    AtomicInteger calls = new AtomicInteger();
    together(
        thread -> {
          IValue x = IValue.from(tensor("classifier.x", 1, 3, 8, 8));
          IValue two = IValue.from(Tensor.fromBlob(new float[] {1, 1}, new long[] {2}));
          for (int i = 0; i < 200; ++i) {
            close(read("classifier.y"), module.forward(x).toTensor());
            assertEquals(3L * i, kinds.runMethod("integer", IValue.from((long) i)).toLong());
            kinds.runMethod("add", two);
            calls.incrementAndGet();
          }
        });
    IValue zero = IValue.from(Tensor.fromBlob(new float[2], new long[] {2}));
    assertEquals(calls.get(), kinds.runMethod("add", zero).toTuple()[0].toTensor().getDataAsFloatArray()[0], 0);
  }

  @Test
  public void sessionsSideBySide() throws Exception {
    try (Model model = Model.open(path("classifier.pen"))) {
      together(
          thread -> {
            try (Session session = model.session(new Options().threads(1 + thread % 2))) {
              IValue x = IValue.from(tensor("classifier.x", 1, 3, 8, 8));
              for (int i = 0; i < 100; ++i) close(read("classifier.y"), session.run("forward", x).toTensor());
            }
          });
    }
  }

  @Test
  public void destroyedByAnother() throws Exception {
    for (int round = 0; round < 20; ++round) {
      Module module = Module.load(path(round % 2 == 0 ? "classifier.pen" : "kinds.pen"));
      IValue x = IValue.from(tensor("classifier.x", 1, 3, 8, 8));
      together(
          thread -> {
            try {
              for (int i = 0; i < 20; ++i) {
                if (thread == 3 && i == 10) module.destroy();
                module.forward(x);
              }
            } catch (NullPointerException e) {
              assertTrue(e.getMessage(), e.getMessage().contains("this module was destroyed"));
            }
          });
    }
  }

  /** What Java lets go of is freed, though nobody closes it; and what it holds is not, though the collector runs all the time. */
  @Test
  public void collectedUnderLoad() throws Exception {
    Thread collector =
        new Thread(
            () -> {
              while (!Thread.currentThread().isInterrupted()) System.gc();
            });
    collector.start();
    try {
      Module kept = Module.load(path("classifier.pen"));
      for (int i = 0; i < 100; ++i) {
        IValue x = IValue.from(tensor("classifier.x", 1, 3, 8, 8));
        close(read("classifier.y"), Model.open(path("classifier.pen")).session().run("forward", x).toTensor());
        close(read("classifier.y"), Module.load(path("classifier.pen")).forward(x).toTensor());
        close(read("classifier.y"), kept.forward(x).toTensor());
        Module.load(path("kinds.pen")).runMethod("keep", x);
      }
      kept.destroy();
    } finally {
      collector.interrupt();
      collector.join();
    }
    for (int i = 0; i < 200 && Owned.count() > 0; ++i) {
      System.gc();
      Thread.sleep(20);
    }
    assertEquals(0, Owned.count());
  }
}
