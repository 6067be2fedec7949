package org.penlight;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertTrue;
import static org.pytorch.Numbers.close;
import static org.pytorch.Numbers.fails;
import static org.pytorch.Numbers.path;
import static org.pytorch.Numbers.read;
import static org.pytorch.Numbers.tensor;

import org.junit.Test;
import org.pytorch.Device;
import org.pytorch.IValue;
import org.pytorch.Module;

/** Device.VULKAN: it runs there, or an exception says why not (-Dvulkan: what should be). */
public class DeviceTest {
  private static final boolean THERE = System.getProperty("vulkan").equals("there");

  @Test
  public void vulkan() throws Exception {
    if (!THERE) {
      String why = Model.vulkanProblem();
      assertNotNull(why);
      assertTrue(why, why.contains(System.getProperty("why")));
      fails(RuntimeException.class, () -> Module.load(path("classifier.pen"), null, Device.VULKAN), System.getProperty("why"));
      return;
    }
    assertEquals(null, Model.vulkanProblem());
    IValue x = IValue.from(tensor("classifier.x", 1, 3, 8, 8));
    Module module = Module.load(path("classifier.pen"), null, Device.VULKAN);
    for (int i = 0; i < 3; ++i) close(read("classifier.y"), module.forward(x).toTensor());
    module.destroy();
    try (Model model = Model.open(path("classifier.pen")); Session session = model.session(new Options().device("vulkan"))) {
      session.run("forward", x);
      DeviceReport report = session.deviceReport("forward");
      assertTrue(report.dispatches > 0 && report.copies >= 2 && report.bytesUp >= 768 && report.bytesDown >= 40);
      assertTrue(!report.device.equals("cpu"));
    }
    try (Model model = Model.open(path("classifier.pen")); Session session = model.session(new Options().device("vulkan").f16(true))) {
      float[] y = session.run("forward", x).toTensor().getDataAsFloatArray();
      for (int i = 0; i < y.length; ++i) assertEquals(read("classifier.y").get(i), y[i], 1e-2);
    }
  }

  @Test
  public void others() {
    try (Model model = Model.open(path("classifier.pen"))) {
      fails(PenlightException.class, () -> model.session(new Options().device("metal")), "metal");
      fails(PenlightException.class, () -> model.session(new Options().device("abacus")), "abacus");
    }
    try (Model model = Model.open(path("kinds.pen"))) {
      fails(PenlightException.class, () -> model.session(new Options().device("metal")), "metal");
    }
  }
}
