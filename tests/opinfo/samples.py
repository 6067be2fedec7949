"""torch's own samples (OpInfo) through torch.export and Penlight.

One operator has from one to some hundred samples. Exporting is what takes the time, most of it the same for one call as
for twenty, so samples are exported together, a batch of calls in one module; a batch that fails anywhere is tried again
sample by sample, to find out which. A sample that torch itself does not export does not count.
"""

from __future__ import annotations

import functools
import logging
import re
import warnings
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree

import penlight
from tests.opinfo import judgement

DTYPES = {"f32": torch.float32, "i64": torch.int64, "bool": torch.bool}
BATCH = 16


@dataclass
class Call:
    """One sample: called with tensors, it calls the operator with them in their places."""

    index: int  # among the operator's samples, as expected.py counts them
    op: Callable[..., Any]
    leaves: list[Any]
    spec: Any
    changes: bool = False  # the operator writes into its arguments: it gets copies

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    @property
    def kwargs(self) -> dict[str, Any]:
        given: dict[str, Any] = pytree.tree_unflatten(self.leaves, self.spec)[2]
        return given

    def __call__(self, *tensors: torch.Tensor) -> Any:
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        if self.changes:
            leaves = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        first, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(first, *args, **kwargs)


@dataclass
class Result:
    """What became of an operator's samples."""

    samples: int = 0
    passed: set[int] = field(default_factory=set)
    failures: dict[int, str] = field(default_factory=dict)  # which samples export but fail, and how

    @property
    def exported(self) -> int:
        return len(self.passed) + len(self.failures)


class Batch(torch.nn.Module):
    def __init__(self, calls: Sequence[Call], named: bool = False) -> None:
        super().__init__()
        self.calls = torch.nn.ModuleList(map(Named, calls)) if named else list(calls)

    def forward(self, *tensors: torch.Tensor) -> Any:
        rest = iter(tensors)
        return [call(*(next(rest) for _ in call.tensors)) for call in self.calls]


class Named(torch.nn.Module):
    """A call as a module of its own, whose name stands in the source lines of errors."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call, self.tensors = call, call.tensors

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.call(*tensors)


@functools.cache
def operators() -> dict[str, Any]:
    """name -> OpInfo; variants have their own names ("std.unbiased")."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op for op in op_db}


def calls_of(name: str, dtype: str) -> list[Call]:
    op = operators()[name]
    torch.manual_seed(0)
    calls = []
    for index, sample in enumerate(op.sample_inputs("cpu", DTYPES[dtype], requires_grad=False)):
        leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        calls.append(Call(index, op.op, leaves, spec))
    return calls


def check(name: str, dtype: str, most: int | None = None, alone: Container[int] = ()) -> Result:
    """The samples of one operator and dtype: every one, or `most` of them, evenly chosen, and those of which a failure is expected:
    alone, for they would take their batch with them."""
    calls = calls_of(name, dtype)
    if most is not None and len(calls) > most:
        chosen = {i * len(calls) // most for i in range(most)}
        calls = [call for call in calls if call.index in chosen or call.index in alone]
    result = Result(samples=len(calls))
    computed = [(c, e) for c in calls if (e := _eager(c)) is not _NOTHING]
    singles = [one for one in computed if one[0].index in alone]
    together = [one for one in computed if one[0].index not in alone]
    for start in range(0, len(together), BATCH):
        batch = together[start : start + BATCH]
        if not _passes(name, batch, result):
            singles += batch
    listed = [one for one in singles if one[0].index in alone]
    for start in range(0, len(listed), BATCH):
        result.failures.update(_refused([call for call, _ in listed[start : start + BATCH]]))
    for one in singles:
        if one[0].index not in result.failures:
            _passes(name, [one], result)
    return result


def _refused(calls: list[Call]) -> dict[int, str]:
    """Which of these samples Penlight refuses in words, and how: one error names all calls of a model that it cannot run. Of the
    others nothing is known yet."""
    tensors = tuple(t for call in calls for t in call.tensors)
    try:
        with torch.no_grad(), _quiet():
            program = torch.export.export(Batch(calls, named=True), tensors, strict=False)
        penlight.optimize(program)
    except penlight.UnsupportedError as e:
        found = {
            int(n): call for call in e.calls for line in call.sources for n in re.findall(r"\[calls\.(\d+)\]$", line)
        }
        return {calls[n].index: f"UnsupportedError: {call.describe()}" for n, call in found.items()}
    except Exception:
        pass
    return {}


_NOTHING = object()


def _eager(call: Call) -> Any:
    """What torch computes; nothing where it refuses the sample itself."""
    tensors = [t.clone() for t in call.tensors]
    versions = [t._version for t in tensors]
    try:
        with torch.no_grad(), _quiet():
            expected = call(*tensors)
    except Exception:
        return _NOTHING
    call.changes = versions != [t._version for t in tensors]
    return expected


def _passes(name: str, batch: list[tuple[Call, Any]], result: Result) -> bool:
    """Adds the outcome to `result`; a batch of several that fails adds nothing."""
    calls = [call for call, _ in batch]
    tensors = tuple(t for call in calls for t in call.tensors)
    single = len(batch) == 1
    try:
        with torch.no_grad(), _quiet():
            program = torch.export.export(Batch(calls), tensors, strict=False)
    except Exception:
        return False  # torch's limit, not ours: a single sample does not count
    try:
        got = penlight.optimize(program)(*tensors)
        for (call, expected), ours in zip(batch, got, strict=True):
            judgement.of(name, call.kwargs)(ours, expected)
    except Exception as e:
        if single:
            result.failures[calls[0].index] = f"{type(e).__name__}: {e}"
        return False
    result.passed.update(call.index for call in calls)
    return True


class _quiet(warnings.catch_warnings):
    """Export logs and warns about what OpInfo samples do."""

    def __enter__(self) -> Any:
        logging.disable(logging.ERROR)
        entered = super().__enter__()
        warnings.simplefilter("ignore")
        return entered

    def __exit__(self, *error: object) -> None:
        logging.disable(logging.NOTSET)
        super().__exit__(*error)
