// A .pen file taken apart into its tables, to be changed record by record and put together again. Tests only: it
// believes what the file says, so it must be given right ones.
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "pen_format.h"

using Bytes = std::vector<uint8_t>;
using namespace pen::format;

struct Field {
  std::string name, type;
  size_t offset;
};
inline std::map<std::string, std::vector<Field>> fields;  // by section

struct Section_ {
  uint32_t record_size;
  Bytes bytes;
  size_t count() const { return bytes.size() / record_size; }
};

// A file taken apart.
struct File {
  Header header;
  std::vector<std::string> order;
  std::map<std::string, Section_> sections;

  explicit File(const Bytes& b) {
    memcpy(&header, b.data(), sizeof header);
    for (uint32_t i = 0; i < header.section_count; ++i) {
      Section s;
      memcpy(&s, b.data() + header.header_size + i * sizeof s, sizeof s);
      std::string id(reinterpret_cast<const char*>(s.id), 4);
      order.push_back(id);
      sections[id] = {s.record_size,
                      Bytes(b.begin() + static_cast<long>(s.offset), b.begin() + static_cast<long>(s.offset + s.count * s.record_size))};
    }
  }

  Bytes assemble() const {
    Bytes out(header.header_size + order.size() * sizeof(Section));
    Header h = header;
    h.section_count = static_cast<uint32_t>(order.size());
    std::vector<Section> table;
    for (const std::string& id : order) {
      const Section_& s = sections.at(id);
      if (id == "DATA") h.tables_size = out.size();
      out.resize((out.size() + 63) / (id == "DATA" ? 64 : 8) * (id == "DATA" ? 64 : 8));
      Section row = {{}, s.record_size, out.size(), s.count()};
      memcpy(row.id, id.data(), 4);
      table.push_back(row);
      out.insert(out.end(), s.bytes.begin(), s.bytes.end());
    }
    h.file_size = out.size();
    memcpy(out.data(), &h, sizeof h);
    memcpy(out.data() + h.header_size, table.data(), table.size() * sizeof(Section));
    return out;
  }

  template <class T>
  T get(const char* id, size_t i) const {
    const Section_& s = sections.at(id);
    T t = {};
    memcpy(&t, s.bytes.data() + i * s.record_size, std::min(sizeof t, static_cast<size_t>(s.record_size)));
    return t;
  }
  template <class T>
  void set(const char* id, size_t i, const T& t) {
    Section_& s = sections.at(id);
    memcpy(s.bytes.data() + i * s.record_size, &t, std::min(sizeof t, static_cast<size_t>(s.record_size)));
  }
  template <class T>
  uint32_t append(const char* id, const T& t) {
    Section_& s = sections.at(id);
    const uint8_t* p = reinterpret_cast<const uint8_t*>(&t);
    s.bytes.insert(s.bytes.end(), p, p + sizeof t);
    return static_cast<uint32_t>(s.count() - 1);
  }
  size_t count(const char* id) const { return sections.at(id).count(); }

  uint32_t string(const std::string& text) {
    Section_& t = sections.at("TEXT");
    for (size_t i = 0; i < count("STRS"); ++i) {
      String s = get<String>("STRS", i);
      if (s.size == text.size() && uint64_t{s.offset} + s.size <= t.bytes.size() &&
          memcmp(t.bytes.data() + s.offset, text.data(), s.size) == 0)
        return static_cast<uint32_t>(i);
    }
    String s = {static_cast<uint32_t>(t.bytes.size()), static_cast<uint32_t>(text.size())};
    t.bytes.insert(t.bytes.end(), text.begin(), text.end());
    t.bytes.push_back(0);
    return append("STRS", s);
  }
};

// As test_fuzz.py writes them: section, record size, name, type, offset.
inline void read_fields(const char* path) {
  FILE* f = fopen(path, "r");
  char section[8], name[64], type[16];
  unsigned size, offset;
  while (f && fscanf(f, "%7s %u %63s %15s %u", section, &size, name, type, &offset) == 5)
    if (type[strlen(type) - 1] != ']') fields[section].push_back({name, type, offset});
  if (f) fclose(f);
}
