package org.penlight;

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

/** The same binding over a library that holds one model's kernels, no VM and no Vulkan. */
public class SmallLibraryTest {
  @Test
  public void oneModel() throws Exception {
    close(read("big.y"), Module.load(path("big.pen")).forward(IValue.from(tensor("big.x", 1, 3, 64, 64))).toTensor());
    try (Model model = Model.open(path("big.pen"))) {
      assertTrue(model.bundledInputs("forward").isEmpty());
    }
    assertTrue(Model.vulkanProblem(), Model.vulkanProblem().contains("vulkan"));
    fails(RuntimeException.class, () -> Module.load(path("big.pen"), null, Device.VULKAN), "vulkan");
    fails(PenlightException.class, () -> Module.load(path("kinds.pen")), "kinds.pen");
    fails(PenlightException.class, () -> Module.load(path("halves.pen")), "halves.pen");
  }
}
