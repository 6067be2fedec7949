"""SPIR-V made small for libraries: a quarter of its size. Words become differences, differences bytes of seven bits each, and what was there
before is told by where it stands. A shader's f32 and f16 modules go together: they say almost the same, under other numbers, which their
differences hide. The runtime unpacks them when a pipeline is made (runtime/gpu/unpack.cc). Standard library only.

    module:   5 words of header, then of each instruction its code, its number of words, and the words after the first, each as the
              difference from the word at this place of the last instruction of this code: 0, -1, 1, -2, … as 0, 1, 2, 3, …
    packed:   [literals << 4 | match - 3] [more of literals] literals, distance (2 bytes), [more of match], and again; 15 in a half of the
              first byte: more follows, bytes of 255 and a last one below. The end has no match.
"""

from __future__ import annotations

from array import array

SHORTEST, REACH, TRIES = 3, 65535, 64
HEADER_WORDS, CODES, PLACES = 5, 256, 8


def pack(*modules: bytes) -> bytes:
    return _matched(b"".join(map(as_bytes, modules)))


def as_bytes(module: bytes) -> bytes:
    words = array("I", module)
    out = bytearray()

    def put(number: int) -> None:
        while number >= 128:
            out.append(number & 127 | 128)
            number >>= 7
        out.append(number)

    for word in words[:HEADER_WORDS]:
        put(word)
    at = HEADER_WORDS
    last = [0] * (CODES * PLACES)
    while at < len(words):
        code, count = words[at] & 0xFFFF, words[at] >> 16
        put(code)
        put(count)
        for i, word in enumerate(words[at + 1 : at + count]):
            place = code % CODES * PLACES + min(i, PLACES - 1)
            difference = (word - last[place] + 2**31) % 2**32 - 2**31
            last[place] = word
            put(2 * difference if difference >= 0 else -2 * difference - 1)
        at += count
    return bytes(out)


def _matched(data: bytes) -> bytes:
    out = bytearray()
    seen: dict[bytes, list[int]] = {}  # where each run of SHORTEST bytes stands
    literals = at = 0

    def find(at: int) -> tuple[int, int]:
        longest = distance = 0
        for before in reversed(seen.get(data[at : at + SHORTEST], [])[-TRIES:]):
            if at - before > REACH:
                break
            length = SHORTEST
            while at + length < len(data) and data[before + length] == data[at + length]:
                length += 1
            if length > longest:
                longest, distance = length, at - before
        return longest, distance

    def note(at: int) -> None:
        seen.setdefault(data[at : at + SHORTEST], []).append(at)

    def more(count: int) -> None:
        rest = count - 15
        while rest >= 0:
            out.append(min(rest, 255))
            rest -= 255

    while at + SHORTEST <= len(data):
        length, distance = find(at)
        note(at)
        if length < SHORTEST or find(at + 1)[0] > length + 1:
            at += 1
            continue
        out.append(min(at - literals, 15) << 4 | min(length - SHORTEST, 15))
        more(at - literals)
        out += data[literals:at]
        out += distance.to_bytes(2, "little")
        more(length - SHORTEST)
        for inside in range(at + 1, at + length):
            note(inside)
        at += length
        literals = at
    out.append(min(len(data) - literals, 15) << 4)
    more(len(data) - literals)
    return bytes(out + data[literals:])
