package org.pytorch.examples;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;

/** Names of classes, and which of them a model's scores speak for. */
public final class Labels {
  /** A class and its probability. */
  public static final class Scored {
    public final String name;
    public final double probability;

    Scored(String name, double probability) {
      this.name = name;
      this.probability = probability;
    }

    @Override
    public String toString() {
      return String.format(Locale.ROOT, "%.1f %%  %s", 100 * probability, name);
    }
  }

  private final List<String> names = new ArrayList<>();

  /** Reads labels.txt: a name a line. */
  public Labels(InputStream lines) throws IOException {
    try (BufferedReader reader = new BufferedReader(new InputStreamReader(lines, StandardCharsets.UTF_8))) {
      for (String line = reader.readLine(); line != null; line = reader.readLine()) names.add(line);
    }
  }

  /** The likeliest classes, first one first, of scores before softmax. */
  public List<Scored> top(float[] scores, int count) {
    double largest = Double.NEGATIVE_INFINITY;
    for (float score : scores) largest = Math.max(largest, score);
    double sum = 0;
    for (float score : scores) sum += Math.exp(score - largest);
    List<Integer> order = new ArrayList<>();
    for (int i = 0; i < scores.length; i++) order.add(i);
    Collections.sort(order, (a, b) -> Float.compare(scores[b], scores[a]));
    List<Scored> top = new ArrayList<>();
    for (int i : order.subList(0, Math.min(count, scores.length))) {
      top.add(new Scored(names.get(i), Math.exp(scores[i] - largest) / sum));
    }
    return top;
  }
}
