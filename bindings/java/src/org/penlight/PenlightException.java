package org.penlight;

import java.nio.charset.Charset;

/** What the runtime found wrong: the message says what, where, what was expected and what came. */
public class PenlightException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final int status;

  PenlightException(int status, byte[] message) { // made by the native code
    super(new String(message, Charset.forName("UTF-8")));
    this.status = status;
  }

  /** A {@code pen_status} of penlight.h. */
  public int status() {
    return status;
  }
}
