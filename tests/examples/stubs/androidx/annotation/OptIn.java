package androidx.annotation;

import java.lang.annotation.Annotation;

public @interface OptIn {
  Class<? extends Annotation>[] markerClass();
}
