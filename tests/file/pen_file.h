// A .pen file taken apart into its tables, to be changed record by record and put together again. Tests only: it
// believes what the file says, so it must be given right ones.
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
  size_t count() const { return record_size ? bytes.size() / record_size : 0; }
};

// By the four letters of their ids. Some twenty, and a mutation looks a hundred times: comparing numbers, one after the other, is fastest.
class Sections {
 public:
  struct Id {
    uint32_t letters;
    Id(const char* id) { memcpy(&letters, id, 4); }
    Id(const std::string& id) : Id(id.data()) {}
  };
  struct Entry {
    uint32_t first;
    Section_ second;
  };
  using Iterator = std::vector<Entry>::iterator;
  using ConstIterator = std::vector<Entry>::const_iterator;
  Iterator begin() { return all_.begin(); }
  Iterator end() { return all_.end(); }
  ConstIterator end() const { return all_.end(); }
  size_t size() const { return all_.size(); }
  Iterator find(Id id) {
    return std::find_if(all_.begin(), all_.end(), [id](const Entry& e) { return e.first == id.letters; });
  }
  ConstIterator find(Id id) const { return const_cast<Sections*>(this)->find(id); }
  size_t count(Id id) const { return find(id) != end(); }
  const Section_& at(Id id) const {
    ConstIterator found = find(id);
    if (found == end()) abort();  // a mutation that believes a file for which it was not meant
    return found->second;
  }
  Section_& at(Id id) { return const_cast<Section_&>(static_cast<const Sections*>(this)->at(id)); }
  Section_& operator[](Id id) {
    Iterator found = find(id);
    if (found != end()) return found->second;
    all_.push_back({id.letters, {}});
    return all_.back().second;
  }

 private:
  std::vector<Entry> all_;
};

// A file taken apart.
struct File {
  Header header;
  std::vector<std::string> order;
  Sections sections;

  explicit File(const Bytes& b) {
    memcpy(&header, b.data(), sizeof header);
    order.reserve(header.section_count);
    for (uint32_t i = 0; i < header.section_count; ++i) {
      Section s;
      memcpy(&s, b.data() + header.header_size + i * sizeof s, sizeof s);
      std::string id(reinterpret_cast<const char*>(s.id), 4);
      order.push_back(id);
      // A section that the runtime does not know may say what it likes.
      const uint64_t begin = std::min<uint64_t>(s.offset, b.size()), left = b.size() - begin;
      const uint64_t size = s.record_size && s.count > left / s.record_size ? left : s.count * s.record_size;
      sections[id] = {s.record_size, Bytes(b.begin() + static_cast<long>(begin), b.begin() + static_cast<long>(begin + size))};
    }
  }

  Bytes assemble() const {
    Bytes out(header.header_size + order.size() * sizeof(Section));
    Header h = header;
    h.section_count = static_cast<uint32_t>(order.size());
    std::vector<Section> table;
    size_t size = out.size();
    for (const std::string& id : order) size += sections.at(id).bytes.size() + 64;
    out.reserve(size);
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
    const size_t known = count("STRS");
    for (size_t i = 0; i < known; ++i) {
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
