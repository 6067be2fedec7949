package org.penlight;

/** What the last run of a method had its device do. */
public final class DeviceReport {
  public final String device;
  /** Programs that were started on it; 0 on the CPU. */
  public final long dispatches;
  /** Of inputs and outputs, between it and the host. */
  public final long copies;
  public final long bytesUp;
  public final long bytesDown;

  DeviceReport(String device, long[] numbers) {
    this.device = device;
    dispatches = numbers[0];
    copies = numbers[1];
    bytesUp = numbers[2];
    bytesDown = numbers[3];
  }
}
