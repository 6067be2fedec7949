package org.pytorch;

/** Where a module's tensors are computed. */
public enum Device {
  CPU(1),
  /** A GPU by way of Vulkan: tensors are copied there and back by themselves. */
  VULKAN(2);

  final int jniCode;

  Device(int jniCode) {
    this.jniCode = jniCode;
  }
}
