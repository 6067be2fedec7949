package org.penlight;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Native memory that goes with a Java object: freed once, by release() or, where nobody called it, by a thread of its own after the
 * garbage collector took the object. It must not refer to that object.
 */
abstract class Owned extends PhantomReference<Object> {
  private static final ReferenceQueue<Object> GONE = new ReferenceQueue<>();
  private static final Set<Owned> LIVE = Collections.newSetFromMap(new ConcurrentHashMap<Owned, Boolean>());

  static {
    Thread thread =
        new Thread("penlight-memory") {
          @Override
          public void run() {
            while (true) {
              try {
                ((Owned) GONE.remove()).release();
              } catch (InterruptedException e) {
                continue; // whoever interrupts threads at large: memory is freed as before
              }
            }
          }
        };
    thread.setDaemon(true);
    thread.start();
  }

  Owned(Object user) {
    super(user, GONE);
    LIVE.add(this);
  }

  /** How many there are that were not freed yet. */
  static int count() {
    return LIVE.size();
  }

  abstract void free();

  final void release() {
    if (LIVE.remove(this)) free();
  }
}
