#include "penlight/runtime/gpu/unpack.h"

namespace pen {

namespace {

struct Bytes {
  const uint8_t *at, *end;
  uint32_t next() { return at < end ? *at++ : 0; }
  // A number whose first part is 15 where more of it follows.
  uint32_t more(uint32_t first) {
    if (first < 15) return first;
    uint32_t byte;
    do first += byte = next();
    while (byte == 255 && at < end);
    return first;
  }
  uint32_t word() {
    uint32_t word = 0, byte;
    int shift = 0;
    do {
      byte = next();
      word |= (byte & 127) << shift;
      shift += 7;
    } while (byte & 128 && shift < 32);
    return word;
  }
};

// Both modules one after the other, as bytes. False: they are more or less than `size`.
bool expand(Bytes in, uint8_t* to, uint32_t size) {
  uint32_t at = 0;
  for (;;) {
    uint32_t token = in.next(), literals = in.more(token >> 4);
    if (literals > size - at || literals > static_cast<uint32_t>(in.end - in.at)) return false;
    memcpy(to + at, in.at, literals);
    at += literals;
    in.at += literals;
    if (in.at == in.end) return at == size;
    uint32_t distance = in.next();
    distance |= in.next() << 8;
    uint32_t match = in.more(token & 15) + 3;
    if (match > size - at || distance > at || !distance) return false;
    for (uint32_t i = 0; i < match; ++i, ++at) to[at] = to[at - distance];  // may overlap
  }
}

// One module; `to` has room for `count` words.
bool parse(Bytes* in, uint32_t* to, uint32_t count) {
  constexpr uint32_t kHeader = 5, kCodes = 256, kPlaces = 8;
  uint32_t last[kCodes][kPlaces] = {};
  uint32_t at = 0;
  while (at < count && at < kHeader) to[at++] = in->word();
  while (at < count) {
    uint32_t code = in->word(), words = in->word();
    if (!words || words > count - at) return false;
    to[at++] = words << 16 | code;
    for (uint32_t i = 0; i + 1 < words; ++i) {
      uint32_t zigzag = in->word(), &known = last[code % kCodes][i < kPlaces ? i : kPlaces - 1];
      known += zigzag & 1 ? ~(zigzag >> 1) : zigzag >> 1;
      to[at++] = known;
    }
  }
  return true;
}

}  // namespace

uint32_t* unpack_shader(const ShaderProgram& p, bool f16, uint32_t* words) {
  *words = p.words[f16];
  if (!*words) return nullptr;
  uint8_t* bytes = static_cast<uint8_t*>(malloc(p.unpacked));
  uint32_t* made = static_cast<uint32_t*>(malloc((size_t{p.words[0]} + p.words[1]) * 4));
  Bytes rest = {bytes, bytes + p.unpacked};
  bool fine = bytes && made && expand({p.packed, p.packed + p.size}, bytes, p.unpacked);
  fine = fine && (!p.words[0] || parse(&rest, made, p.words[0]));
  if (fine && f16) fine = parse(&rest, made, p.words[1]);  // over the first, which nobody wants
  free(bytes);
  if (fine) return made;
  free(made);
  return nullptr;
}

}  // namespace pen
