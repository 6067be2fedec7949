"""Which kernels the VM's operators may use. They make kernel keys as they run ("add" and a dtype), so it is read off the C++: names of
kernels and operators stand there as literals, in the function of the operator or in what it calls. A function is known by its name
alone and all it names counts, so that the set may be larger than what will ever run (`penlight trace` says what does), never smaller:
tests/vm/check.py holds it against what runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from penlight.build.elementwise import elementwise_entries
from penlight.build.generate import ROOT, scan
from penlight.build.selection import COPIES
from penlight.ops import registry
from penlight.ops.vm_operators import operators, quantized_forms

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|\w+|[{}();=]', re.DOTALL | re.MULTILINE)  # fmt: skip
_OPENS_NAMESPACE = re.compile(r'\bnamespace\b(?:\s+[\w:]+)?\s*$|\bextern\s+"C"\s*$')
# The functions that every call goes through, whatever the operator.
_ALWAYS = ("call_operator", "pen_module_run", "pen_module_create", "pen_operators_run")


class Chunk(NamedTuple):
    """A definition at the outermost level: a function, a table, a struct, a macro."""

    name: str
    own: bool  # static: other files may have another of that name
    words: frozenset[str]  # the identifiers in it
    literals: frozenset[str]


def kernels_of(names: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The kernel keys that VM operators of these names may use, and all operators that takes: those that they call by name too."""
    table, forms = operators(), quantized_forms()
    seen: set[str] = set()
    waiting = sorted(names)
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        starts = [f"op_{table[name].symbol}", *([f"quantized_form_{forms[name][0]}"] if name in forms else [])]
        literals = frozenset().union(*(_literals(start) for start in (*starts, *_ALWAYS)))
        if rule := table[name].rule:
            literals |= {rule.name, rule.on_bool or rule.name}
        found |= literals
        waiting += [other for other in table if other in literals and other not in seen]
    families = {literal.partition(".%")[0] for literal in found}  # "add", and "cast.%s.%s" for formats
    keys = {key for key in all_keys() if key in found or key.partition(".")[0] in families}
    return frozenset(keys | set(COPIES.values())), frozenset(seen)


@lru_cache(maxsize=1)
def all_keys() -> frozenset[str]:
    """Of every kernel that there is."""
    ops = registry.load_all()
    return frozenset(scan(ops).kernels) | {entry.key for entry in elementwise_entries(ops)}


@cache
def _literals(start: str) -> frozenset[str]:
    """All literals in what this name stands for and in what that names, and so on."""
    chunks = _chunks()
    seen: set[tuple[str, str]] = set()
    waiting = [("", start)]
    found: set[str] = set()
    while waiting:
        place = waiting.pop()
        if place in seen or place not in chunks:
            continue
        seen.add(place)
        for chunk, file in chunks[place]:
            found |= chunk.literals
            waiting += [(home, word) for word in chunk.words for home in ("", file)]
    return frozenset(found)


@lru_cache(maxsize=1)
def _chunks() -> dict[tuple[str, str], list[tuple[Chunk, str]]]:
    """Definitions in all that VM operators are made of, with their files: by name, and by file where they are its own."""
    found: dict[tuple[str, str], list[tuple[Chunk, str]]] = {}
    for room in (ROOT / "ops", ROOT / "runtime/vm"):
        for path in sorted([*room.rglob("*.cc"), *room.rglob("*.h")]):
            for chunk in _definitions(path.read_text("utf-8")):
                home = str(path) if chunk.own and path.suffix == ".cc" else ""
                found.setdefault((home, chunk.name), []).append((chunk, str(path)))
    return found


def _definitions(text: str) -> Iterable[Chunk]:
    depth, start = 0, 0  # of braces inside the namespaces; where the definition at hand begins
    name, own = "", False  # its name, once that is known; static?
    last = ""  # the word before
    parentheses = 0
    macro = ""  # PEN_OP, whose first argument is the name
    namespaces: list[bool] = []  # that are open: without a name?
    words: set[str] = set()
    literals: set[str] = set()
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.startswith(("//", "/*", "'")):
            continue
        if token.lstrip().startswith("#"):
            if define := re.match(r"\s*#\s*define\s+(\w+)", token):
                named = frozenset(re.findall(r"\w+", token))
                yield Chunk(define[1], True, named, frozenset(re.findall(r'"([^"]*)"', token)))
            continue
        if token.startswith('"'):
            literals.add(token[1:-1])
        elif token == "{":
            if depth == 0 and (opened := _OPENS_NAMESPACE.search(text[start : match.start()])):
                namespaces.append(opened[0].strip() == "namespace")
                words, literals, name, own, last, start = set(), set(), "", False, "", match.end()
                continue
            if depth == 0 and not name:
                name = last  # a struct
            depth += 1
        elif token == "}" and depth == 0:
            namespaces.pop()
            start = match.end()
        elif token == "}" or (token == ";" and depth == 0 and parentheses == 0):
            depth -= token == "}"
            if depth == 0:
                if name:
                    yield Chunk(name, any(namespaces) or own, frozenset(words), frozenset(literals))
                words, literals, name, own, last, macro, start = set(), set(), "", False, "", "", match.end()
        elif token in "()":
            if (
                token == "("
                and depth == 0
                and parentheses == 0
                and not name
                and last not in ("__attribute__", "alignas")
            ):
                name = last if last not in ("PEN_OP", "PEN_QUANTIZED") else ""
                macro = last if not name else ""
            parentheses += 1 if token == "(" else -1
        elif token == "=":
            if depth == 0 and parentheses == 0 and not name:
                name = last  # a table
        elif token != ";":
            if macro and not name:
                name = {"PEN_OP": "op_", "PEN_QUANTIZED": "quantized_form_"}[macro] + token
            own = own or (token == "static" and not name)
            words.add(token)
            last = token
