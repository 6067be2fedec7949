// Mutations of .pen files. Most change where it hurts (an index, a count, a dim, an attribute, a kernel's name with the
// attributes of another operator) and leave the rest right, so that they pass the first checks and reach the bind rules;
// others damage bytes.
#pragma once
#include "mutate_script.h"
#include "penlight_trace.h"

inline int dtype_of_key(const std::string& key) {  // -1: no matter
  static const char* const kNames[] = {"f32", "f16", "f64", "i8", "u8", "i16", "i32", "i64", "bool", "bf16"};
  size_t dot = key.find('.');
  if (dot == std::string::npos) return -1;
  std::string part = key.substr(dot + 1, key.find('.', dot + 1) - dot - 1);
  for (int i = 0; i < 10; ++i)
    if (part == kNames[i]) return i;
  if (part == "b8") return PEN_BOOL;
  if (part == "b16") return PEN_F16;
  if (part == "b32") return PEN_F32;
  return part == "b64" ? PEN_I64 : -1;
}

// How many numbers a list most likely has, by the name of its attribute.
inline uint64_t likely_length(Rng& rng, const std::string& name, int rank) {
  static const std::map<std::string, uint64_t> kUsual = {{"stride", 2}, {"dilation", 2}, {"kernel", 2},
                                                         {"size", 2},   {"padding", 4},  {"scales", 2}};
  if (rng.one_in(10)) return rng.below(6);
  auto usual = kUsual.find(name);
  if (usual != kUsual.end()) return name == "scales" && rng.one_in(2) ? 0 : usual->second;
  return name == "act_args" ? rng.below(4) : rng.one_in(3) ? rng.below(static_cast<uint64_t>(rank) + 1) : static_cast<uint64_t>(rank);
}

// A constant with zeros for data, as a new value of the (only) region.
inline uint32_t new_constant(File& f, int dtype, const std::vector<int64_t>& dims, const char* layout, uint64_t bytes) {
  Bytes& data = f.sections.at("DATA").bytes;
  data.resize((data.size() + 63) / 64 * 64);
  Constant c = {};
  c.name = f.string("made");
  c.layout = f.string(layout);
  c.dtype = static_cast<uint8_t>(dtype);
  c.rank = static_cast<uint8_t>(dims.size());
  c.dims = static_cast<uint32_t>(f.count("INTS"));
  for (int64_t d : dims) f.append("INTS", d);
  c.offset = data.size();
  c.size = bytes;
  if (bytes < 1 << 20) data.resize(data.size() + bytes);
  Value v = {};
  v.name = c.name;
  v.dtype = c.dtype;
  v.rank = c.rank;
  v.dims = c.dims;
  v.constant = f.append("CNST", c);
  f.append("VALS", v);
  Region r = f.get<Region>("REGN", 0);
  r.value_count = static_cast<uint32_t>(f.count("VALS")) - r.values;
  f.set("REGN", 0, r);
  return r.value_count - 1;
}

// Weights that fit an image with so many channels, in the layout that the kernel wants, mostly.
inline uint32_t new_weight(File& f, Rng& rng, const std::string& key, int64_t channels, int64_t* groups) {
  static const int64_t kOutputs[] = {1, 2, 5, 16, 17, 33};
  if (channels < 1 || channels > 64) channels = 4;
  bool linear = key[0] == 'l', taps = key.find("depthwise") != std::string::npos, grouped = key.find("grouped") != std::string::npos;
  *groups = linear ? 1 : taps || rng.one_in(4) ? channels : 1;
  if (channels % 2 == 0 && rng.one_in(3) && !taps && !linear) *groups = 2;
  int64_t n = kOutputs[rng.below(6)], inputs = channels / *groups, kh = linear ? 1 : 1 + static_cast<int64_t>(rng.below(4)),
          kw = linear ? 1 : 1 + static_cast<int64_t>(rng.below(5));
  std::vector<int64_t> dims = {n * *groups, inputs};
  if (!linear) dims.insert(dims.end(), {kh, kw});
  int64_t columns = taps || grouped ? n : (n + 15) / 16 * 16;
  int64_t bytes = 4 * *groups * columns * inputs * kh * kw;
  if (rng.one_in(12)) bytes = wild_number(rng, bytes);
  const char* layout = taps ? "taps" : grouped ? "grouped" : "panel16";
  return new_constant(f, PEN_F32, dims, layout, static_cast<uint64_t>(bytes));
}

// The first dims of a value, where the file says them as numbers.
inline int64_t declared_dim(const File& f, uint32_t value, int last) {
  Region region = f.get<Region>("REGN", 0);
  if (value == kNone || uint64_t{region.values} + value >= f.count("VALS")) return 0;
  Value v = f.get<Value>("VALS", region.values + value);
  int at = last ? v.rank - 1 : 1;
  if (at < 0 || at >= v.rank || uint64_t{v.dims} + v.rank > f.count("INTS")) return 0;
  return f.get<int64_t>("INTS", v.dims + static_cast<uint32_t>(at));
}

// A node becomes another operator, with inputs and attributes such as its schema wants.
inline void retarget(File& f, Rng& rng, size_t index, const pen::KernelEntry& entry) {
  Node node = f.get<Node>("NODE", index);
  Region region = f.get<Region>("REGN", 0);
  int dtype = dtype_of_key(entry.key.text());
  std::string key = entry.key.text();
  // values that may be read here: constants, region inputs, results of earlier nodes
  std::vector<uint32_t> values, typed;
  auto offer = [&](uint32_t v) {
    if (uint64_t{region.values} + v >= f.count("VALS")) return;
    values.push_back(v);
    if (f.get<Value>("VALS", region.values + v).dtype == dtype) typed.push_back(v);
  };
  for (uint32_t v = 0; v < region.value_count && region.values + v < f.count("VALS"); ++v)
    if (f.get<Value>("VALS", region.values + v).constant != kNone && rng.one_in(4)) offer(v);
  for (uint32_t i = 0; i < region.input_count && region.inputs + i < f.count("INDX"); ++i)
    offer(f.get<uint32_t>("INDX", region.inputs + i));
  for (size_t n = region.nodes; n < index && n < f.count("NODE"); ++n) {
    Node earlier = f.get<Node>("NODE", n);
    for (uint32_t i = 0; i < earlier.output_count && uint64_t{earlier.outputs} + i < f.count("INDX"); ++i)
      offer(f.get<uint32_t>("INDX", earlier.outputs + i));
  }
  if (values.empty()) return;
  auto pick = [&](bool any) {
    return !any && !typed.empty() && !rng.one_in(16) ? typed[rng.below(typed.size())] : values[rng.below(values.size())];
  };
  std::vector<uint32_t> inputs;
  for (uint32_t i = 0; i < node.input_count && uint64_t{node.inputs} + i < f.count("INDX"); ++i)
    inputs.push_back(f.get<uint32_t>("INDX", node.inputs + i));
  std::vector<Attr> attrs;
  std::vector<uint32_t> chosen;
  size_t used = 0;
  int64_t groups = 1;
  int rank = 2;
  for (const char* p = entry.schema; *p;) {
    while (*p == ' ') ++p;
    const char *colon = strchr(p, ':'), *end = colon;
    if (!colon) break;
    while (*end && *end != ' ') ++end;
    std::string name(p, colon), kind(colon + 1, end);
    p = end;
    bool list = kind.find("[]") != std::string::npos, optional = kind.find('?') != std::string::npos;
    if (kind[0] == 'T') {
      for (uint64_t n = list ? 1 + rng.below(3) : 1; n > 0; --n) {
        bool keep = used < inputs.size() && rng.one_in(4);
        uint32_t v = optional && rng.one_in(2) ? kNone : keep ? inputs[used] : pick(kind.find('*') != std::string::npos);
        if (name == "w" && used == 1 && (key.compare(0, 7, "conv2d.") == 0 || key.compare(0, 7, "linear.") == 0) && !rng.one_in(8)) {
          v = new_weight(f, rng, key, declared_dim(f, chosen[0], key[0] == 'l'), &groups);
          region = f.get<Region>("REGN", 0);
        }
        if (name == "b" && used == 2 && optional && v != kNone && !rng.one_in(8)) v = kNone;
        chosen.push_back(v);
        ++used;
      }
      if (chosen[0] != kNone && uint64_t{region.values} + chosen[0] < f.count("VALS"))
        rank = f.get<Value>("VALS", region.values + chosen[0]).rank;
      continue;
    }
    Attr a = {};
    a.name = f.string(name);
    if (optional && rng.one_in(2)) {
      a.kind = static_cast<uint8_t>(AttrKind::none);
    } else if (kind[0] == 'i') {
      a.kind = static_cast<uint8_t>(list ? AttrKind::ints : AttrKind::integer);
      a.count = list ? static_cast<uint32_t>(likely_length(rng, name, rank)) : 0;
      a.start = static_cast<uint32_t>(f.count("INTS"));
      bool permutation = name == "dims" && !rng.one_in(4);
      uint64_t shift = rng.next();
      for (uint64_t i = 0; i < (list ? a.count : 1); ++i)
        f.append("INTS", name == "groups" && !rng.one_in(8)       ? groups
                         : permutation && list && a.count         ? static_cast<int64_t>((i + shift) % a.count)
                         : name.compare(0, 3, "dim") == 0 && rank ? static_cast<int64_t>(rng.below(static_cast<uint64_t>(rank)))
                         : name == "padding" && rng.one_in(2)     ? 0
                                                                  : likely_int(rng));
    } else if (kind[0] == 'f') {
      a.kind = static_cast<uint8_t>(list ? AttrKind::floats : AttrKind::real);
      a.count = list ? static_cast<uint32_t>(likely_length(rng, name, rank)) : 0;
      a.start = static_cast<uint32_t>(f.count("FLTS"));
      for (uint64_t i = list ? a.count : 1; i > 0; --i) f.append("FLTS", rng.one_in(3) ? wild_float(rng, 1) : 1.0);
    } else if (kind[0] == 'b') {
      a.kind = static_cast<uint8_t>(AttrKind::boolean);
      a.start = static_cast<uint32_t>(rng.below(2));
    } else {
      a.kind = static_cast<uint8_t>(AttrKind::str);
      std::string text = any_text(rng);
      if (name == "dtype" && !rng.one_in(4))
        text = key.find("b8") != std::string::npos    ? "bool"
               : key.find("b16") != std::string::npos ? "f16"
               : key.find("64") != std::string::npos  ? "i64"
                                                      : "f32";
      if (name == "to") text = key.substr(key.rfind('.') + 1);
      if (name == "act" && rng.one_in(2)) text = "";
      a.start = f.string(text);
    }
    attrs.push_back(a);
  }
  node.key = f.string(entry.key.text());
  node.inputs = static_cast<uint32_t>(f.count("INDX"));
  node.input_count = static_cast<uint32_t>(chosen.size());
  for (uint32_t v : chosen) f.append("INDX", v);
  node.attrs = static_cast<uint32_t>(f.count("ATTR"));
  node.attr_count = static_cast<uint32_t>(attrs.size());
  for (const Attr& a : attrs) f.append("ATTR", a);
  f.set("NODE", index, node);
}
inline int32_t kernels_of = 0;  // the device that operators are drawn for, by its number
inline const pen::KernelEntry& any_kernel(Rng& rng) {
  for (;;) {
    const uint64_t k = rng.below(static_cast<uint64_t>(pen::kKernelCount));
    if (!pen_backend_has_kernel(kernels_of, static_cast<int32_t>(k)) && !rng.one_in(64)) continue;
    const pen::KernelEntry& e = pen::kKernels[k];
    if (strncmp(e.key, "cast.", 5) != 0 || rng.one_in(16)) return e;  // there are so many of these
  }
}
inline void retarget(File& f, Rng& rng) {
  if (f.count("NODE") && f.count("REGN")) retarget(f, rng, rng.below(f.count("NODE")), any_kernel(rng));
}

// A method of one or two operators, any that there are, on inputs of any dtype and shape.
inline void solo(File& f, Rng& rng) {
  Region region = f.get<Region>("REGN", 0);
  Method method = f.get<Method>("METH", 0);
  Instruction call = f.get<Instruction>("CODE", method.code), ret = f.get<Instruction>("CODE", method.code + method.code_count - 1);
  if (method.code_count != 2 || region.node_count < 2) return;
  bool two = rng.one_in(3);
  const pen::KernelEntry &first = any_kernel(rng), &second = any_kernel(rng);
  int wanted[2] = {dtype_of_key(first.key.text()), two ? dtype_of_key(second.key.text()) : -1};
  // inputs
  static const int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20, 33, 0};
  int64_t favourite[3];
  for (int64_t& s : favourite) s = kSizes[rng.below(15)];
  static const uint8_t kRanks[] = {4, 4, 4, 4, 3, 3, 2, 2, 1, 0, 5, 6};
  uint8_t usual_rank = kRanks[rng.below(12)];
  for (uint32_t i = 0; i < method.input_count; ++i) {
    Port p = f.get<Port>("PORT", method.inputs + i);
    Value v = f.get<Value>("VALS", region.values + f.get<uint32_t>("INDX", region.inputs + i));
    int dtype = wanted[rng.below(2)];
    p.dtype = static_cast<uint8_t>(dtype >= 0 && !rng.one_in(4) ? dtype : rng.one_in(2) ? int{PEN_I64} : static_cast<int>(rng.below(10)));
    p.rank = rng.one_in(4) ? kRanks[rng.below(12)] : usual_rank;
    p.dims = static_cast<uint32_t>(f.count("INTS"));
    for (int d = 0; d < p.rank; ++d) f.append("INTS", rng.one_in(5) ? kSizes[rng.below(15)] : favourite[rng.below(3)]);
    p.ranges = static_cast<uint32_t>(f.count("INTS"));
    for (uint32_t d = 0; d < p.rank; ++d) {
      int64_t size = f.get<int64_t>("INTS", p.dims + d);
      f.append("INTS", size);
      f.append("INTS", size);
    }
    v.dtype = p.dtype;
    v.rank = p.rank;
    v.dims = p.dims;
    v.layout = 0;
    f.set("PORT", method.inputs + i, p);
    f.set("VALS", region.values + f.get<uint32_t>("INDX", region.inputs + i), v);
  }
  // nodes
  region.node_count = two ? 2 : 1;
  region.output_count = method.output_count = call.result_count = ret.arg_count = 1;
  f.set("REGN", 0, region);
  retarget(f, rng, region.nodes, first);
  if (two) retarget(f, rng, region.nodes + 1, second);
  region = f.get<Region>("REGN", 0);
  uint32_t result = 0;
  for (uint32_t n = 0; n < region.node_count; ++n) {
    Node node = f.get<Node>("NODE", region.nodes + n);
    result = f.get<uint32_t>("INDX", node.outputs);
    Value v = f.get<Value>("VALS", region.values + result);
    v.rank = 4;
    v.layout = rng.one_in(2) ? 1 : 0;
    v.dims = 0;
    f.set("VALS", region.values + result, v);
  }
  region.outputs = f.append("INDX", result);
  ret.args = f.append("INDX", f.get<uint32_t>("INDX", call.results));
  Port p = f.get<Port>("PORT", method.outputs);
  Value v = f.get<Value>("VALS", region.values + result);
  p.dtype = v.dtype;
  p.rank = v.rank;
  p.dims = 0;
  f.set("PORT", method.outputs, p);
  f.set("REGN", 0, region);
  f.set("METH", 0, method);
  f.set("CODE", method.code, call);
  f.set("CODE", method.code + 1, ret);
}

// Input shapes, constants' shapes and layouts.
inline void reshape(File& f, Rng& rng) {
  if (rng.one_in(2) && f.count("CNST")) {
    size_t i = rng.below(f.count("CNST"));
    Constant c = f.get<Constant>("CNST", i);
    if (rng.one_in(3)) c.layout = f.string(any_text(rng));
    if (rng.one_in(3)) c.size = static_cast<uint64_t>(wild_number(rng, static_cast<int64_t>(c.size)));
    if (rng.one_in(2) && c.rank > 0 && uint64_t{c.dims} + c.rank <= f.count("INTS")) {
      size_t at = c.dims + rng.below(c.rank);
      f.set("INTS", at, likely_int(rng));
      if (rng.one_in(2)) {  // consistent: as many bytes as the dims say
        uint64_t bytes = kElementSize[c.dtype % 10];
        for (uint32_t d = 0; d < c.rank; ++d) bytes *= static_cast<uint64_t>(f.get<int64_t>("INTS", c.dims + d));
        c.size = bytes;
      }
    }
    f.set("CNST", i, c);
  } else if (f.count("PORT")) {
    size_t i = rng.below(f.count("PORT"));
    Port p = f.get<Port>("PORT", i);
    if (!p.rank || uint64_t{p.dims} + p.rank > f.count("INTS") || p.ranges == kNone || uint64_t{p.ranges} + 2u * p.rank > f.count("INTS"))
      return;
    uint64_t d = rng.below(p.rank);
    int64_t size = rng.one_in(6) ? 0 : static_cast<int64_t>(rng.below(20));
    f.set("INTS", p.dims + d, size);
    f.set("INTS", p.ranges + 2 * d, size);
    f.set("INTS", p.ranges + 2 * d + 1, size);
  }
}

// Records of another file, whole: over some of ours, after them, or all of a table; or all tables of both, one after the other, so that
// indices of the second mean records of the first.
inline void splice(File& f, const File& other, Rng& rng) {
  auto append = [&](const std::string& id, size_t from, size_t count) {
    auto theirs = other.sections.find(id);
    auto ours = f.sections.find(id);
    if (theirs == other.sections.end() || ours == f.sections.end() || theirs->second.record_size != ours->second.record_size) return;
    const Bytes& b = theirs->second.bytes;
    size_t size = ours->second.record_size;
    ours->second.bytes.insert(ours->second.bytes.end(), b.begin() + static_cast<long>(from * size),
                              b.begin() + static_cast<long>((from + count) * size));
  };
  if (rng.one_in(6)) {
    for (const std::string& id : f.order)
      if (other.sections.count(id)) append(id, 0, other.count(id.c_str()));
    return;
  }
  for (uint64_t n = 1 + rng.below(3); n > 0; --n) {
    const std::string& id = other.order[rng.below(other.order.size())];
    auto ours = f.sections.find(id);
    const Section_& theirs = other.sections.at(id);
    if (ours == f.sections.end()) {  // a table that this kind of file does not have
      if (id == "DATA") continue;
      f.order.insert(f.order.begin(), id);
      f.sections[id] = theirs;
    } else if (rng.one_in(4)) {
      if (id != "DATA") ours->second = theirs;
    } else if (theirs.count() && theirs.record_size == ours->second.record_size) {
      size_t from = rng.below(theirs.count()), count = std::min<size_t>(1 + rng.below(4), theirs.count() - from), size = theirs.record_size;
      if (rng.one_in(2)) {
        append(id, from, count);
      } else if (ours->second.count() >= count) {
        size_t to = rng.below(ours->second.count() - count + 1);
        memcpy(ours->second.bytes.data() + to * size, theirs.bytes.data() + from * size, count * size);
      }
    }
  }
}

inline void damage(Bytes& b, const Bytes& other, Rng& rng) {
  auto at = [&](size_t n) { return b.begin() + static_cast<long>(rng.below(n + 1)); };
  size_t head = std::min<size_t>(b.size(), 80 + 18 * 24);
  switch (rng.below(8)) {
    case 0:
      b.resize(rng.below(b.size() + 1));
      break;
    case 1:
      b.insert(b.end(), 1 + rng.below(200), static_cast<uint8_t>(rng.next()));
      break;
    case 2:
    case 3:
      for (uint64_t n = 1 + rng.below(4); n > 0 && head; --n) b[rng.below(head)] ^= static_cast<uint8_t>(1u << rng.below(8));
      break;
    case 4:
      for (uint64_t n = 1 + rng.below(16); n > 0 && !b.empty(); --n) b[rng.below(b.size())] = static_cast<uint8_t>(rng.next());
      break;
    case 5: {  // a section table entry: another offset, count, size or id, or that of its neighbour
      if (b.size() < 80 + 18 * 24) break;
      uint8_t* entry = b.data() + 80 + 24 * rng.below(18);
      if (rng.one_in(3)) {
        memmove(entry, b.data() + 80 + 24 * rng.below(18), 24);
      } else if (rng.one_in(3)) {
        uint32_t n = static_cast<uint32_t>(wild_number(rng, 8));
        memcpy(entry + 4, &n, 4);
      } else {
        uint8_t* field = entry + 8 + 8 * rng.below(2);
        int64_t n;
        memcpy(&n, field, 8);
        n = wild_number(rng, n);
        memcpy(field, &n, 8);
      }
      break;
    }
    case 6: {  // a piece of another file
      size_t from = rng.below(other.size()), n = std::min<size_t>(rng.below(256), other.size() - from);
      b.insert(at(b.size()), other.begin() + static_cast<long>(from), other.begin() + static_cast<long>(from + n));
      break;
    }
    default: {  // a piece copied to another place
      if (b.size() < 2) break;
      size_t n = 1 + rng.below(std::min<size_t>(64, b.size() - 1)), to = rng.below(b.size() - n), from = rng.below(b.size() - n);
      memmove(b.data() + to, b.data() + from, n);
    }
  }
}

// Seeds from `made` on are mutations themselves: they load, and that is all that is known of them, so changes that believe a file are not
// for them. The same holds after a splice.
inline Bytes mutate(const std::vector<Bytes>& seeds, Rng& rng, size_t made = SIZE_MAX) {
  size_t number = rng.below(seeds.size());
  const Bytes& seed = seeds[number];
  const bool found = number >= made;
  if (rng.one_in(6)) {
    Bytes b = seed;
    for (uint64_t n = 1 + rng.below(2); n > 0; --n) damage(b, seeds[rng.below(seeds.size())], rng);
    if (b.size() >= sizeof(Header) && !rng.one_in(4)) {  // let the size be right, so that more is looked at
      uint64_t size = b.size();
      memcpy(b.data() + 24, &size, 8);
    }
    return b;
  }
  static const char* const kTables[] = {"INTS", "INTS", "INTS", "INTS", "INDX", "INDX", "INDX", "NODE", "NODE",
                                        "ATTR", "ATTR", "VALS", "VALS", "CNST", "CNST", "FLTS", "FLTS", "PORT",
                                        "REGN", "METH", "CODE", "EXPR", "STEP", "STEP", "STRS", "KEYS"};
  File f(seed);
  if (found || rng.one_in(10)) {
    if (rng.one_in(2)) splice(f, File(seeds[rng.below(seeds.size())]), rng);
    for (uint64_t n = rng.below(4); n > 0; --n) {
      if (rng.one_in(4))
        change_records(f, rng);
      else
        change_field(f, rng, f.order[rng.below(f.order.size())]);
    }
    return f.assemble();
  }
  if (f.sections.count("FUNC") && f.count("FUNC") && !rng.one_in(4)) {
    change_script(f, rng);
    return f.assemble();
  }
  bool alone = rng.one_in(2);
  if (alone) solo(f, rng);
  for (uint64_t n = alone && rng.one_in(2) ? 0 : 1 + (rng.one_in(2) ? 0 : rng.below(4)); n > 0; --n) {
    switch (rng.below(12)) {
      case 0:
      case 1:
      case 2:
        retarget(f, rng);
        break;
      case 3:
        change_records(f, rng);
        break;
      case 4:
      case 5:
        reshape(f, rng);
        break;
      default:
        bool state = f.sections.count("STAT") && rng.one_in(8);
        change_field(f, rng, state ? "STAT" : kTables[rng.below(sizeof kTables / sizeof *kTables)]);
    }
  }
  return f.assemble();
}

// The runtime said which dtype and rank a result has: declare it so, and it gets further the next time.
inline bool mend(Bytes& b, const pen_error& error) {
  unsigned dtype = 0;
  int rank = 0;
  bool fresh = sscanf(error.expected, "dtype code %u, rank %d", &dtype, &rank) == 2;
  if (!fresh || rank < 0 || rank > 8) return false;
  File f(b);
  for (size_t i = 0; i < f.count("VALS"); ++i) {
    Value v = f.get<Value>("VALS", i);
    String s = f.get<String>("STRS", v.name);
    std::string name(reinterpret_cast<const char*>(f.sections.at("TEXT").bytes.data()) + s.offset, s.size);
    if (name != error.tensor) continue;
    v.dtype = static_cast<uint8_t>(dtype);
    v.rank = static_cast<uint8_t>(rank);
    if (v.layout == 1 && rank < 3) v.layout = 0;
    v.dims = 0;
    f.set("VALS", i, v);
    // A method's output declares the same.
    Method method = f.get<Method>("METH", 0);
    Region region = f.get<Region>("REGN", 0);
    for (uint32_t o = 0; o < region.output_count && o < method.output_count; ++o) {
      if (f.get<uint32_t>("INDX", region.outputs + o) + region.values != i) continue;
      Port p = f.get<Port>("PORT", method.outputs + o);
      p.dtype = v.dtype;
      p.rank = v.rank;
      p.dims = 0;
      f.set("PORT", method.outputs + o, p);
    }
    b = f.assemble();
    return true;
  }
  return false;
}
