"""Reads what a build must know of compiled Java: for which version a class is, and which functions its native methods are looked for as.

A class whose native method the library lacks fails when it is called first, on a phone; here it fails the build.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penlight.errors import BuildError

JAVA_8 = 52  # as class files number it: the newest that every Android since API 21 can be built with
_MAGIC = 0xCAFEBABE
_NATIVE = 0x0100
# Bytes of a constant after its tag; a long and a double (5, 6) count twice, a text (1) says its length.
_CONSTANTS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


@dataclass(frozen=True)
class JavaClass:
    name: str  # org/pytorch/Tensor$Builder
    version: int
    natives: tuple[tuple[str, str], ...]  # name and descriptor

    def functions(self) -> Iterator[str]:
        """What the virtual machine looks for: by the short name, and by arguments too where several have that."""
        names = [name for name, _ in self.natives]
        for name, descriptor in self.natives:
            short = f"Java_{mangled(self.name)}_{mangled(name)}"
            arguments = descriptor[1 : descriptor.index(")")]
            yield f"{short}__{mangled(arguments)}" if names.count(name) > 1 else short


def native_functions(classes: Mapping[str, bytes]) -> set[str]:
    """What a library must export for these classes (by file name)."""
    files = {name: data for name, data in classes.items() if name.endswith(".class")}
    return {function for name, data in files.items() for function in read_class(data, name).functions()}


def mangled(name: str) -> str:
    """As JNI writes a name.

    >>> mangled("org/pytorch/A$B_c")
    'org_pytorch_A_00024B_1c'
    """
    known = {"/": "_", "_": "_1", ";": "_2", "[": "_3"}
    return "".join(c if c.isascii() and c.isalnum() else known.get(c, f"_0{ord(c):04x}") for c in name)


def read_class(data: bytes, called: str = "a class") -> JavaClass:
    try:
        return _read(data)
    except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
        raise BuildError(f"{called}: expected a class file of Java, got {len(data)} bytes that are none") from error


def _read(data: bytes) -> JavaClass:
    at = 0

    def take(kind: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f">{kind}", data, at)
        at += struct.calcsize(f">{kind}")
        return int(value)

    if take("I") != _MAGIC:
        raise KeyError("magic")
    take("H")
    version, constants = take("H"), take("H")
    texts: dict[int, str] = {}
    names: dict[int, int] = {}  # of classes: where their text is
    index = 1
    while index < constants:
        tag = take("B")
        if tag == 1:
            size = take("H")
            texts[index] = data[at : at + size].decode("utf-8", "surrogatepass")
            at += size
        elif tag == 7:
            names[index] = take("H")
        else:
            at += _CONSTANTS[tag]
        index += 2 if tag in (5, 6) else 1

    def skip(size: int) -> None:
        nonlocal at
        at += size

    def skip_attributes() -> None:
        for _ in range(take("H")):
            take("H")
            skip(take("I"))

    take("H")
    name = texts[names[take("H")]]
    take("H")
    skip(2 * take("H"))  # interfaces
    natives = []
    for native in (0, _NATIVE):  # fields, then methods
        for _ in range(take("H")):
            flags, called, descriptor = take("H"), texts[take("H")], texts[take("H")]
            skip_attributes()
            if flags & native:
                natives.append((called, descriptor))
    return JavaClass(name, version, tuple(natives))
