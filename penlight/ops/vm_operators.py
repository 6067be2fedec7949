"""The VM's operators, found by scanning the C++ for PEN_OP (runtime/vm/op.h): their schemas, and the table of them.

    PEN_OP(relu, "aten::relu(Tensor self) -> Tensor", "aten::relu_(Tensor(a!) self) -> Tensor(a!)") {

Schemas are torch's own text. The lite reader needs them too: how many arguments an operator takes off the stack stands in
files since bytecode version 6 only. Families of one shape are written once: braces stand for each of the words in them, and
options before the schemas add the forms that torch derives from each ([functional]: of one that is in place, those that are not),

    PEN_OP(extreme, "[in_place][out]", "aten::{most,least}(Tensor self) -> Tensor") {

is most, most_, most.out, least, least_ and least.out. Which of its schemas it was called by, and which of the words, the
function is told as numbers (Call::form, Call::word). Elementwise operators have no PEN_OP: they come from their rules
(elementwise/overloads.py). Needs the standard library only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penlight.ops.elementwise.rules import ElementwiseOp

ROOT = Path(__file__).resolve().parents[1]
_MACRO = re.compile(r'^PEN_OP\(\s*(\w+),\s*((?:"(?:[^"\\]|\\.)*"\s*,?\s*)+)\)\s*\{', re.MULTILINE)
_QUANTIZED = re.compile(r'^PEN_QUANTIZED\(\s*(\w+),\s*((?:"[^"]*"\s*,?\s*)+)\)\s*\{', re.MULTILINE)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_STRINGS = re.compile(r'(?:"(?:[^"\\]|\\.)*"\s*)+')  # adjacent literals are one, as in C
_SCHEMA = re.compile(r"([\w:]+(?:\.\w+)?)\s*\((.*)\)\s*->\s*(.+)", re.DOTALL)
_KINDS = {"Tensor": "tensor", "int": "integer", "float": "real", "bool": "boolean", "str": "string", "Scalar": "number",
          "number": "number", "Device": "string", "ScalarType": "integer", "Layout": "integer", "MemoryFormat": "integer",
          "Generator": "any", "SymInt": "integer", "tuple": "tuple", "object": "object", "list": "list", "dict": "dict",
          "Any": "any", "any": "any", "t": "any", "tVal": "any", "key": "any", "AnyList": "list", "QScheme": "integer"}  # fmt: skip
_SHARING = re.compile(r"\w\(|\b(?:t|tVal|tKey|key|Any|any|AnyList|list|dict|tuple|object)\b")  # "Tensor(a)", "t[]"
_SOMETIMES_THE_ARGUMENT = {"aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout",
                           "aten::type_as", "aten::ravel", "aten::unflatten"}  # fmt: skip
DIVISIONS = ("floor_divide", "trunc_divide", "remainder", "fmod")  # rules whose integers torch refuses to divide by 0
_LISTS = {"integer": "integers", "real": "reals", "boolean": "booleans", "tensor": "tensors", "string": "strings"}


class TextTable:
    """The strings of a generated table in one C array, each once: a place in it costs no relocation, as a pointer would."""

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
class Param:
    name: str
    kind: str  # of enum Kind in runtime/vm/op.h
    optional: bool
    default: str | None  # as the schema writes it
    written: str  # its alias set where it is written in place ("a"), else ""
    keyword: bool  # given by name only
    type: str  # as the schema writes it

    @property
    def value(self) -> Any:
        """The default as a value."""
        known = {"contiguous_format": 0, "Mean": 1}
        made = known[self.default] if self.default in known else ast.literal_eval(str(self.default))
        return [made] if self.kind == "integers" and isinstance(made, int) else made


@dataclass(frozen=True)
class VmOperator:
    name: str  # "aten::add.Tensor"
    symbol: str
    params: tuple[Param, ...]
    results: int
    returns: tuple[str, ...]  # their types, as the schema writes them
    writes: int  # the parameter that result 0 is copied into, or -1
    variadic: bool
    quantized: bool
    shares: bool  # whether a result may share memory with an argument, or be part of it
    source: Path
    form: int = 0  # which of the PEN_OP's schemas it was written as
    word: int = 0  # which of the words in its braces it is
    rule: ElementwiseOp | None = None

    @property
    def outs(self) -> int:
        """How many of the last parameters are what results are written into."""
        return next((i for i, p in enumerate(reversed(self.params)) if not (p.keyword and p.written)), len(self.params))


def _split(text: str) -> list[str]:
    """At commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, ch in enumerate(text):
        depth += (ch in "([") - (ch in ")]")
        if ch == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def _param(text: str, keyword: bool) -> Param:
    head, has_default, default = text.partition("=")
    kind, _, name = head.strip().rpartition(" ")
    text_type = kind
    alias = re.search(r"\((\w)!", kind)
    kind = re.sub(r"\([\w!| ]*(?:->\s*[\w*|!]+)?\)", "", kind) if not kind.startswith("Dict") else "dict"
    is_list = re.search(r"\[\d*\]", kind) is not None
    optional = kind.endswith("?") or ("?[" in kind)
    base = re.sub(r"[?\[\]\d]", "", kind)
    if base.startswith("__torch__."):  # a class of TorchBind's
        base = "object"
    if base not in _KINDS:
        raise ValueError(f"kind {kind!r} of {text!r}: expected one of {', '.join(_KINDS)}")
    found = _KINDS[base]
    if is_list:
        found = _LISTS.get(found, "list")
    return Param(
        name, found, optional, default.strip() if has_default else None, alias[1] if alias else "", keyword, text_type
    )


def words(schema: str) -> list[str]:
    """The schemas that one with braces stands for, in the order of the words in them."""
    if not (braces := re.search(r"\{([^}]*)\}", schema)):
        return [schema]
    head, tail = schema[: braces.start()], schema[braces.end() :]
    return [made for w in braces[1].split(",") for made in words(head + w.strip() + tail)]


def expand(schema: str, options: str = "") -> list[str]:
    """A schema, and its in-place and out= forms where the options ask for them and it is neither itself."""
    made = [schema]
    match = _SCHEMA.fullmatch(schema.strip())
    if not match:
        return made  # parse_schema says what is wrong
    name, arguments, _ = match.groups()
    base, _, overload = name.partition(".")
    if "[functional]" in options:
        dot = f".{overload}" if overload else ""
        plain = f"{base.removesuffix('_')}{dot}({arguments.replace('Tensor(a!) ', 'Tensor ', 1)}) -> Tensor"
        return [schema, *expand(plain, "[out]")]
    if "!" in schema:
        return made
    if "[in_place]" in options:
        dot = f".{overload}" if overload else ""
        made.append(f"{base}_{dot}({arguments.replace('Tensor ', 'Tensor(a!) ', 1)}) -> Tensor(a!)")
    if "[out]" in options:
        star = "" if "*" in _split(arguments) else "*, "
        out = f"{overload}_out" if overload else "out"
        made.append(f"{base}.{out}({arguments}, {star}Tensor(a!) out) -> Tensor(a!)")
    return made


def parse_schema(schema: str, symbol: str = "", options: str = "", source: Path = ROOT, **more: Any) -> VmOperator:
    match = _SCHEMA.fullmatch(schema.strip())
    if not match:
        raise ValueError(f"{source}: PEN_OP({symbol}): not a schema: {schema!r}")
    name, arguments, returned = match.groups()
    texts = _split(arguments)
    star = texts.index("*") if "*" in texts else len(texts)
    texts = [a for a in texts if a != "*"]
    variadic = bool(texts) and texts[-1] == "..."
    try:
        params = tuple(_param(a, i >= star) for i, a in enumerate(texts) if a != "...")
    except ValueError as e:
        raise ValueError(f"{source}: PEN_OP({symbol}): {e}") from None
    returned = returned.strip()
    parts = _split(returned[1:-1]) if returned.startswith("(") else [returned]
    alias = re.search(r"\((\w)!", parts[0]) if parts else None
    writes = -1
    if alias and "direct" not in options:
        writes = next((i for i, p in enumerate(params) if p.written == alias[1]), -1)
    shares = _SHARING.search(returned) is not None or name.partition(".")[0] in _SOMETIMES_THE_ARGUMENT
    return VmOperator(
        name, symbol, params, len(parts), tuple(parts), writes, variadic, "quantized" in options, shares, source, **more
    )


@lru_cache(maxsize=1)
def operators() -> dict[str, VmOperator]:
    """All of them, by name."""
    from penlight.ops import registry
    from penlight.ops.elementwise import overloads
    from penlight.ops.elementwise.rules import ElementwiseOp

    found: dict[str, VmOperator] = {}
    symbols: dict[str, Path] = {}

    def add(op: VmOperator) -> None:
        if op.name in found:
            raise ValueError(f"{op.source}: operator {op.name} is defined twice: also in {found[op.name].source}")
        found[op.name] = op

    for path in sorted([*(ROOT / "ops").rglob("*.cc"), *(ROOT / "runtime/vm").glob("*.cc")]):
        text = path.read_text()
        matches = _MACRO.findall(text)
        if len(matches) != len(re.findall(r"^PEN_OP\(", text, re.MULTILINE)):
            known = {symbol for symbol, _ in matches}
            lost = [s for s in re.findall(r"^PEN_OP\(\s*(\w+)", text, re.MULTILINE) if s not in known]
            raise ValueError(f'{path}: these are not PEN_OP(symbol, "schema", …) {{: {", ".join(lost)}')
        for symbol, strings in matches:
            if symbol in symbols:
                raise ValueError(f"{path}: PEN_OP({symbol}, …) is defined twice: also in {symbols[symbol]}")
            symbols[symbol] = path
            schemas = ["".join(_STRING.findall(literal)).replace("\\\\", "\\") for literal in _STRINGS.findall(strings)]
            options = ""
            if schemas[0].startswith("["):
                options = schemas.pop(0)
            for form, text_form in enumerate(schemas):
                for word, schema in enumerate(words(text_form)):
                    for made in expand(schema, options):
                        add(parse_schema(made, symbol, options, path, form=form, word=word))
    for rule in registry.load_all().values():
        if isinstance(rule, ElementwiseOp):
            path = ROOT.parent / (rule.module.replace(".", "/") + ".py")
            for schema in overloads.schemas(rule):
                add(parse_schema(schema, "elementwise", "", path, rule=rule))
    return dict(sorted(found.items()))


@lru_cache(maxsize=1)
def quantized_forms() -> dict[str, tuple[str, Path]]:
    """Operators that have another function for quantized tensors, PEN_QUANTIZED(relu, "aten::relu", "aten::relu_") {: symbol and
    file by name."""
    found: dict[str, tuple[str, Path]] = {}
    for path in sorted((ROOT / "ops").rglob("*.cc")):
        for symbol, strings in _QUANTIZED.findall(path.read_text()):
            for name in (n for text in _STRING.findall(strings) for n in words(text)):
                if name in found or name not in operators():
                    why = "has two forms for quantized tensors" if name in found else "is not an operator of the VM"
                    raise ValueError(f"{path}: PEN_QUANTIZED({symbol}): {name} {why}")
                found[name] = (symbol, path)
    return dict(sorted(found.items()))


class _Tables:
    """The arrays that operators.cc is made of: text, defaults, lists of parameters, functions; each thing in them once."""

    def __init__(self) -> None:
        self.text = TextTable()
        self.integers: dict[int, int] = {}
        self.reals: dict[str, int] = {}
        self.params: list[str] = []
        self.lists: dict[tuple[str, ...], int] = {}  # of parameters -> place of the first
        self.functions: dict[str, int] = {}

    def function(self, symbol: str) -> int:
        return self.functions.setdefault(symbol, len(self.functions))

    def first_param(self, params: tuple[Param, ...]) -> int:
        items = tuple(
            f"{{{self.text(p.name)}, Kind::{p.kind}, {str(p.optional).lower()}, {self.default(p)}}}" for p in params
        )
        if items not in self.lists:
            self.lists[items] = len(self.params) if items else 0
            self.params += items
        return self.lists[items]

    def default(self, p: Param) -> str:
        """The last fields of a Param in C++: has_default, default_tag, value."""
        if p.default is None:
            return "false, Tag::none, 0"
        value = p.value
        if value is None:
            return "true, Tag::none, 0"
        if isinstance(value, bool):
            return f"true, Tag::boolean, {self.integer(value)}"
        if isinstance(value, str):
            return f"true, Tag::string, {self.text.place(value)}"
        if isinstance(value, list):
            return f"true, Tag::list, {self.text.place(','.join(str(v) for v in value))}"
        if isinstance(value, float) or p.kind == "real":
            return f"true, Tag::real, {self.reals.setdefault(repr(float(value)), len(self.reals))}"
        return f"true, Tag::integer, {self.integer(value)}"

    def integer(self, value: int) -> int:
        return self.integers.setdefault(int(value), len(self.integers))

    def rule(self, op: ElementwiseOp) -> str:
        """The fields of an OpRule in C++."""
        floats, integers = (any(d.startswith(c) for d in op.dtypes) for c in "fi")
        takes = op.of or ("" if floats else "integers")
        flags = (floats and not integers, op.has_condition, op.exact, integers and op.trace().op in DIVISIONS)
        return (
            f"{{{self.text(op.name)}, {self.text(op.on_bool or '')}, Takes::{takes or 'any'}, {len(op.tensors)}, {len(op.attrs)}, "
            + ", ".join(str(f).lower() for f in flags)
            + "}"
        )


def operators_source(table: dict[str, VmOperator]) -> str:
    """operators.cc: the tables that find_operator and find_quantized_form search."""
    made = _Tables()
    rules = {op.rule.name: op.rule for op in table.values() if op.rule}
    numbers = {name: number for number, name in enumerate(rules)}
    rows = []
    for op in table.values():
        flags = f"{str(op.variadic).lower()}, {str(op.quantized).lower()}"
        rule = numbers[op.rule.name] if op.rule else -1
        rows.append(
            f"{{{made.text(op.name)}, {made.function(f'op_{op.symbol}')}, {made.first_param(op.params)}, {rule}, "
            f"{len(op.params)}, {op.results}, {op.writes}, {flags}, {op.form}, {op.word}}}"
        )
    forms = [
        f"{{{made.text(name)}, {made.function(f'quantized_form_{symbol}')}}}"
        for name, (symbol, _) in quantized_forms().items()
        if name in table
    ]
    written = [made.rule(rule) for rule in rules.values()]

    def array(declared: str, items: Iterable[object], empty: str) -> list[str]:
        return [f"const {declared}[] = {{", *([f"    {item}," for item in items] or [f"    {empty},"]), "};"]

    lines = [
        "// Generated from PEN_OP lines by penlight/ops/vm_operators.py. Do not edit.",
        '#include "penlight/runtime/vm/op.h"',
        "namespace pen {",
        *(f"Status {symbol}(Call& c);" for symbol in sorted(made.functions)),
        *made.text.array("kOperatorText"),
        *array("int64_t kDefaultIntegers", made.integers, "0"),
        *array("double kDefaultReals", made.reals, "0"),
        *array("Param kParams", made.params, "{}"),
        *array("OpRule kRules", written, "{}"),
        *array("OpFn kOperatorFunctions", made.functions, "nullptr"),
        *array("OpEntry kOperators", rows, "{}"),
        f"const int kOperatorCount = {len(rows)};",
        *array("QuantizedForm kQuantizedForms", forms, "{}"),
        f"const int kQuantizedFormCount = {len(forms)};",
        "}  // namespace pen",
    ]
    return "\n".join(lines) + "\n"
