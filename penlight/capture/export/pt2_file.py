"""A .pt2 file (torch.export.save) → ExportedProgram, without running anything of it.

torch.export.load runs code that a file chooses: pickles, expressions (sympify is eval), names of nodes, which it writes into Python
source text and executes, modules that containers name, compiled libraries. So torch never sees the file. What a program needs is read
from it here, each part checked, and written into a clean archive in memory, which torch then loads:

    models/model.json                every target, name, expression and container is one of those that torch itself writes
    data/weights, data/constants     raw bytes; the rare pickled tensor goes through torch.load(weights_only=True)
    data/sample_inputs               torch.load(weights_only=True)

What cannot be read so is named, and needs trust=True: the file goes to torch as it is. Other parts (compiled libraries, metadata that
nobody here reads) are left out.
"""

from __future__ import annotations

import io
import json
import math
import pickletools
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from penlight.archive import Archive
from penlight.budget import Budget
from penlight.capture.export.symbol_text import NoExpressionError, check_expression, check_symbol
from penlight.capture.quiet import quiet
from penlight.capture.trust import reaches_outside, untrusted
from penlight.errors import CaptureError, PenlightError, UntrustedError
from penlight.file_kinds import OLD_EXPORTED as _OLD_MODEL
from penlight.file_kinds import flat_records, is_flat, read_flat

_MODEL = "models/model.json"
_PLAIN_RECORDS = ("archive_format", "archive_version", "version", ".data/version", "byteorder")

# Targets of nodes: operators, and the functions on sizes that torch.export leaves in graphs.
_OPERATOR = re.compile(r"torch\.ops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?")
_ON_SIZES = re.compile(r"torch\._?sym_[a-z_]+")
_OF_PYTHON = {
    f"_operator.{name}" for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "neg", "pos", "pow", "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor", "not_",
        "invert", "lshift", "rshift", "getitem", "abs", "index",
    )
} | {f"math.{name}" for name in ("ceil", "floor", "trunc", "sqrt", "pow", "log2", "log", "exp")}  # fmt: skip
_CONTROL_FLOW = {
    "cond", "while_loop", "map_impl", "map", "scan", "associative_scan", "wrap_with_set_grad_enabled", "wrap_with_autocast", "auto_functionalized",
    "auto_functionalized_v2", "with_effects", "flex_attention", "invoke_subgraph", "wrap",
}  # fmt: skip

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|")
_NAME = re.compile(
    r"[\w.\- :/,;<>\[\]@#+*=|]*"
)  # of weights, layers and the like: nothing that ends a string or a line of Python
_IDENTIFIER_KEYS = {"name", "as_name", "user_input_name", "arg_name"}
_FREE_TEXT = {"as_string", "as_strings"}  # arguments of operators, which are data
_METADATA = {"stack_trace", "nn_module_stack", "custom"}  # of nodes: what capture reads
_REFUSED_KEYS = {"as_custom_obj": "an object of a class of its own", "custom_obj": "an object of a class of its own"}
_CONTAINERS = {
    "builtins.tuple", "builtins.list", "builtins.dict", "collections.namedtuple", "collections.OrderedDict", "collections.deque",
    "collections.defaultdict", "torch.Size", "immutable_list", "immutable_dict", "torch.fx.immutable_collections.immutable_list",
    "torch.fx.immutable_collections.immutable_dict", "builtins.slice",
}  # fmt: skip
_FACTORIES = ("list", "dict", "int", "float", "set", "tuple", "str")
_MAX_DEPTH = 100


def open_exported(data: np.ndarray, file: str, trust: bool = False) -> Any:
    """The ExportedProgram in a file, whose bytes these are."""
    try:
        import torch
    except ImportError:
        raise CaptureError("a .pt2 file is captured by torch, which is not installed: pip install torch") from None
    if trust:
        stream = io.BytesIO(data.data)
    else:
        budget = Budget(len(data), file)
        stream = io.BytesIO(_clean(_records(data, file, budget), file, budget))
    try:
        with quiet():
            program = torch.export.load(stream)
    except PenlightError:
        raise
    except Exception as e:
        # torch checks little of what a file says, and fails in any way
        raise CaptureError(
            f"{file}: torch cannot read this exported program: {type(e).__name__}: {str(e)[:300]}"
        ) from e
    calls = program.module_call_graph
    if not calls or calls[0].fqn or calls[0].signature is None:
        raise CaptureError(
            f"{file}: expected the model's own call first in module_call_graph, got another's, or one without a signature"
        )
    return program


class _Records:
    """The records of either kind of archive, by name."""

    def __init__(self, names: list[str], read: Callable[[str], bytes]) -> None:
        self.names = names
        self.read = read

    def __contains__(self, name: str) -> bool:
        return name in self.names


def _records(data: np.ndarray, file: str, budget: Budget) -> _Records:
    try:
        archive = Archive(data, file)
    except CaptureError:
        if not is_flat(data):
            raise
        flat = flat_records(data)

        def read(name: str) -> bytes:
            if name not in flat:
                raise CaptureError(f"{file}: it has no record {name!r}") from None
            content = read_flat(data, flat[name], budget.most_bytes)
            budget.take(len(content))
            return content

        return _Records(list(flat), read)
    archive.budget = budget
    return _Records(list(archive.records), archive.read)


def _clean(records: _Records, file: str, budget: Budget) -> bytes:
    made = io.BytesIO()
    check = _Check(file, budget)
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as target:

        def write(name: str, content: bytes | str, root: str = "model/") -> None:
            target.writestr(root + name, content)

        if _OLD_MODEL in records:
            write(_OLD_MODEL, check.program(records.read(_OLD_MODEL), _OLD_MODEL), "")
            for name in ("serialized_state_dict", "serialized_constants", "serialized_example_inputs"):
                write(f"{name}.pt", check.pickled(records.read(f"{name}.pt"), f"{name}.pt"), "")
            write("version", records.read("version"), "")
        elif _MODEL in records:
            others = [n for n in records.names if n.startswith("models/") and n != _MODEL]
            if others:
                raise CaptureError(f"{file}: expected one program, {_MODEL}, got {others[0][:80]} too")
            for name in _PLAIN_RECORDS:
                if name in records:
                    write(name, records.read(name))
            write(_MODEL, check.program(records.read(_MODEL), _MODEL))
            samples = "data/sample_inputs/model.pt"
            write(samples, check.pickled(records.read(samples), samples) if samples in records else b"")
            for folder, kind in (("data/weights/", "weights"), ("data/constants/", "constants")):
                legacy, config = f"{folder}model.pt", f"{folder}model_{kind}_config.json"
                if legacy in records:
                    write(legacy, check.pickled(records.read(legacy), legacy))
                else:
                    for name, content in check.payloads(records, folder, config).items():
                        write(name, content)
        else:
            names = [n for n in records.names if n.startswith("models/")]
            raise CaptureError(f"{file}: expected a program in {_MODEL}, got {', '.join(names[:3]) or 'none'}")
    return made.getvalue()


class _Check:
    def __init__(self, file: str, budget: Budget) -> None:
        self.file = file
        self.budget = budget

    # ---- JSON ----
    def program(self, content: bytes, record: str) -> bytes:
        """The graph, with what nobody reads left out."""
        where = f"{self.file}: {record}"
        value = self.json(content, where)
        return json.dumps(self.checked(value, "", where, 0)).encode()

    def json(self, content: bytes | str, where: str) -> Any:
        try:
            return self.budget.json(content)
        except (ValueError, RecursionError, MemoryError) as e:
            raise CaptureError(f"{where} is no JSON: {str(e)[:200]}") from None

    def checked(self, value: Any, key: str, where: str, depth: int) -> Any:
        self.budget.step()
        if depth > _MAX_DEPTH:
            raise CaptureError(f"{where}: values are nested deeper than {_MAX_DEPTH}")
        if isinstance(value, dict):
            made = {}
            for name, item in value.items():
                if name in _REFUSED_KEYS and item is not None:
                    raise self.untrusted(where, f"it has {_REFUSED_KEYS[name]}")
                if name == "metadata" and isinstance(item, dict):
                    item = {k: v for k, v in item.items() if k in _METADATA and isinstance(v, str)}
                    made[name] = item
                elif name == "guards_code":
                    continue
                elif name == "range_constraints" and isinstance(item, dict):
                    for symbol in item:
                        self.expression(symbol, check_symbol, where)
                    made[name] = self.checked(item, name, where, depth + 1)
                else:
                    if not _NAME.fullmatch(name):
                        raise self.untrusted(where, f"it has the name {name[:80]!r}")
                    made[name] = self.checked(item, name, where, depth + 1)
            return made
        if isinstance(value, list):
            return [self.checked(item, key, where, depth + 1) for item in value]
        if isinstance(value, str):
            self.text(value, key, where)
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise CaptureError(f"{where}: {key} is a number of more than 64 bits")
        return value

    def text(self, value: str, key: str, where: str) -> None:
        if key in _FREE_TEXT:
            return
        if key == "expr_str":
            self.expression(value, check_expression, where)
        elif key in ("target", "as_operator"):
            self.target(value, where)
        elif key in ("in_spec", "out_spec"):
            self.containers(value, where)
        elif not (_IDENTIFIER if key in _IDENTIFIER_KEYS else _NAME).fullmatch(value):
            raise self.untrusted(where, f"its {key or 'text'} {value[:80]!r} is no name")

    def expression(self, text: str, check: Callable[[str], int], where: str) -> None:
        try:
            self.budget.step(check(text))
        except NoExpressionError as e:
            raise self.untrusted(where, f"{text[:80]!r} is no expression of sizes: {e}") from None

    def target(self, target: str, where: str) -> None:
        if (
            target in _OF_PYTHON or _ON_SIZES.fullmatch(target) or "." not in target
        ):  # without a dot: a name, which torch looks up nowhere
            return
        found = _OPERATOR.fullmatch(target)
        if found is None or any(part is not None and part.startswith("__") for part in found.groups()):
            raise self.untrusted(where, f"it calls {target[:80]}, which is no operator")
        if found[1] == "higher_order" and found[2] not in _CONTROL_FLOW:
            raise self.untrusted(where, f"it calls {target[:80]}, which is no control flow")
        does = reaches_outside(f"{found[1]}::{found[2]}")
        if does:
            raise self.untrusted(where, f"it calls {target}, which {does}")

    def containers(self, text: str, where: str) -> None:
        """How arguments nest: pytree imports modules that a container's context names."""
        if not text:
            return
        spec = self.json(text, where)
        if not isinstance(spec, list) or len(spec) != 2 or spec[0] != 1:
            raise CaptureError(f"{where}: containers of another version than 1")
        self.container(spec[1], where, 0)

    def container(self, spec: Any, where: str, depth: int) -> None:
        self.budget.step()
        if depth > _MAX_DEPTH or not isinstance(spec, dict):
            raise CaptureError(f"{where}: containers that are no tree, or deeper than {_MAX_DEPTH}")
        kind, context = spec.get("type"), spec.get("context")
        if kind is not None and kind not in _CONTAINERS and not _is_registered(kind):
            raise self.untrusted(where, f"it has a container of class {str(kind)[:80]}, which is not registered here")
        if isinstance(context, str):
            context = self.json(context, where) if context else None
        self.context(context, where, 0)
        children = spec.get("children_spec")
        for child in children if isinstance(children, list) else ():
            self.container(child, where, depth + 1)

    def context(self, value: Any, where: str, depth: int) -> None:
        self.budget.step()
        if depth > _MAX_DEPTH:
            raise CaptureError(f"{where}: containers deeper than {_MAX_DEPTH}")
        if isinstance(value, dict):
            if "__enum__" in value:
                raise self.untrusted(
                    where, f"a key of a dict is of the enum {str(value.get('fqn'))[:80]}, which would be imported"
                )
            factory = value.get("default_factory_module"), value.get("default_factory_name")
            if factory != (None, None) and (factory[0] != "builtins" or factory[1] not in _FACTORIES):
                raise self.untrusted(where, f"a defaultdict calls {str(factory[0])[:80]}.{str(factory[1])[:80]}")
            for name, item in value.items():
                self.context(name, where, depth + 1)
                self.context(item, where, depth + 1)
        elif isinstance(value, list):
            for item in value:
                self.context(item, where, depth + 1)
        elif isinstance(value, str) and not _NAME.fullmatch(value):
            raise self.untrusted(where, f"a key of a dict is {value[:80]!r}, which is no name")

    # ---- tensors ----
    def payloads(self, records: _Records, folder: str, config: str) -> dict[str, bytes]:
        """The records that a table of weights names, and the table."""
        where = f"{self.file}: {config}"
        if config not in records:
            raise CaptureError(f"{where} is not there")
        table = self.checked(self.json(records.read(config), where), "", where, 0)
        entries = table.get("config") if isinstance(table, dict) else None
        if not isinstance(entries, dict):
            raise CaptureError(f"{where}: expected a table of tensors")
        made: dict[str, bytes] = {}
        for name, entry in entries.items():
            self.budget.step()
            if not isinstance(entry, dict) or not isinstance(entry.get("path_name"), str):
                raise CaptureError(f"{where}: {name[:80]} has no record")
            path = entry["path_name"]
            if not re.fullmatch(r"(?:weight|tensor)_\d+", path):
                raise self.untrusted(where, f"{name[:80]} is an object, {path[:80]}, not a tensor")
            record = folder + path
            if record not in records:
                raise CaptureError(f"{where}: {name[:80]} is in record {record}, which is not there")
            content = made[record] if record in made else records.read(record)
            if record not in made:
                self.budget.take(len(content))
            if entry.get("use_pickle"):
                made[record] = content if record in made else self.pickled(content, record)
            else:
                self.extents(entry.get("tensor_meta"), len(content), f"{where}: {name[:80]}")
                made[record] = content
        made[config] = json.dumps(table).encode()
        return made

    def extents(self, meta: Any, size: int, where: str) -> None:
        """torch makes zeros of any size where a record is empty."""
        sizes = meta.get("sizes") if isinstance(meta, Mapping) else None
        if not isinstance(sizes, list):
            raise CaptureError(f"{where} has no sizes")
        numbers = [s.get("as_int") if isinstance(s, dict) else None for s in sizes]
        if any(type(n) is not int or n < 0 or n > 1 << 48 for n in numbers):
            raise CaptureError(f"{where} has sizes that are no numbers")
        if size == 0 and math.prod(numbers):  # type: ignore[arg-type]
            raise CaptureError(f"{where} has {math.prod(numbers)} elements, and none in its record")  # type: ignore[arg-type]

    def pickled(self, content: bytes, record: str) -> bytes:
        """Tensors in containers, without the callables of pickle, written again."""
        if not content:
            return content
        import torch

        where = f"{self.file}: {record}"
        try:
            archive = Archive(np.frombuffer(content, np.uint8), where)
        except CaptureError as e:
            raise untrusted(f"{e}. Only archives of torch.save are read") from None
        archive.budget = self.budget  # which counts what is inflated, too
        self.budget.take(len(content))
        self.names(archive.read("data.pkl"), where)
        content = archive.rewritten()
        try:
            with quiet():
                loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except Exception as e:  # of any kind: torch's own reader meets whatever a file says
            said = str(e).strip().splitlines()[0][:160] if str(e).strip() else type(e).__name__
            raise self.untrusted(where, f"it holds more than tensors ({said})") from None
        if not isinstance(loaded, (dict, tuple, torch.Tensor)):
            raise CaptureError(f"{where} holds {type(loaded).__name__}, expected tensors")
        self.walk(loaded, where, 0)
        made = io.BytesIO()
        torch.save(loaded, made)
        return made.getvalue()

    def names(self, content: bytes, where: str) -> None:
        """torch allows pickles to call bytearray, which makes as many bytes as a number says."""
        try:
            for op, argument, _ in pickletools.genops(content):
                self.budget.step()
                if op.name in ("GLOBAL", "INST") and str(argument).rpartition(" ")[2] in ("bytearray", "bytes"):
                    raise self.untrusted(where, f"it calls {str(argument)[:80]}, which is no tensor")
        except (ValueError, IndexError, struct.error) as e:
            raise CaptureError(f"{where}: data.pkl is no pickle: {str(e)[:160]}") from None

    def walk(self, value: Any, where: str, depth: int) -> None:
        """Containers may share parts: whoever walks them later meets each as often as it is in them."""
        self.budget.step()
        if depth > _MAX_DEPTH:
            raise CaptureError(f"{where}: values are nested deeper than {_MAX_DEPTH}")
        if isinstance(value, (dict, list, tuple, set)):
            for item in [*value, *value.values()] if isinstance(value, dict) else value:
                self.walk(item, where, depth + 1)

    def untrusted(self, where: str, what: str) -> UntrustedError:
        return untrusted(f"{where}: {what}")


def _is_registered(kind: Any) -> bool:
    """A class that the program which runs now told pytree about: its own code, which is imported already."""
    from torch.utils import _pytree

    return isinstance(kind, str) and kind in _pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
