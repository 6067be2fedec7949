package org.penlight;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads JSON into maps, lists, strings, Longs, Doubles, Booleans and null: a model's metadata, on machines without Android's org.json. */
final class Json {
  private static final int DEPTH_LIMIT = 256; // files are not trusted: no stack overflow

  private final String text;
  private int at;
  private int depth;

  private Json(String text) {
    this.text = text;
  }

  static Object read(String text) {
    Json json = new Json(text);
    Object value = json.value();
    json.skip();
    if (json.at != text.length()) throw json.wrong("the end");
    return value;
  }

  private Object value() {
    skip();
    char c = at < text.length() ? text.charAt(at) : 0;
    if (c == '"') return string();
    if (c == '-' || (c >= '0' && c <= '9')) return number();
    if (c == '{' || c == '[') {
      if (++depth > DEPTH_LIMIT) throw wrong("at most " + DEPTH_LIMIT + " containers inside each other");
      ++at;
      Object made = c == '{' ? map() : list();
      --depth;
      return made;
    }
    String[] words = {"true", "false", "null"};
    for (String word : words) {
      if (!text.startsWith(word, at)) continue;
      at += word.length();
      return word.equals("null") ? null : (Object) word.equals("true");
    }
    throw wrong("a value");
  }

  private Map<String, Object> map() {
    Map<String, Object> made = new LinkedHashMap<>();
    while (!takes('}')) {
      if (!made.isEmpty() && !takes(',')) throw wrong("a comma or a brace");
      skip();
      String key = string();
      if (!takes(':')) throw wrong("a colon");
      made.put(key, value());
    }
    return made;
  }

  private List<Object> list() {
    List<Object> made = new ArrayList<>();
    while (!takes(']')) {
      if (!made.isEmpty() && !takes(',')) throw wrong("a comma or a bracket");
      made.add(value());
    }
    return made;
  }

  private String string() {
    if (!takes('"')) throw wrong("a string");
    StringBuilder made = new StringBuilder();
    while (true) {
      if (at >= text.length()) throw wrong("the end of a string");
      char c = text.charAt(at++);
      if (c == '"') return made.toString();
      if (c != '\\') {
        made.append(c);
        continue;
      }
      if (at >= text.length()) throw wrong("a letter after a backslash");
      char escape = text.charAt(at++);
      int plain = "\"\\/bfnrt".indexOf(escape);
      if (plain >= 0) {
        made.append("\"\\/\b\f\n\r\t".charAt(plain));
      } else if (escape == 'u' && at + 4 <= text.length()) {
        try {
          made.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
        } catch (NumberFormatException e) {
          throw wrong("four digits after \\u");
        }
        at += 4;
      } else {
        throw wrong("an escape that JSON knows");
      }
    }
  }

  private Object number() {
    int start = at;
    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) ++at;
    String digits = text.substring(start, at);
    try {
      return digits.matches("-?[0-9]{1,18}") ? (Object) Long.valueOf(digits) : (Object) Double.valueOf(digits);
    } catch (NumberFormatException e) {
      at = start;
      throw wrong("a number");
    }
  }

  private boolean takes(char c) {
    if (c != '"') skip();
    if (at >= text.length() || text.charAt(at) != c) return false;
    ++at;
    return true;
  }

  private void skip() {
    while (at < text.length() && " \n\r\t".indexOf(text.charAt(at)) >= 0) ++at;
  }

  private IllegalArgumentException wrong(String expected) {
    String got = at < text.length() ? "'" + text.charAt(at) + "'" : "the end";
    return new IllegalArgumentException("metadata, character " + at + ": expected " + expected + ", got " + got);
  }
}
