"""What models really use of a library: their files come in and are run on all their bundled inputs, a Trace goes out: the Selection of
a library that can do the same again, and what the file alone would have asked for.

Every bundled input of every method is run in each way that a device may take: rank-4 inputs as they are and channels-last (the runtime
may then copy), planned parts of VM code by their plan and interpreted. What a file names is always needed, or it would not load:
tracing finds, of all the kernels that VM operators and copies may need, those that they do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from penlight.build.model_selection import pen_image, selection_of_file
from penlight.build.reach import all_keys
from penlight.build.selection import Selection
from penlight.errors import PenlightError
from penlight.file.contents import Fields, PenFile
from penlight.file.reader import read
from penlight.ir.script import OPERATORS
from penlight.model import Model
from penlight.ops import registry
from penlight.ops.vm_operators import operators
from penlight.vm_module import _BF16, _to_torch, from_vm

_TORCHBIND = "__torch__.torch.classes."


class TraceError(PenlightError):
    """A model cannot be traced, or its trace contradicts its file."""


@dataclass(frozen=True)
class Trace:
    chosen: Selection  # what a library needs: by the trace, or all that the files may ask for
    static: Selection
    root_operators: frozenset[str]  # torch's names: what the models' own code calls
    reached_operators: frozenset[str]  # and what those call in turn
    custom_classes: frozenset[str]
    inputs: tuple[tuple[str, int], ...] = ()  # method, number of bundled inputs
    not_run: tuple[str, ...] = ()  # interpreted methods without any: what they use is not known

    def __or__(self, other: Trace) -> Trace:
        roots = self.root_operators | other.root_operators
        return Trace(
            self.chosen | other.chosen, self.static | other.static, roots,
            (self.reached_operators | other.reached_operators) - roots,
            self.custom_classes | other.custom_classes, self.inputs + other.inputs, self.not_run + other.not_run,
        )  # fmt: skip

    @property
    def unused(self) -> frozenset[str]:
        """Kernels that other inputs might ask for and these did not."""
        asked, used = (all_keys() if s.keys is None else s.keys for s in (self.static, self.chosen))
        return asked - used


def trace_models(paths: Iterable[str | os.PathLike[str]], static: bool = False) -> Trace:
    return reduce(or_, (trace_model(path, static) for path in paths))


def trace_model(path: str | os.PathLike[str], static: bool = False) -> Trace:
    """`static`: without running it: all that its file may ask for."""
    image = pen_image(path)
    pen = read(image)
    needs = selection_of_file(pen)
    roots = torch_operators(pen)
    classes = frozenset(_torchbind_classes(pen.module)) | _classes_in_schemas(roots)
    if static:
        return Trace(needs, needs, roots, frozenset(), classes)
    model = Model(image, threads=1)
    kernels, called = run_bundled(model, str(path))
    if lost := sorted(key for key in kernels if not needs.has_key(key)) + sorted(
        n for n in called if not needs.has_operator(n)
    ):
        raise TraceError(
            f"{path}: runs used what the file does not ask for: {', '.join(lost)}. This is a fault of Penlight: please report it."
            " (--static does not see it either: build with --all for now)"
        )
    named = frozenset(name for name in pen.script_operators if needs.has_operator(name))
    chosen = Selection(
        kernels | set(pen.keys), named | called, needs.vm, halves=needs.halves, state=needs.state, turns=needs.turns
    )
    counts = {method: len(model.bundled_inputs(method)) for method in model.methods}
    inputs = tuple((method, count) for method, count in counts.items() if count)
    not_run = [m for m in counts if not counts[m] and m not in model.planned_methods and "bundled_input" not in m]
    return Trace(chosen, needs, roots, called - roots, classes, inputs, tuple(not_run))


def run_bundled(model: Model, name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Kernels and operators that the runs used. The model has not run before."""
    trace = model.trace()
    if not model._handle.bundles():
        raise TraceError(
            f"{name}: no bundled inputs to run it on. Add some where the model is made,\n"
            '    penlight.optimize(model, example_inputs, bundled_inputs={"forward": [example_inputs]}).save("model.pen")\n'
            "  or in TorchScript,\n"
            "    torch.utils.bundled_inputs.augment_model_with_bundled_inputs(script, [example_inputs])\n"
            "  or take all that its file may ask for, without running it: --static"
        )
    parts = any(method.startswith("~") for method in model._handle.methods)
    for interpret in (False, True) if parts else (False,):
        trace.interpret(interpret)
        for channels_last in (False, True):
            for method, args in _bundled(model, channels_last):
                model.reset()
                try:
                    model.run_method(method, *args)
                except PenlightError as e:
                    if channels_last and method not in model.planned_methods:
                        continue  # code may refuse strides that it was not written for, as torch does: x.view(-1)
                    raise TraceError(f"{name}: {method} fails on its bundled input: {e}") from e
    return frozenset(trace.kernels), frozenset(trace.operators)


def _bundled(model: Model, channels_last: bool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Methods and their arguments, read anew: code may have written into those of the last time."""
    from penlight import _runtime

    def in_vm(t: Any) -> Any:
        array = _relaid(t.array) if channels_last else t.array
        return _runtime.TensorValue(array, t.dtype, t.axis, list(t.scales), list(t.zero_points))

    def planned(t: Any) -> Any:
        if t.dtype == _BF16:  # which numpy cannot tell from i16
            return _to_torch(t)
        return _relaid(t.array) if channels_last else t.array

    for method, _, args, *_ in model._handle.bundles():
        yield method, from_vm(args, planned if method in model.planned_methods else in_vm)


def _relaid(array: np.ndarray) -> np.ndarray:
    """The same numbers, channels innermost in memory."""
    if array.ndim != 4:
        return array
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def torch_operators(pen: PenFile) -> frozenset[str]:
    """By torch's names: those that the script called which it was made of; else all that become the nodes it has."""
    if OPERATORS in pen.metadata:
        return frozenset(pen.metadata[OPERATORS])
    ops = registry.load_all()
    names = (name for op in pen.operators if op in ops for name in ops[op].converters)
    return frozenset(n if "::" in n else f"aten::{n}" for n in names) | frozenset(pen.script_operators)


def _classes_in_schemas(names: Iterable[str]) -> frozenset[str]:
    schemas = (operators()[name] for name in names if name in operators())
    texts = (text for op in schemas for text in (*(p.type for p in op.params), *op.returns))
    return frozenset(m[1] for text in texts for m in re.finditer(r"__torch__\.torch\.classes\.(?:\w+\.)*(\w+)", text))


def _torchbind_classes(value: Any) -> Iterator[str]:
    """Short names of the classes of objects in a module's state that are TorchBind's: Conv2dPackedParamsBase."""
    if isinstance(value, Fields):
        if value.type.startswith(_TORCHBIND):
            yield value.type.rpartition(".")[2]
        value = value.items
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _torchbind_classes(item)
