"""Selections as YAML files. Written for PyTorch's own reader too (torchgen's SelectiveBuilder, which takes no keys but its own):

    include_all_non_op_selectives: true      # of torch's kernels nothing is known, so that torch's builds keep them all
    operators:                               # by torch's names
      aten::add.Tensor: {is_root_operator: true, is_used_for_training: false, include_all_overloads: false}
    kernel_metadata:                         # a tag for each thing that a library of Penlight's holds
      penlight::kernel::add.f32: [Float]
      penlight::operator::aten::add.Tensor: []
      penlight::vm: []

kernel_metadata is where tracing notes kernels, and torchgen keeps it when it merges files. Read are these, PyTorch's own (no tags: the
operators' names are mapped to all that may compute them, operator_kernels.py), and plain lists of names (SELECTED_OP_LIST).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from penlight.build.operator_kernels import is_known, selection_of_operators
from penlight.build.reach import all_keys
from penlight.build.selection import EVERYTHING, Selection
from penlight.build.trace import Trace
from penlight.capture.lite.registers import TRANSLATED
from penlight.errors import PenlightError
from penlight.ops.vm_operators import operators
from penlight.paths import replace_text, text_of

KERNEL, OPERATOR, VM = "penlight::kernel::", "penlight::operator::", "penlight::vm"
HALVES, STATE, TURNS = "penlight::halves", "penlight::state", "penlight::turns"
FLAGS = ("include_all_non_op_selectives", "include_all_operators")
LISTS = ("build_features", "custom_classes", "debug_info")
MAPS = ("operators", "kernel_metadata", "et_kernel_metadata")
OPERATOR_FLAGS = ("is_root_operator", "is_used_for_training", "include_all_overloads")
# torch's names of what the second part of a kernel key reads.
SCALAR_TYPES = {
    "f32": ["Float"], "f64": ["Double"], "f16": ["Half"], "bf16": ["BFloat16"], "i8": ["Char"], "u8": ["Byte"], "i16": ["Short"],
    "i32": ["Int"], "i64": ["Long"], "bool": ["Bool"], "b8": ["Bool", "Byte", "Char"], "b16": ["BFloat16", "Half", "Short"],
    "b32": ["Float", "Int"], "b64": ["Double", "Long"],
}  # fmt: skip


class YamlError(PenlightError):
    """A file that does not say what a library should hold."""


def _yaml() -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise YamlError("reading and writing YAML needs PyYAML: pip install penlight[build]") from None
    return yaml


def _loader(yaml: Any) -> Any:
    """Safe, and without what no tracer writes: merge keys (<<), of which a few lines make billions of entries, and numbers and dates, of
    which some take long to read (1:59:59 has base 60) and others cannot be said again. They are read as text."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def flatten_mapping(self, node: Any) -> None:
            pass

    for kind in ("int", "float", "timestamp"):
        Loader.add_constructor(f"tag:yaml.org,2002:{kind}", yaml.SafeLoader.construct_yaml_str)
    return Loader


# --- writing ---
def write_yaml(path: str | os.PathLike[str], trace: Trace) -> None:
    """The old file stays until the new one is whole."""
    text = _yaml().safe_dump(as_yaml(trace), sort_keys=False, default_flow_style=False, width=1000)
    head = "# Written by penlight trace, for penlight build --ops. PyTorch's torchgen reads it too.\n"
    replace_text(path, head + text)


def as_yaml(trace: Trace) -> dict[str, Any]:
    if trace.chosen.keys is None or trace.chosen.operators is None:
        raise YamlError("a library with every kernel has no list to write: penlight build --all makes it")

    def entry(root: bool) -> dict[str, bool]:
        return {"is_root_operator": root, "is_used_for_training": False, "include_all_overloads": False}

    roots = dict.fromkeys(trace.root_operators, True)
    reached = dict.fromkeys(trace.reached_operators - trace.root_operators, False)
    tags = {KERNEL + key: SCALAR_TYPES.get(key.split(".")[1], []) for key in sorted(trace.chosen.keys)}
    tags.update({OPERATOR + name: [] for name in sorted(trace.chosen.operators)})
    return {
        "include_all_non_op_selectives": True,
        "build_features": [],
        "operators": {name: entry(root) for name, root in sorted({**roots, **reached}.items())},
        "kernel_metadata": {
            **{tag: list(types) for tag, types in tags.items()},
            **({VM: []} if trace.chosen.vm else {}),
            **({HALVES: []} if trace.chosen.halves else {}),
            **({STATE: []} if trace.chosen.state else {}),
            **({TURNS: []} if trace.chosen.turns else {}),
        },
        "custom_classes": sorted(trace.custom_classes),
    }


# --- reading ---
def selection_of_yaml(path: str | os.PathLike[str]) -> Selection:
    """What the file asks for."""
    yaml = _yaml()
    try:
        data = yaml.load(text_of(path), _loader(yaml))
    except (yaml.YAMLError, ValueError, RecursionError) as e:  # ValueError: not UTF-8, or a date like 2026-99-99
        raise YamlError(f"{path}: not YAML: {' '.join(str(e).split())}") from None
    if isinstance(data, list):
        return _of_names(path, _names_in_list(path, data))
    if not isinstance(data, dict):
        raise YamlError(f"{path}: expected a list of operators, or a file that a tracer wrote, got {_kind(data)}")
    _check_keys(path, data)
    if data.get("include_all_operators"):
        return EVERYTHING
    tags = [str(tag) for tag in data.get("kernel_metadata") or {}]
    if any(tag.startswith((KERNEL, OPERATOR)) or tag in (VM, HALVES, STATE, TURNS) for tag in tags):
        return _of_tags(path, tags)
    return _of_names(path, _root_names(path, data.get("operators") or {}))


def _kind(value: Any) -> str:
    return {type(None): "nothing", dict: "a map", list: "a list", str: "text"}.get(type(value), type(value).__name__)


def _check_keys(path: Any, data: dict[Any, Any]) -> None:
    known = (*FLAGS, *LISTS, *MAPS)
    if unknown := [str(key) for key in data if key not in known]:
        raise YamlError(f"{path}: unknown keys: {', '.join(unknown)}; there are {', '.join(known)}")
    kinds = {**dict.fromkeys(FLAGS, bool), **dict.fromkeys(LISTS, list), **dict.fromkeys(MAPS, dict)}
    for key, value in data.items():
        # PyTorch's tracer writes an empty map as an empty list.
        if not isinstance(value, kinds[key]) and value not in (None, []):
            expected = {bool: "true or false", list: "a list", dict: "a map"}[kinds[key]]
            raise YamlError(f"{path}: {key}: expected {expected}, got {_kind(value)}")


def _of_tags(path: Any, tags: Iterable[str]) -> Selection:
    keys = frozenset(tag.removeprefix(KERNEL) for tag in tags if tag.startswith(KERNEL))
    called = frozenset(tag.removeprefix(OPERATOR) for tag in tags if tag.startswith(OPERATOR))
    if unknown := sorted((keys - all_keys()) | (called - operators().keys())):
        raise YamlError(f"{path}: this version of Penlight has no {', '.join(unknown)}. Trace the models again with it")
    return Selection(
        keys,
        called,
        vm=VM in tags or bool(called),
        halves=HALVES in tags,
        state=STATE in tags,
        turns=TURNS in tags,
    )


def _names_in_list(path: Any, items: list[Any]) -> set[str]:
    # Of a list or a map its kind alone: aliases may nest it so that its text never ends.
    told = (item[:80] if isinstance(item, str) else _kind(item) for item in items)
    if wrong := [item for item in told if "::" not in item]:
        raise YamlError(f"{path}: expected operators such as aten::add.Tensor, got {', '.join(wrong)}")
    return {name for item in items for name in ([item] if is_known(item) else _overloads(item))}


def _root_names(path: Any, listed: dict[Any, Any]) -> set[str]:
    """What models call; what torch calls behind that is torch's own."""
    found: set[str] = set()
    for name, about in listed.items():
        about = about or {}
        if not isinstance(about, dict):
            raise YamlError(f"{path}: operators: {name}: expected a map, got {_kind(about)}")
        if unknown := [str(k) for k in about if k not in (*OPERATOR_FLAGS, "name", "debug_info")]:
            raise YamlError(
                f"{path}: operators: {name}: unknown keys: {', '.join(unknown)}; there are {', '.join(OPERATOR_FLAGS)}"
            )
        if about.get("is_root_operator", True):
            found.update(_overloads(str(name)) if about.get("include_all_overloads", True) else [str(name)])
    return found


def _overloads(name: str) -> list[str]:
    """An operator without an overload stands for all of them."""
    return [other for other in operators() if other.partition(".")[0] == name] or [name]


def _of_names(path: Any, names: set[str]) -> Selection:
    if unknown := sorted(name for name in names if not is_known(name) and name not in TRANSLATED):
        listed = "\n  ".join(unknown)
        raise YamlError(
            f"{path}: {len(unknown)} of {len(names)} operators are not there (docs/OPERATORS.md has those that are):\n  {listed}"
        )
    if not names:
        raise YamlError(f"{path}: it names no operators")
    return selection_of_operators(names)
