// Mutations that know of tables and numbers only: what both kinds of code (mutate.h, mutate_script.h) build on.
#pragma once
#include "exercise.h"
#include "pen_file.h"
#define PEN_PLATFORM_CHECK                 // keeps platform.h's declarations apart from libc's
#include "penlight/runtime/exec/kernel.h"  // the registry: which operators there are, and their schemas

inline int64_t wild_number(Rng& rng, int64_t now) {
  static const int64_t kInteresting[] = {0,
                                         1,
                                         2,
                                         3,
                                         4,
                                         5,
                                         7,
                                         8,
                                         9,
                                         15,
                                         16,
                                         17,
                                         31,
                                         32,
                                         63,
                                         64,
                                         65,
                                         127,
                                         255,
                                         256,
                                         1000,
                                         4096,
                                         65535,
                                         65536,
                                         -1,
                                         -2,
                                         -3,
                                         -8,
                                         INT32_MAX,
                                         INT32_MIN,
                                         0xFFFFFFFFll,
                                         0x100000000ll,
                                         int64_t{1} << 24,
                                         int64_t{1} << 31,
                                         int64_t{1} << 40,
                                         (int64_t{1} << 40) + 1,
                                         int64_t{1} << 46,
                                         int64_t{1} << 62,
                                         INT64_MAX,
                                         INT64_MIN,
                                         INT64_MIN + 1,
                                         INT64_MIN + 2,
                                         INT64_MIN + 5,
                                         INT64_MIN + (int64_t{1} << 31)};
  constexpr uint64_t kCount = sizeof kInteresting / sizeof *kInteresting;
  uint64_t u = static_cast<uint64_t>(now);
  switch (rng.below(8)) {
    case 0:
      return static_cast<int64_t>(u + 1);
    case 1:
      return static_cast<int64_t>(u - 1);
    case 2:
      return static_cast<int64_t>(u * 2);
    case 3:
      return static_cast<int64_t>(u ^ uint64_t{1} << rng.below(64));
    case 4:
      return static_cast<int64_t>(rng.below(12));
    case 5:
      return static_cast<int64_t>(0 - u);
    default:
      return kInteresting[rng.below(kCount)];
  }
}
inline double wild_float(Rng& rng, double now) {
  static const double kInteresting[] = {
      0, -0.0, 1, -1, 0.5, 2, 1e-300, 1e300, 1e-45, 1e-40, 3.5e38, -3.5e38, __builtin_inf(), -__builtin_inf(), __builtin_nan("")};
  return rng.one_in(3) ? now * 2 : kInteresting[rng.below(15)];
}

// One field of one record becomes another number, or that of its neighbour.
inline void change_field(File& f, Rng& rng, const std::string& id) {
  Section_& s = f.sections.at(id);
  const std::vector<Field>& list = fields[id];
  if (!s.count() || list.empty()) return;
  size_t record = rng.below(s.count());
  const Field& field = list[rng.below(list.size())];
  uint8_t* at = s.bytes.data() + record * s.record_size + field.offset;
  static const std::map<std::string, size_t> kSizes = {{"u8", 1}, {"u16", 2}, {"u32", 4}, {"u64", 8}, {"i64", 8}, {"f64", 8}};
  size_t size = kSizes.at(field.type);
  if (field.offset + size > s.record_size) return;
  if (rng.one_in(3)) {
    memmove(at, s.bytes.data() + rng.below(s.count()) * s.record_size + field.offset, size);
  } else if (field.type == "f64") {
    double d;
    memcpy(&d, at, 8);
    d = wild_float(rng, d);
    memcpy(at, &d, 8);
  } else {
    int64_t n = 0;
    memcpy(&n, at, size);
    n = wild_number(rng, n);
    if (size == 4 && rng.one_in(4)) {  // an index near the end of some table
      auto any = f.sections.begin();
      std::advance(any, static_cast<long>(rng.below(f.sections.size())));
      n = static_cast<int64_t>(any->second.count()) - static_cast<int64_t>(rng.below(3));
    }
    memcpy(at, &n, size);
  }
}

inline void change_records(File& f, Rng& rng) {
  const std::string& id = f.order[rng.below(f.order.size())];
  Section_& s = f.sections.at(id);
  if (s.count() < 2 || id == "DATA") return;
  uint8_t *a = s.bytes.data() + rng.below(s.count()) * s.record_size, *b = s.bytes.data() + rng.below(s.count()) * s.record_size;
  switch (rng.below(4)) {
    case 0:
      std::swap_ranges(a, a + s.record_size, b);
      break;
    case 1:
      memmove(a, b, s.record_size);
      break;
    case 2:
      s.bytes.resize(s.bytes.size() - s.record_size * (1 + rng.below(s.count() / 4 + 1)));
      break;
    default:
      s.bytes.insert(s.bytes.end(), s.bytes.begin(), s.bytes.begin() + s.record_size);
      break;
  }
}

inline std::string any_text(Rng& rng) {
  static const char* const kTexts[] = {"",    "plain", "panel16", "taps",     "grouped",  "f32",    "f16",       "f64",      "i8",   "u8",
                                       "i16", "i32",   "i64",     "bool",     "bf16",     "relu",   "clamp",     "silu",     "gelu", "elu",
                                       "add", "where", "lt",      "cast.i64", "cast.f64", "conv2d", "hardswish", "softplus", "%s%n", "x"};
  if (rng.one_in(4)) {
    std::string key = pen::kKernels[rng.below(static_cast<uint64_t>(pen::kKernelCount))].key.text();
    return rng.one_in(2) ? key : key.substr(0, key.rfind('.'));
  }
  return kTexts[rng.below(sizeof kTexts / sizeof *kTexts)];
}

inline int64_t likely_int(Rng& rng) {
  static const int64_t kLikely[] = {0, 1, 1, 1, 2, 2, 3, 4, 8};
  return rng.one_in(12) ? wild_number(rng, 1) : kLikely[rng.below(9)];
}
