"""Tables in generated C++: of text, and of functions. A pointer in a table costs a shared library four words: its own, and three for the
loader that relocates it. So text is told by its place in one array, and functions by their number, in a table of distances from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class TextTable:
    """The strings of a generated table in one C array, each once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._size = 0

    def place(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = self._size
            self._size += len(text.encode()) + 1
        return self._places[text]

    def __call__(self, text: str) -> str:
        return f"{{{self.place(text)}}}"

    def array(self, name: str) -> list[str]:
        def literal(text: str) -> str:
            return "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\{ord(c):03o}" for c in text)

        return [f"const char {name}[] =", *(f'    "{literal(text)}\\0"' for text in self._places), '    "";']


@dataclass(frozen=True)
class Function:
    """Of the runtime, as C++ and as linkers call it."""

    path: tuple[str, ...]  # ("pen", "base", "relu_f32")
    parameters: str  # in C++
    coded: str  # the same in names for linkers (Itanium's rules); {int64} where that differs between platforms

    @property
    def name(self) -> str:
        return "::".join(self.path)

    def declaration(self, result: str) -> str:
        return f"namespace {'::'.join(self.path[:-1])} {{ {result} {self.path[-1]}({self.parameters}); }}"

    @property
    def symbol(self) -> str:
        """As a C string literal.

        >>> Function(("pen", "conv2d_bind"), "Bind& b", "RNS_4BindE").symbol
        '"_ZN3pen11conv2d_bindERNS_4BindE"'
        """
        text = f'"_ZN{"".join(f"{len(part)}{part}" for part in self.path)}E{self.coded}"'
        return text.replace("{int64}", '" PEN_INT64_CODE "')


def function_table(pointer: str, finder: str, functions: Sequence[Function]) -> list[str]:
    """`finder`, a C++ function in namespace pen that gives a number's function as a `pointer`. C++ cannot say how far a function lies from
    a table, assemblers can; where the format of objects is not ELF it is a table of pointers."""
    table = f"pen_{finder}s"
    return [
        "#if defined(__ELF__)",
        f'extern "C" __attribute__((visibility("hidden"))) const int32_t {table}[];',
        f'__asm__(".pushsection .rodata.{table},\\"a\\"\\n.balign 4\\n.globl {table}\\n.hidden {table}\\n{table}:\\n"',
        *(f'        ".long " {function.symbol} " - {table}\\n"' for function in functions),
        '        ".popsection\\n");',
        f"{pointer} {finder}(int number) {{",
        f"  return reinterpret_cast<{pointer}>(reinterpret_cast<intptr_t>({table}) + {table}[number]);",
        "}",
        "#else",
        f"{pointer} {finder}(int number) {{",
        f"  static const {pointer} kFunctions[] = {{",
        *(f"      reinterpret_cast<{pointer}>({function.name})," for function in functions),
        *([] if functions else ["      nullptr,"]),
        "  };",
        "  return kFunctions[number];",
        "}",
        "#endif",
    ]


# In a generated file that has function tables, before them.
INT64_CODE = ["#if __SIZEOF_LONG__ == 8", '#define PEN_INT64_CODE "l"', "#else", '#define PEN_INT64_CODE "x"', "#endif"]
