"""TorchScript source text → whether torch may compile it: what it calls only computes, and nothing of it runs while it is compiled.

torch resolves names in ways that no list of bad words covers: getattr with a text, methods of a value that are operators, parts of a module
(ops.aten.autograd is ops.aten), adjacent texts, lines that are continued. So this is the other way round. The text is taken apart as torch's
lexer does; only what torch's printer writes passes: operators of known namespaces, written plainly as ops.NS.NAME or torch.NAME; calls of
functions that the file itself defines; of names in text only attributes. Defaults and constants of classes, which torch computes while it
compiles, are literals. What is not understood is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from penlight.capture.trust import PACKED_CLASSES, may_count, only_computes

# Blanks and line ends; names, numbers, texts, one character. No tabs, comments, backslashes, and no text in three quotes: the printer writes none.
_TOKEN = re.compile(
    r"(?P<blank> +)|(?P<line>\n)|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?j?)"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<sign>[-()\[\]{}.,:=+*/%<>!&|^~])"
)
_ESCAPE = re.compile(r"\\(?:[ntrabfv\\\"']|([0-3][0-7]{2}))")
_OPEN, _CLOSE = "([{", ")]}"
# What torch's compiler calls by a bare name; all of them compute.
_BUILTINS = {
    "annotate", "unchecked_cast", "uninitialized", "fork", "awaitable", "print", "getattr", "hasattr", "isinstance", "int", "float", "bool", "str",
    "complex", "tuple", "list", "dict", "range", "rangelist", "zip", "enumerate", "reversed", "sorted", "min", "max", "abs", "all", "any", "divmod",
    "sum", "len", "ord", "chr", "bin", "oct", "hex", "hash", "pow", "round", "id", "iter", "slice",
}  # fmt: skip
_KEYWORDS = {
    "and", "or", "not", "in", "is", "if", "else", "elif", "while", "return", "assert", "raise", "for", "del", "with", "as", "pass", "break", "continue",
    "global", "import", "from", "Exception",
}  # fmt: skip
_REMOTE = {"rpc_async", "rpc_sync", "rpc_remote"}
_ROOTS = {"torch", "ops", "__torch__"}
_IN_DECLARATIONS = set("()[]{}.,:=-")  # besides "->": literals and types, and nothing that is computed
_RESTORES = "__setstate__, which torch runs while it loads the file,"
_LITERAL_CALLS = {"annotate", "torch.device"}


class NotPlainError(ValueError):
    """Why torch may not compile a text."""


@dataclass(frozen=True)
class _Token:
    kind: str  # "name", "number", "text" or "sign"
    text: str


@dataclass
class _Line:
    """A statement's tokens, and how far it is indented."""

    indent: int
    tokens: list[_Token]


@dataclass
class _Function:
    name: str
    indent: int
    loops: bool
    names: set[str]  # all that it calls, and more


def check_texts(texts: Iterable[bytes]) -> None:
    """Raises NotPlainError unless torch may compile all of these."""
    lines = [_lines(text.decode("latin-1")) for text in texts]
    functions: list[_Function] = []
    for part in lines:
        functions += _checked(part)
    _check_end(functions)


def _lines(text: str) -> list[_Line]:
    found: list[_Line] = []
    at, depth, fresh, indent = 0, 0, True, 0
    tokens: list[_Token] = []
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotPlainError(f"it has {text[at : at + 20]!r} in it, which torch does not write")
        kind, written = str(match.lastgroup), match.group()
        at = match.end()
        if kind == "blank":
            indent = len(written) if fresh and not tokens else indent
        elif kind == "line":
            if depth == 0:
                if tokens:
                    found.append(_Line(indent, tokens))
                tokens, indent = [], 0
            fresh = depth == 0
            continue
        else:
            if (
                kind in ("name", "number")
                and at < len(text)
                and (text[at] in "\"'" or text[at].isalnum() or text[at] == "_")
            ):
                raise NotPlainError(f"{text[match.start() : at + 10]!r} runs together")
            if kind == "text":
                _check_text(written, text[at : at + 1])
            if kind == "sign":
                depth += (written in _OPEN) - (written in _CLOSE)
                if depth < 0:
                    raise NotPlainError(f"a {written} that closes nothing")
            tokens.append(_Token(kind, written))
        fresh = False
    if depth:
        raise NotPlainError("a bracket is not closed")
    return [*found, _Line(indent, tokens)] if tokens else found


def _check_text(written: str, following: str) -> None:
    if len(written) == 2 and following == written[0]:
        raise NotPlainError("a text in three quotes")
    for match in re.finditer(r"\\.(?:[0-7]{2})?", written):
        escape = _ESCAPE.match(match.group())
        if escape is None or (escape[1] and 32 <= int(escape[1], 8) < 127):
            raise NotPlainError(f"{written[:60]} hides what it says behind {match.group()}")


def _checked(lines: list[_Line]) -> list[_Function]:
    """The functions of a text, each of whose lines is plain."""
    defined = {
        b.text
        for line in lines
        for a, b in zip(line.tokens, line.tokens[1:], strict=False)
        if a.text in ("def", "class") and a.kind == "name"
    }
    # _0 = __torch__.torch.nn.functional.relu: the printer gives a function a short name
    defined |= {
        t[0].text
        for t in (line.tokens for line in lines)
        if len(t) > 4 and t[1].text == "=" and t[2].text == "__torch__"
    }
    found: list[_Function] = []
    around: list[_Function] = []  # functions that the line is in
    for line in lines:
        while around and line.indent <= around[-1].indent:
            around.pop()
        first = line.tokens[0].text
        names = _check_line(line.tokens, defined)
        if first in ("def", "class") or not around:
            _check_declaration(line.tokens)
        for function in around:  # what a function inside does, the outer one may do
            function.loops |= any(t.kind == "name" and t.text in ("while", "for") for t in line.tokens)
            function.names |= names
        if first == "def":
            made = _Function(line.tokens[1].text if len(line.tokens) > 1 else "", line.indent, False, set())
            found.append(made)
            around.append(made)
    return found


def _check_line(tokens: list[_Token], defined: set[str]) -> set[str]:
    """Raises unless what a line names is known to compute. The last of the names of all that it may call."""
    mentioned: set[str] = set()
    end = _Token("sign", "")
    at = 0
    importing = tokens[0].text == "import"
    while at < len(tokens):
        before = tokens[at - 1] if at else end
        token = tokens[at]
        if (
            token.text == "("
            and token.kind == "sign"
            and (before.kind in ("number", "text") or before.text in (")", "]", "}"))
        ):
            raise NotPlainError(f"a call of {before.text[:40]}, which is no name")
        if token.kind != "name":
            at += 1
            continue
        names = [token.text]
        at += 1
        while at + 1 < len(tokens) and tokens[at].text == "." and tokens[at + 1].kind == "name":
            names.append(tokens[at + 1].text)
            at += 2
        following = tokens[at] if at < len(tokens) else end
        called = following.kind == "sign" and following.text == "("
        if before.text == ".":
            _check_members(names)
        elif names[0] in _ROOTS:
            if not importing:
                _check_path(names, following)
        else:
            _check_members(names[1:])
            if names[0] == "getattr":
                mentioned.add(_check_getattr(tokens, at))
            if names[0] in _REMOTE:
                raise NotPlainError(f"it has {names[0]} in it, which calls another machine")
            if (
                called
                and len(names) == 1
                and before.text not in ("def", "class")
                and names[0] not in _BUILTINS | _KEYWORDS | defined
            ):
                raise NotPlainError(f"it calls {names[0][:60]}, which the file does not define")
        mentioned.add(names[-1])
    return mentioned


def _check_members(names: list[str]) -> None:
    """Of a value: a name that is none of its attributes is an operator of aten to torch."""
    for name in names:
        if not only_computes(f"aten::{name}"):
            raise NotPlainError(f"it has .{name}, which may be the operator aten::{name}")
        if may_count(name):
            raise NotPlainError(f"it has .{name}, which takes as many steps as a number says")


def _check_path(names: list[str], following: _Token) -> None:
    """torch.NAME, ops.NS.NAME, __torch__.….NAME; a part of one could go on in ways that are not seen here."""
    written = ".".join(names)[:80]
    if following.text == ".":
        raise NotPlainError(f"{written} goes on with something else than a name")
    if names[0] == "__torch__":
        if len(names) < 2 or names in (["__torch__", "torch"], ["__torch__", "torch", "classes"]):
            raise NotPlainError(f"it has {written} in it, which is no class")
        if names[1:3] == ["torch", "classes"] and (len(names) != 5 or names[3] not in PACKED_CLASSES):
            raise NotPlainError(f"it has {written}, a class of C++ that is not known as packed weights")
        return
    if len(names) != (2 if names[0] == "torch" else 3):
        raise NotPlainError(f"it has {written} in it, which is no operator")
    operator = f"{'aten' if names[0] == 'torch' else names[1]}::{names[-1]}"
    if not only_computes(operator):
        raise NotPlainError(f"it calls {operator}, which is not known to do nothing but compute")
    if may_count(operator):
        raise NotPlainError(f"it calls {operator}, which takes as many steps as a number says")


def _check_getattr(tokens: list[_Token], at: int) -> str:
    """getattr(value, "name"): the name is one text without escapes, and no operator."""
    depth, comma, i = 0, -1, at
    for i in range(at, len(tokens)):
        text = tokens[i].text if tokens[i].kind == "sign" else ""
        depth += (text in _OPEN and text != "") - (text in _CLOSE and text != "")
        if depth == 0:
            break
        if depth == 1 and text == "," and comma < 0:
            comma = i
    name = tokens[comma + 1 : i] if comma > 0 else []
    if len(name) != 1 or name[0].kind != "text" or "\\" in name[0].text:
        raise NotPlainError("a getattr whose name is not one plain text")
    if tokens[at + 1].text in ("torch", "ops", "__torch__"):
        raise NotPlainError(f"a getattr of {tokens[at + 1].text}")
    _check_members([name[0].text[1:-1]])
    return name[0].text[1:-1]


def _check_declaration(tokens: list[_Token]) -> None:
    """Attributes and headers: torch computes what stands there while it compiles."""
    for i, token in enumerate(tokens):
        before = tokens[i - 1].text if i else ""
        if token.kind == "sign" and token.text not in _IN_DECLARATIONS and not (token.text == ">" and before == "-"):
            raise NotPlainError(f"a default or constant with {token.text} is computed while the file is loaded")
        if token.kind == "name" and token.text in (
            "for",
            "if",
            "else",
            "while",
            "and",
            "or",
            "not",
            "in",
            "is",
            "lambda",
        ):
            raise NotPlainError(f"a default or constant with {token.text!r} is computed while the file is loaded")
        if token.text != "(" or not i or tokens[i - 1].kind != "name":
            continue
        first = i - 1
        while first > 1 and tokens[first - 1].text == "." and tokens[first - 2].kind == "name":
            first -= 2
        name = "".join(t.text for t in tokens[first:i])
        if name not in _LITERAL_CALLS and not (first == 1 and tokens[0].text in ("def", "class")):
            raise NotPlainError(f"a default or constant calls {name[:60]} while the file is loaded")


def _check_end(functions: list[_Function]) -> None:
    """__setstate__ and __getstate__, and what they may call, have no loops: torch runs them without a limit while it loads the file, and while
    it copies the model (and compiles no function that calls itself). Functions are told apart by their last name only; those with names like __add__ are called in many ways."""
    if not any(f.name == "__setstate__" for f in functions):
        return
    table: dict[str, _Function] = {}
    for f in functions:
        known = table.setdefault(f.name, _Function(f.name, 0, False, set()))
        known.loops |= f.loops
        known.names |= f.names
    done: set[str] = set()
    left = sorted((name for name in table if name.startswith("__")), reverse=True)
    while left:
        name = left.pop()
        if name in done or name not in table:
            continue
        done.add(name)
        if table[name].loops:
            what = "has" if name in ("__setstate__", "__getstate__") else f"may call {name[:60]}, which has"
            runs = "__getstate__, which torch runs while it copies the model," if name == "__getstate__" else _RESTORES
            raise NotPlainError(f"{runs} {what} a loop")
        left += sorted(table[name].names)
