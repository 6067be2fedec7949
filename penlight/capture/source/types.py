"""TorchScript's types, as its source text and its operators' schemas write them, and whether a value of one fits another.

List[Optional[Tensor]]  in source text,  Tensor?[]  in a schema: both are Type("List", (Type("Optional", (TENSOR,)),))
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import lru_cache

from penlight.errors import CaptureError

_MOST_PARTS = 1 << 14


@dataclass(frozen=True)
class Type:
    name: str
    args: tuple[Type, ...] = ()
    size: int = field(init=False, compare=False, repr=False)  # with shared parts as often as they are in it
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Forty lines of code make a tuple of a million million types: to hash or write one would not end."""
        object.__setattr__(self, "size", 1 + sum(a.size for a in self.args))
        object.__setattr__(self, "_hash", hash((self.name, self.args)))
        if self.size > _MOST_PARTS:
            raise CaptureError(f"a type of more than {_MOST_PARTS} parts")

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.args))}]" if self.args else self.name

    @property
    def element(self) -> Type:
        """What a list or an optional holds, or the values of a dict."""
        return self.args[-1] if self.args else ANY


ANY, NONE, TENSOR, INT = Type("Any"), Type("NoneType"), Type("Tensor"), Type("int")
FLOAT, BOOL, STR, NUMBER = Type("float"), Type("bool"), Type("str"), Type("number")
# Kinds of schemas that are numbers or text in code.
_IN_CODE = {"ScalarType": "int", "Layout": "int", "MemoryFormat": "int", "QScheme": "int", "SymInt": "int", "Scalar": "number", "any": "Any",
            "AnyList": "list", "AnyEnumType": "Any", "SymBool": "bool", "SymFloat": "float"}  # fmt: skip
_VARIABLES = {"t", "tVal", "key", "t1", "t2"}
_NO_FIT = 1000
_NUMBERS = {"bool": 3, "int": 1, "float": 1, "complex": 1}


def annotated(node: ast.expr | None) -> Type:
    """The type that an annotation in source text is."""
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        base = annotated(node.value)
        return Type(base.name, tuple(annotated(i) for i in inner if not (isinstance(i, ast.Tuple) and not i.elts)))
    if isinstance(node, ast.Name):
        return Type("NoneType" if node.id == "None" else node.id)
    if isinstance(node, ast.Attribute):
        return Type(dotted(node))
    if isinstance(node, ast.Constant) and node.value is None:
        return NONE
    return ANY


@lru_cache(maxsize=4096)
def in_code(text: str) -> Type:
    """The type that code writes as "List[Tuple[int, str]]"."""
    try:
        return annotated(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CaptureError(f"{text[:60]!r} is no type") from None


def dotted(node: ast.expr) -> str:
    """ "a.b.c" of a chain of names; "" of anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


@lru_cache(maxsize=4096)
def in_schema(text: str) -> Type:
    """The type that a schema gives a parameter or a result: "Tensor(a!)", "int[2]?", "Dict(str, t)", "(int, t)[]"."""
    text = text.strip()
    if text.startswith("Dict("):
        key, _, value = text[5 : text.index(")")].partition(",")
        return Type("Dict", (in_schema(key), in_schema(value)))
    if text.startswith("("):
        inner = text[1 : text.rindex(")")].split(",")
        made = Type("Tuple", tuple(in_schema(part) for part in inner))
        return Type("List", (made,)) if text.endswith("[]") else made
    text = re.sub(r"\([^()]*\)", "", text)
    if text.endswith("?"):
        return Type("Optional", (in_schema(text[:-1]),))
    if match := re.fullmatch(r"(.*)\[\d*\]", text):
        return Type("List", (in_schema(match[1]),))
    return Type(_IN_CODE.get(text, text))


def joined(a: Type, b: Type) -> Type:
    """The type of what comes out of two branches."""
    if a == b or b == ANY:
        return a
    if a == ANY:
        return b
    if NONE in (a, b):
        other = a if b == NONE else b
        return other if other.name == "Optional" else Type("Optional", (other,))
    if "Optional" in (a.name, b.name):
        return Type("Optional", (joined(*(t.element if t.name == "Optional" else t for t in (a, b))),))
    if a.name == b.name and len(a.args) == len(b.args):
        return Type(a.name, tuple(joined(x, y) for x, y in zip(a.args, b.args, strict=True)))
    return ANY


def misfit(wanted: Type, given: Type, bound: dict[str, Type]) -> int:
    """How badly a value fits a parameter: 0 as it is, _NO_FIT not at all; between, by conversions that torch would make. Variables
    of the schema are bound on the way."""
    if wanted.name in _VARIABLES:
        if wanted.name not in bound:
            bound[wanted.name] = given
            return 2
        if bound[wanted.name] in (ANY, Type("Optional", (given,))):
            return 2
        return 2 if given in (bound[wanted.name], NONE, ANY) else _NO_FIT
    if wanted == given:
        return 0
    if wanted == ANY:
        return 4
    if given == ANY:
        return 5
    if wanted.name == "Optional":
        if given == NONE:
            return 0
        return misfit(wanted.element, given.element if given.name == "Optional" else given, bound)
    if given.name == "Optional":  # torch asks for a cast before; where one is lacking, the run decides
        return 20 + misfit(wanted, given.element, bound)
    if wanted == NUMBER:
        return _NUMBERS.get(given.name, _NO_FIT)
    if wanted == FLOAT and given == INT:
        return 6
    if given == NUMBER and wanted.name in _NUMBERS:
        return 8
    if wanted.name in ("list", "dict", "tuple", "object"):
        return 3 if given.name.lower() == wanted.name or (wanted.name == "object" and "." in given.name) else _NO_FIT
    if wanted.name == given.name and len(wanted.args) == len(given.args):
        return min(_NO_FIT, sum(misfit(w, g, bound) for w, g in zip(wanted.args, given.args, strict=True)))
    return _NO_FIT


def fits(cost: int) -> bool:
    return cost < _NO_FIT


def filled_in(type_: Type, bound: dict[str, Type]) -> Type:
    """A result's type, with what the schema's variables were bound to."""
    if type_.name in _VARIABLES:
        return bound.get(type_.name, ANY)
    return Type(type_.name, tuple(filled_in(a, bound) for a in type_.args))
