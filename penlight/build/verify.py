"""Proves that a library runs: the very file that was built loads a model and computes what is expected, natively or under an emulator.

Expected are the results bundled with the model, within its own tolerance; where it carries none, what this Python's runtime computes
for random inputs. The program that loads the library writes its results; they are compared here.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from penlight.build.emulation import NotHere, runner
from penlight.build.library import Library
from penlight.bundles import UNKNOWN
from penlight.errors import BuildError, RunError
from penlight.file.contents import PenFile
from penlight.file.reader import read
from penlight.ir import containers
from penlight.ir.types import DTYPES, numpy_dtype
from penlight.model import Model

TIMEOUT = 600  # seconds; an emulator takes some fifty times as long as a processor
_SIZES = (64, 224, 32, 128, 16, 8, 4, 2, 1)  # to try for free dims
_KINDS = (
    "none",
    "bool",
    "int",
    "float",
    "string",
    "tensor",
    "list",
    "tuple",
    "dict",
    "object",
)  # as pen_kind counts them
_CODES = {np.dtype(numpy): code for _, (code, numpy) in reversed(DTYPES.items())}
_NUMPY = {code: np.dtype(numpy) for _, (code, numpy) in DTYPES.items()}


@dataclass(frozen=True)
class Call:
    """A run of a method, and what it should give."""

    method: str
    expected: Any
    absolute: float
    relative: float
    inputs: tuple[np.ndarray, ...] | None  # of a planned method; None: VM code, which takes the bundled input
    bundle: int = -1  # the number of the bundled input; -1: random inputs, results one after the other


@dataclass(frozen=True)
class Verified:
    library: Library
    model: str
    how: str  # how it ran, or why not
    calls: int = 0  # by each instruction set; 0: it did not run
    largest_error: float = 0.0  # as a fraction of what is allowed
    isas: tuple[str, ...] = ()  # the instruction sets that it ran by: all that the library holds and the machine has

    @property
    def text(self) -> str:
        if not self.calls:
            return self.how
        runs = "1 run" if self.calls == 1 else f"{self.calls} runs"
        lacks = [isa for isa in self.library.isas if isa not in self.isas]
        ran = " and ".join(self.isas) + (f" (not by {' and '.join(lacks)}, which this machine lacks)" if lacks else "")
        return f"{runs} right, {self.how}, by {ran}; largest error {100 * self.largest_error:.2g} % of what is allowed"


def verify(library: Library, model_path: Path, cache: Path | None = None) -> Verified:
    """Runs a model with a library that was just built; a BuildError where it does not give what it should."""
    started = runner(library.target, cache)
    name = model_path.name
    if isinstance(started, NotHere):
        return Verified(library, name, started.why)
    model = Model(model_path)
    todo = list(calls(model, read(model_path)))
    if not todo:
        return Verified(
            library,
            name,
            "not run: interpreted, without bundled inputs (penlight.optimize(…, bundled_inputs=…) adds some)",
        )
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "calls", Path(folder) / "results"
        given.write_bytes(b"".join(_encode(call) for call in todo))
        command = [*started.command, *(f"{started.root}{p.resolve()}" for p in (library.path, model_path, given, made))]

        def attempt(*isa: str) -> tuple[tuple[str, ...], float]:
            """By the best instruction set, or this one: all that there are, and the largest error."""
            where = f"{name} on {library.target.name}" + "".join(f" by {one}" for one in isa)
            cpu = (started.oldest if isa == ("base",) else "max") if started.oldest else ""
            said = _run([*command, *isa], library, started.how, where, {"QEMU_CPU": cpu} if cpu else {})
            results = _Results(made.read_bytes())
            return tuple(said.split()), max(_compare(results.of(c, model), c, f"{where}, {c.method}") for c in todo)

        isas, worst = attempt()
        worst = max([worst, *(attempt(isa)[1] for isa in isas[1:])])
    return Verified(library, name, started.how, len(todo), worst, isas)


def _run(command: Sequence[str], library: Library, how: str, where: str, variables: dict[str, str]) -> str:
    """What the program says."""
    environment = {**os.environ, **variables}
    _same(library)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT, env=environment
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"{where}: no result after {TIMEOUT} s ({how})") from None
    if done.returncode != 0:
        said = f"{done.stdout}{done.stderr}".strip() or f"exit status {done.returncode}"
        raise BuildError(f"{library.path}: {where} does not run ({how}): {said}")
    _same(library)
    return done.stdout


def _same(library: Library) -> None:
    """Whether it is still the file that was built."""
    now = hashlib.sha256(library.path.read_bytes()).hexdigest()
    if now != library.sha256:
        raise BuildError(
            f"{library.path}: expected the file that was built (SHA-256 {library.sha256}), got another ({now})"
        )


# --- what to run ---
def calls(model: Model, file: PenFile) -> Iterator[Call]:
    """Bundled inputs of all methods; planned methods that have none get random ones."""
    for method in model.methods:
        planned = method in model.planned_methods
        where = [i for i, bundle in enumerate(file.bundles) if bundle.method == method]
        for index, bundle in zip(where, model.bundled_inputs(method), strict=True):
            expected, absolute, relative = bundle.outputs, bundle.absolute, bundle.relative
            if not bundle.has_outputs:
                expected, absolute, relative = *_run_here(model, method, bundle.args), 0.0
            inputs = tuple(_leaves(model, method, bundle.args)) if planned else None
            yield Call(method, expected, absolute, relative, inputs, index)
        if planned and not where and (leaves := _random(model, method, file)):
            model.reset()
            results = model._run(method, leaves)
            model.reset()
            yield Call(method, results, _tolerance(results), 0.0, tuple(leaves))


def _leaves(model: Model, method: str, args: Sequence[Any]) -> list[np.ndarray]:
    return [np.ascontiguousarray(a) for a in containers.flatten(model._input_spec(method), args)]


def _run_here(model: Model, method: str, args: Sequence[Any]) -> tuple[Any, float]:
    """What this Python's runtime gives, and how far others may be off."""
    model.reset()
    result = model.run_method(method, *args)
    model.reset()
    return result, _tolerance(result)


def _tolerance(result: Any) -> float:
    """Where the model does not say: as bundles.py has it."""
    largest = [np.abs(a[np.isfinite(a)]).max(initial=0) for a in _arrays(result) if a.dtype.kind == "f"]
    return UNKNOWN * float(max(largest, default=0.0))


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _arrays(item)
    elif isinstance(value, (np.ndarray, np.generic, float)):
        yield np.asarray(value)


def _random(model: Model, method: str, file: PenFile) -> list[np.ndarray] | None:
    """Noise for floats, zeros for all else, which may be indices; free sizes such that the model takes them. None: no size does."""
    for size in _SIZES:
        rand = np.random.default_rng(0)
        leaves = []
        for port in file.method(method).inputs:
            free = [min(max(size, least), size if most is None else most) for least, most in port.limits]
            shape = [d if isinstance(d, int) else f for d, f in zip(port.shape, free, strict=True)]
            dtype = numpy_dtype(port.dtype)
            leaves.append(rand.standard_normal(shape).astype(dtype) if dtype.kind == "f" else np.zeros(shape, dtype))
        try:
            model._bind(method, leaves, leaves)
        except RunError:  # too small for its windows, or no multiple of something: another size may do
            continue
        return leaves
    return None


# --- the program's files ---
def _encode(call: Call) -> bytes:
    name = call.method.encode()
    head = struct.pack("<BI", call.inputs is None, len(name)) + name
    if call.inputs is None:
        return head + struct.pack("<I", call.bundle)
    parts = [head, struct.pack("<I", len(call.inputs))]
    for x in call.inputs:
        parts += [struct.pack(f"<ii{x.ndim}q", _CODES[x.dtype], x.ndim, *x.shape), x.tobytes()]
    return b"".join(parts)


class _Results:
    """What the program wrote, read from front to back."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found

    def of(self, call: Call, model: Model) -> Any:
        """The result of the next call."""
        if call.inputs is None:
            return self.value()
        leaves = [self.tensor() for _ in range(self.take("I")[0])]
        if call.bundle < 0:
            return leaves
        sizes = {f"in{i}_{d}": n for i, x in enumerate(call.inputs) for d, n in enumerate(x.shape)}
        return containers.unflatten(json.loads(model._handle.output_spec(call.method)), leaves, sizes)

    def tensor(self) -> np.ndarray:
        code, rank = self.take("ii")
        shape = self.take(f"{rank}q")
        dtype = _NUMPY[code]
        count = int(np.prod(shape, dtype=np.int64))
        found = np.frombuffer(self.data, dtype, count, self.at).reshape(shape)
        self.at += count * dtype.itemsize
        return found

    def value(self) -> Any:
        kind = _KINDS[self.take("B")[0]]
        if kind == "none":
            return None
        if kind in ("bool", "int"):
            number = self.take("q")[0]
            return bool(number) if kind == "bool" else number
        if kind == "float":
            return self.take("d")[0]
        if kind == "tensor":
            return self.real(self.tensor())
        (count,) = self.take("I")
        if kind == "string":
            self.at += count
            return self.data[self.at - count : self.at].decode("utf-8", "replace")
        if kind == "dict":
            return {self.value(): self.value() for _ in range(count)}
        items = [self.value() for _ in range(count)]
        return items if kind == "list" else tuple(items)

    def real(self, x: np.ndarray) -> np.ndarray:
        """A quantized tensor's numbers, as vm_module.py makes them of bundled results."""
        axis, count = self.take("iI")
        scales, zeros = self.take(f"{count}d"), self.take(f"{count}q")
        if axis == -2:
            return x
        shape = [-1 if d == axis else 1 for d in range(x.ndim)] if axis >= 0 else []
        return (x.astype(np.float32) - np.array(zeros, np.float32).reshape(shape)) * np.array(
            scales, np.float32
        ).reshape(shape)


# --- comparing ---
def _compare(got: Any, call: Call, where: str) -> float:
    """The largest error as a fraction of what is allowed; a BuildError where that is over one, or anything else differs."""
    worst = 0.0

    def different(at: str, expected: object, found: object) -> BuildError:
        return BuildError(f"{where}: result{at}: expected {expected}, got {found}")

    def walk(want: Any, have: Any, at: str) -> None:
        nonlocal worst
        if isinstance(want, SimpleNamespace):
            want = tuple(vars(want).values())
        if isinstance(want, dict):
            if not isinstance(have, dict) or list(want) != list(have):
                raise different(at, f"a dict with {list(want)}", have if not isinstance(have, dict) else list(have))
            for key in want:
                walk(want[key], have[key], f"{at}[{key!r}]")
        elif isinstance(want, (list, tuple)):
            if not isinstance(have, (list, tuple)) or len(want) != len(have):
                raise different(at, f"{len(want)} values", have if not isinstance(have, (list, tuple)) else len(have))
            for i, (a, b) in enumerate(zip(want, have, strict=True)):
                walk(a, b, f"{at}[{i}]")
        elif isinstance(want, (np.ndarray, np.generic, float)):
            worst = max(worst, numbers(_wide(want), _wide(have), at))
        elif want != have or type(want) is not type(have):
            raise different(at, repr(want), repr(have))

    def numbers(want: np.ndarray, have: np.ndarray, at: str) -> float:
        if want.shape != have.shape or want.dtype != have.dtype:
            raise different(at, f"{want.dtype}{list(want.shape)}", f"{have.dtype}{list(have.shape)}")
        if want.dtype.kind not in "f":
            if not np.array_equal(want, have):
                raise different(at, "these integers", f"others in {int((want != have).sum())} of {want.size} places")
            return 0.0
        finite = np.isfinite(want)
        if not np.array_equal(want[~finite], have[~finite], equal_nan=True) or not np.isfinite(have[finite]).all():
            raise different(at, "NaN and infinities where they are expected", "others")
        off = np.abs(want[finite].astype(np.float64) - have[finite])
        allowed = call.absolute + call.relative * np.abs(want[finite].astype(np.float64))
        ratio = float((off / np.maximum(allowed, np.finfo(np.float64).tiny)).max(initial=0.0)) if off.any() else 0.0
        if ratio > 1:
            raise different(at, f"within {allowed.max():.3g} of the result", f"{off.max():.3g} off")
        return ratio

    walk(call.expected, got, "")
    return worst


def _wide(x: Any) -> np.ndarray:
    """As an array; bf16, which numpy lacks and which comes as 16 bits, as f32."""
    array = np.asarray(x)
    return (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == np.uint16 else array
