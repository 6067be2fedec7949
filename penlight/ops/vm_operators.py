"""The VM's operators, found by scanning the C++ for PEN_OP (runtime/vm/op.h): their schemas, and the table of them.

    PEN_OP(relu, "aten::relu(Tensor self) -> Tensor", "aten::relu_(Tensor(a!) self) -> Tensor(a!)") {

Schemas are torch's own text. The lite reader needs them too: how many arguments an operator takes off the stack stands in
files since bytecode version 6 only. Families of one shape are written once: braces stand for each of the words in them, and
options before the schemas add the forms that torch derives from each ([functional]: of one that is in place, those that are not),

    PEN_OP(extreme, "[in_place][out]", "aten::{most,least}(Tensor self) -> Tensor") {

is most, most_, most.out, least, least_ and least.out. [out] may also stand before one schema or one word, and name the overload
and what is written where torch does not call them out, or out0, out1, …: "aten::topk[out=values values indices](Tensor self, …".
Which of its schemas it was called by, and which of the words, the function is told as numbers (Call::form, Call::word).
Elementwise operators have no PEN_OP: they come from their rules (elementwise/overloads.py). Needs the standard library only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penlight.ops.cpp_tables import Function, TextTable, function_table

if TYPE_CHECKING:
    from penlight.ops.elementwise.rules import ElementwiseOp

ROOT = Path(__file__).resolve().parents[1]
_MACRO = re.compile(r'^PEN_OP\(\s*(\w+),\s*((?:"(?:[^"\\]|\\.)*"\s*,?\s*)+)\)\s*\{', re.MULTILINE)
_QUANTIZED = re.compile(r'^PEN_QUANTIZED\(\s*(\w+),\s*((?:"[^"]*"\s*,?\s*)+)\)\s*\{', re.MULTILINE)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_STRINGS = re.compile(r'(?:"(?:[^"\\]|\\.)*"\s*)+')  # adjacent literals are one, as in C
_SCHEMA = re.compile(r"([\w:]+(?:\.\w+)?)\s*\((.*)\)\s*->\s*(.+)", re.DOTALL)
_OUT = re.compile(r"\[out(?:=([\w ]+))?\]")
_OPTIONS = re.compile(r"(?:, )?ScalarType\?? dtype\S*, Layout\? layout\S*, Device\? device\S*, bool\? pin_memory[^,]*")
_KINDS = {"Tensor": "tensor", "int": "integer", "float": "real", "bool": "boolean", "str": "string", "Scalar": "number",
          "number": "number", "Device": "string", "ScalarType": "integer", "Layout": "integer", "MemoryFormat": "integer",
          "Generator": "any", "SymInt": "integer", "tuple": "tuple", "object": "object", "list": "list", "dict": "dict",
          "Any": "any", "any": "any", "t": "any", "tVal": "any", "key": "any", "AnyList": "list", "QScheme": "integer"}  # fmt: skip
_SHARING = re.compile(r"\w\(|\b(?:t|tVal|tKey|key|Any|any|AnyList|list|dict|tuple|object)\b")  # "Tensor(a)", "t[]"
_SOMETIMES_THE_ARGUMENT = {"aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout",
                           "aten::type_as", "aten::ravel", "aten::unflatten", "aten::set"}  # fmt: skip
DIVISIONS = ("floor_divide", "trunc_divide", "remainder", "fmod")  # rules whose integers torch refuses to divide by 0
_LISTS = {"integer": "integers", "real": "reals", "boolean": "booleans", "tensor": "tensors", "string": "strings"}


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
    writes: int  # the parameter that result 0 is copied into, or -1; those after it take further results
    variadic: bool
    quantized: bool
    nhwc: bool  # takes images that lie so underneath
    counts: bool  # goes through a part of its strings only, and counts that itself
    shares: bool  # whether a result may share memory with an argument, or be part of it
    source: Path
    form: int = 0  # which of the PEN_OP's schemas it was written as
    word: int = 0  # which of the words in its braces it is
    options_at: int = -1  # of an out= form whose function takes dtype, layout, device and pin_memory: where
    rule: ElementwiseOp | None = None

    def with_options(self) -> VmOperator:
        """An out= form as its function knows it: without out, with dtype, layout, device and pin_memory."""
        options = ("dtype", "integer"), ("layout", "integer"), ("device", "string"), ("pin_memory", "boolean")
        given = tuple(Param(name, kind, True, "None", "", True, "") for name, kind in options)
        params = (*self.params[: self.options_at], *given, *self.params[self.options_at : -self.outs])
        return replace(self, params=params, writes=-1, options_at=-1)

    @property
    def outs(self) -> int:
        """How many of the last parameters are what results are written into."""
        return next(
            (i for i, p in enumerate(reversed(self.params)) if not (p.written and (p.keyword or p.name == "out"))),
            len(self.params),
        )


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
    """A schema, and its in-place and out= forms where the options, or it itself, ask for them and it is neither itself."""
    own = _OUT.search(schema)
    schema = _OUT.sub("", schema)
    made = [schema]
    match = _SCHEMA.fullmatch(schema.strip())
    if not match:
        return made  # parse_schema says what is wrong
    name, arguments, returned = match.groups()
    base, _, overload = name.partition(".")
    dot = f".{overload}" if overload else ""
    if "[functional]" in options:
        plain = f"{base.removesuffix('_')}{dot}({arguments.replace('Tensor(a!) ', 'Tensor ', 1)}) -> Tensor"
        return [schema, *expand(plain, "[out]")]
    if "!" in schema and not own:
        return made
    if "[in_place]" in options:
        made.append(f"{base}_{dot}({arguments.replace('Tensor ', 'Tensor(a!) ', 1)}) -> Tensor(a!)")
    if asked := own or _OUT.search(options):
        made.append(_out_form(base, overload, arguments, returned, *(asked[1] or "").split()))
    return made


def _out_form(base: str, overload: str, arguments: str, returned: str, called: str = "", *names: str) -> str:
    results = len(_split(returned[1:-1])) if returned.startswith("(") else 1
    names = names or (("out",) if results == 1 else tuple(f"out{i}" for i in range(results)))
    letters = (c for c in "abcdefgh" if f"({c}" not in arguments)
    is_list = returned in ("Tensor[]", "Tensor(a)[]")
    kinds = [f"Tensor({next(letters)}!){'[]' * is_list}" for _ in names]
    star = [] if "*" in _split(arguments) else ["*"]
    outs = [f"{kind} {name}" for kind, name in zip(kinds, names, strict=True)]
    given = ", ".join([a for a in (_OPTIONS.sub("", arguments),) if a] + star + outs)
    called = called or (f"{overload}_out" if overload else "out")
    made = kinds[0] if results == 1 and not is_list else f"({', '.join(kinds[: 0 if is_list else results])})"
    return f"{base}.{called}({given}) -> {made}"


def options_of(schema: str) -> int:
    """Which of its arguments is the first of those that an out= form leaves out; -1: it has none."""
    found = _OPTIONS.search(schema)
    return len([a for a in _split(schema[schema.index("(") + 1 : found.start()]) if a != "*"]) if found else -1


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
        name,
        symbol,
        params,
        len(parts),
        tuple(parts),
        writes,
        variadic,
        "quantized" in options,
        "nhwc" in options,
        "counts" in options,
        shares,
        source,
        **more,
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
        text = path.read_text("utf-8")
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
            if schemas[0].startswith("[") and "(" not in schemas[0]:
                options = schemas.pop(0)
            for form, text_form in enumerate(schemas):
                for word, schema in enumerate(words(text_form)):
                    places = options_of(schema)
                    for made in expand(schema, options):
                        at = -1 if _OPTIONS.search(made) else places
                        add(parse_schema(made, symbol, options, path, form=form, word=word, options_at=at))
    for rule in registry.load_all().values():
        if isinstance(rule, ElementwiseOp):
            path = ROOT.parent / (rule.module.replace(".", "/") + ".py")
            for schema in overloads.schemas(rule):
                add(parse_schema(schema, "elementwise", "[nhwc]", path, rule=rule))
    return dict(sorted(found.items()))


@lru_cache(maxsize=1)
def quantized_forms() -> dict[str, tuple[str, Path]]:
    """Operators that have another function for quantized tensors, PEN_QUANTIZED(relu, "aten::relu", "aten::relu_") {: symbol and
    file by name."""
    found: dict[str, tuple[str, Path]] = {}
    for path in sorted((ROOT / "ops").rglob("*.cc")):
        for symbol, strings in _QUANTIZED.findall(path.read_text("utf-8")):
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
            f"{{{self.text(p.name)}, {value}, Kind::{p.kind}, {str(p.optional).lower()}, {default}}}"
            for p in params
            for value, default in [self.default(p)]
        )
        if items not in self.lists:  # its beginnings are lists too: most out= forms begin as what they are forms of
            self.lists |= {items[:n]: len(self.params) for n in range(len(items) + 1) if items[:n] not in self.lists}
            self.params += items
        return self.lists[items]

    def entry(self, op: VmOperator, more: int) -> str:
        """An OpEntry in C++."""
        options_at = max(op.options_at, 0)
        if len(op.params) > 63 or op.form > 127 or max(op.outs, op.results, op.word, options_at) > 15:
            raise ValueError(f"{op.name}: more than an OpEntry holds (runtime/vm/op.h): widen its fields")
        numbers = f"{len(op.params)}, {op.outs}, {op.results}, {int(op.variadic)}, {int(op.quantized)}, {op.writes}, {int(op.counts)}"
        return (
            f"{{{self.text(op.name)}, {self.function(f'op_{op.symbol}')}, {self.first_param(op.params)}, {more}, {numbers}, "
            f"{op.form}, {int(op.nhwc)}, {op.word}, {options_at}}}"
        )

    def default(self, p: Param) -> tuple[int, str]:
        """Of a Param in C++: value; has_default and default_tag."""
        if p.default is None:
            return 0, "false, Tag::none"
        value = p.value
        if value is None:
            return 0, "true, Tag::none"
        if isinstance(value, bool):
            return self.integer(value), "true, Tag::boolean"
        if isinstance(value, str):
            return self.text.place(value), "true, Tag::string"
        if isinstance(value, list):
            return self.text.place(",".join(str(v) for v in value)), "true, Tag::list"
        if isinstance(value, float) or p.kind == "real":
            return self.reals.setdefault(repr(float(value)), len(self.reals)), "true, Tag::real"
        return self.integer(value), "true, Tag::integer"

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
    rows: list[str] = []
    wholes: list[str] = []
    for params in sorted((op.params for op in table.values()), key=len, reverse=True):
        made.first_param(params)
    for op in table.values():
        more = numbers[op.rule.name] if op.rule else -1
        if op.options_at >= 0:
            more = -2 - len(wholes)
            wholes.append(made.entry(op.with_options(), -1))
        rows.append(made.entry(op, more))
    forms = [
        f"{{{made.text(name)}, {made.function(f'quantized_form_{symbol}')}}}"
        for name, (symbol, _) in quantized_forms().items()
        if name in table
    ]
    written = [made.rule(rule) for rule in rules.values()]

    functions = [Function(("pen", symbol), "Call& c", "RNS_4CallE") for symbol in made.functions]

    def array(declared: str, items: Iterable[object], empty: str) -> list[str]:
        return [f"const {declared}[] = {{", *([f"    {item}," for item in items] or [f"    {empty},"]), "};"]

    lines = [
        "// Generated from PEN_OP lines by penlight/ops/vm_operators.py. Do not edit.",
        '#include "penlight/runtime/vm/op.h"',
        *(function.declaration("Status") for function in functions),
        "namespace pen {",
        *made.text.array("kOperatorText"),
        *array("int64_t kDefaultIntegers", made.integers, "0"),
        *array("double kDefaultReals", made.reals, "0"),
        *array("Param kParams", made.params, "{}"),
        *array("OpRule kRules", written, "{}"),
        *function_table("OpFn", "operator_function", functions),
        *array("OpEntry kOperators", rows, "{}"),
        f"const int kOperatorCount = {len(rows)};",
        *array("OpEntry kWholes", wholes, "{}"),
        *array("QuantizedForm kQuantizedForms", forms, "{}"),
        f"const int kQuantizedFormCount = {len(forms)};",
        "}  // namespace pen",
    ]
    return "\n".join(lines) + "\n"
