"""A model that runs: what `optimize` and `load` give back. Containers and array kinds in Python, all else in the C runtime.

Sessions (plans, arena, threads) belong to one caller at a time, so each Python thread gets its own; the mapped file is
shared by all. Results are fresh arrays: a later run cannot change an earlier result.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from penlight import limits
from penlight.errors import ArgumentError, InputError, LoadError, ReportError, RunError
from penlight.file import told
from penlight.file.metadata import extra_files, with_metadata
from penlight.ir import containers
from penlight.ir.script import Bundle
from penlight.ir.types import DTYPES
from penlight.paths import check_path
from penlight.printable import printable
from penlight.quant.report import KEY, Report
from penlight.tensor import Tensor, device_name, nbytes, plain_array, result_buffer
from penlight.vm_module import PlannedPart, VmModule, bundled, is_protocol

if TYPE_CHECKING:
    import torch

_INT_MAX = 2**31 - 1
_NAMES = {code: name for name, (code, _) in DTYPES.items()}


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a method. A free dim is None; `limits` gives its least and greatest size (None: any)."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    limits: tuple[tuple[int, int | None], ...]

    def __str__(self) -> str:
        shape = ", ".join("?" if d is None else str(d) for d in self.shape)
        return printable(f"{self.name}: {self.dtype}[{shape}]")


@dataclass(frozen=True)
class StepTime:
    """One kernel call in a profile: how long it took, and on what."""

    key: str
    output: str
    source: str
    seconds: float
    inputs: tuple[tuple[int, ...] | None, ...]  # their shapes; None: an optional input that was left out
    shape: tuple[int, ...]  # of its first output
    bytes: int  # read and written: inputs, weights as they are packed, outputs; 0 for a view
    multiply_adds: int  # see Op.work in ops/registry.py; 0 for operators that only move or combine single elements
    copied: int  # inputs that did not lie as the kernel reads them, and were copied first


class Model:
    """A loaded model. Call it like the module it came from; torch or numpy in, the same kind and containers out.

    Methods of TorchScript that are interpreted take and give any value: numbers, strings, lists, dicts, None. Their state
    lives in the model from call to call, for all threads; `reset()` takes it back to what the file says.

    Buffers that a model from torch.export writes into (key/value caches, running statistics, counters) are its state too, which stays from
    call to call. Of these each Python thread has its own, as it has its own session: a call sees what earlier calls in the same thread left,
    and starts from the buffers as they were at export. A call that fails leaves them as they were before it; where it had begun to change a
    large one in place, which an index out of range can bring about, calls in that thread fail until `reset()`.

    >>> m = penlight.load("mobilenet_v2.pen", threads=2)
    >>> m(image).shape
    torch.Size([1, 1000])
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | bytearray | memoryview | np.ndarray | IO[bytes] | tuple[int, int, int],
        *,
        threads: int | None = None,
        verify: bool = False,
        copy: bool = False,
        isa: str | None = None,
        memory_limit: int | None = None,
        plan_cache: int = 8,
        max_steps: int | None = None,
        device: str = "cpu",
        f16: bool = False,
    ) -> None:
        from penlight import _runtime

        memory_limit, max_steps = limits.chosen(memory_limit, max_steps)
        threads = (
            0
            if threads is None
            else limits.whole("threads", threads, 1, _INT_MAX, f"1 to {_INT_MAX}, or None for one per core")
        )
        _check_device(device)
        if isa is not None and not (isinstance(isa, str) and isa in ("", *_runtime.isas())):
            raise ArgumentError(
                f"isa: expected one of {', '.join(_runtime.isas())}, which this processor has, or None, got {isa!r}"
            )
        self._options: dict[str, Any] = {
            "threads": threads,
            "plan_cache": limits.whole("plan_cache", plan_cache, 0, _INT_MAX, "plans to keep, or 0 for 8"),
            "memory_limit": memory_limit,
            "isa": isa,
            "device": device,
            "f16": limits.flag("f16", f16),
        }
        self._max_steps = max_steps
        if hasattr(source, "read"):
            source = source.read()  # type: ignore[union-attr]
            if not isinstance(source, (bytes, bytearray, memoryview)):  # text would be taken for a path
                raise TypeError(
                    f"expected a file opened for reading in binary, got one that reads {type(source).__name__}"
                )
        flags = (_runtime.LOAD_VERIFY if limits.flag("verify", verify) else 0) | (
            _runtime.LOAD_COPY if limits.flag("copy", copy) else 0
        )
        handle = _runtime.Model()
        self._bytes: np.ndarray | None = None
        self.path: Path | None = None
        if isinstance(source, tuple):
            if len(source) != 3 or not all(isinstance(n, int) and 0 <= n < 2**63 for n in source) or source[0] >= 2**31:
                raise ArgumentError(f"expected (descriptor, offset, size), numbers from 0 on, got {source!r}")
            problem = handle.open_fd(*source, flags)
        elif isinstance(source, (bytes, bytearray, memoryview, np.ndarray)):
            self._bytes = _aligned(_plain_bytes(source))
            problem = handle.open_memory(self._bytes, flags)
        elif isinstance(source, (str, os.PathLike)):
            check_path(source)
            self.path = Path(os.fsdecode(source)).absolute()  # save() may come after a change of directory
            problem = handle.open_path(os.fsencode(source), flags)
        else:
            raise TypeError(
                "expected a path, bytes, a file opened for reading in binary, or (descriptor, offset, size), got"
                f" {type(source).__name__}"
            )
        if problem:
            raise LoadError(problem["message"], problem["status"])
        self._handle = handle  # open: a closed one has nothing to ask for
        self._check_texts()
        self._script = (
            VmModule(self._handle, threads, memory_limit, max_steps, isa, device, self._options["f16"])
            if self._handle.functions
            else None
        )
        self._trace: Any = None
        self._local = threading.local()
        self._methods: dict[str, Callable[..., Any]] = {}
        self._specs: dict[str, Any] = {}
        if device != "cpu" and (
            planned := self.planned_methods
        ):  # a device that is not there, or lacks something, is told of now
            self._session("forward" if "forward" in planned else planned[0])

    def _check_texts(self) -> None:
        """What only Python reads of a file is checked here, once: all that comes later may rely on it."""
        handle = self._handle
        try:
            told.metadata(handle.metadata)
            for name in handle.methods:
                texts = handle.input_spec(name), handle.output_spec(name)
                told.specs(name, texts, [port[2] for port in handle.inputs(name)], len(handle.outputs(name)))
            assert len(handle.functions) + len(handle.missing_operators) >= 0  # their names are text
        except UnicodeDecodeError as e:
            raise LoadError(f"this file is damaged: a name or a text in it is not UTF-8 ({e})") from None

    # --- what it is ---
    @property
    def metadata(self) -> dict[str, Any]:
        """Name, labels, preprocessing, licence: whatever was given to `optimize`."""
        return json.loads(self._handle.metadata)  # type: ignore[no-any-return]

    def report(self) -> Report:
        """What `penlight.quantize` did to it, and what that costs: print it, or `save` it as a page."""
        found = self.metadata.get(KEY)
        if not isinstance(found, dict):
            raise ReportError(
                "this model has no report: expected one that penlight.quantize calibrated (weights= needs no data, and measures nothing)"
            )
        return Report.from_metadata(found)

    @property
    def extra_files(self) -> dict[str, bytes]:
        """Files that were stored beside the model, by name: `_extra_files` of torch.jit.save and its kin."""
        return extra_files(self.metadata)

    @property
    def threads(self) -> int:
        """How many threads a session uses."""
        return int(self._options["threads"] or os.cpu_count() or 1)

    @property
    def methods(self) -> list[str]:
        return [*self.planned_methods, *(self._script.signatures if self._script else ())]

    @property
    def planned_methods(self) -> list[str]:
        """Those that are not interpreted: their inputs, outputs and memory are known beforehand."""
        return [name for name in self._handle.methods if not name.startswith("~")]  # parts of interpreted methods

    @property
    def missing_operators(self) -> list[str]:
        """Operators that interpreted methods call and this runtime lacks: a run that meets one fails."""
        return list(self._handle.missing_operators)

    @property
    def planned_parts(self) -> list[PlannedPart]:
        """Parts of interpreted methods that were planned beforehand: how often each ran by its plan, and why not."""
        return self._script.planned_parts if self._script else []

    def bundled_inputs(self, method: str = "forward", as_torch: bool = False) -> list[Bundle]:
        """Example inputs that the file carries for a method, with what they should give: as numpy arrays or torch tensors."""
        return bundled(self._handle, method, as_torch)

    def trace(self) -> Any:
        """From here on, what runs use of the library: an object with the lists `kernels` and `operators` (build/trace.py). Before the
        first run: what was planned before is not seen. One thread at a time may run then."""
        from penlight import _runtime

        trace = _runtime.Trace()
        if self._script:
            self._script.set_trace(trace)
        self._trace = trace
        return trace

    def reset(self) -> None:
        """Takes the model's state back to what the file says: that of interpreted methods for all threads, and what planned ones (from
        torch.export) keep, for the calling thread."""
        if self._script:
            self._script.reset()
        for session in self._sessions().values():
            session.reset()

    def state(self, method: str = "forward") -> dict[str, np.ndarray]:
        """What a planned method keeps from call to call, in this thread: copies of the model's buffers, by name. Halves (f16, bf16) are f32."""
        session, found = self._session(self._known(method)), {}
        for index, (name, code, shape) in enumerate(session.states()):
            found[name] = _empty_numpy(_NAMES[code], shape)
            session.read_state(index, found[name])
        return found

    def inputs(self, method: str = "forward") -> list[TensorInfo]:
        return [_info(*port) for port in self._handle.inputs(self._known(method))]

    def outputs(self, method: str = "forward") -> list[TensorInfo]:
        return [_info(*port) for port in self._handle.outputs(self._known(method))]

    @property
    def device(self) -> str:
        """What it runs on, as `load` was told: "cpu", "vulkan", "vulkan:1"."""
        return str(self._options["device"])

    def device_report(self, method: str = "forward") -> dict[str, Any]:
        """What this thread's last run of a method had its device do: the device's name, dispatches on it (0 on the CPU), copies of inputs
        and outputs between it and the host, and the bytes of these."""
        if self._script is not None and method in self._script.signatures:
            return self._script.device_report()
        report: dict[str, Any] = dict(self._session(self._known(method)).device_report())
        for size in getattr(self._local, "moved", {}).get(method, ()):
            report["copies"] += 1
            report["bytes_down"] += size
        return report

    @property
    def isa(self) -> str:
        """The instruction set its kernels use on this machine."""
        planned = list(self._handle.methods)
        if not planned:
            return str(self._options["isa"] or os.environ.get("PENLIGHT_ISA") or _best_isa())
        return str(self._session("forward" if "forward" in planned else planned[0]).isa)

    def arena_bytes(self, method: str = "forward") -> int:
        """Memory for intermediate values at the shapes of this thread's last run or prepare (weights, outputs and state not counted)."""
        return int(self._session(self._known(method)).arena_bytes)

    def live_bytes(self, method: str = "forward") -> int:
        """The part of arena_bytes that is in use at the step where most is: no arena could be smaller."""
        return int(self._session(self._known(method)).live_bytes)

    # --- running ---
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run_method("forward", *args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.run_method("forward", *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Its methods, as the module had them."""
        if not is_protocol(name) and "_specs" in self.__dict__ and name in self.methods:
            method = functools.partial(self.run_method, name)
            method.__name__ = name  # type: ignore[attr-defined]
            return method
        known = printable(f"; its methods are {', '.join(self.methods)}") if "_specs" in self.__dict__ else ""
        raise AttributeError(f"'Model' object has no attribute {name!r}{known}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.methods})

    def run_method(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a method by name."""
        if self._script is not None and name in self._script.signatures:
            return self._script.run(name, args, kwargs)
        return self._caller(name)(*args, **kwargs)

    def run_into(self, results: Sequence[Any], /, *args: Any, method: str = "forward", **kwargs: Any) -> None:
        """Like a call, but the results go into these arrays or tensors, one for each of `outputs()`: a loop allocates
        nothing, and large results need no fresh pages. They must have the dtype and shape that a call would return, and
        lie row-major, in memory that neither inputs nor other results have. Not for results whose size depends on the data."""
        running = self._begin(method)
        try:
            self._run_into(results, method, args, kwargs)
        finally:
            running.discard(method)

    def _run_into(self, results: Sequence[Any], method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not hasattr(results, "__iter__"):
            raise RunError(
                f"results: expected a list of arrays, one for each output, got {type(results).__name__}",
                status="argument",
            )
        results = list(results)
        leaves = containers.flatten(self._input_spec(method), args, kwargs)
        arrays = self._given(method, leaves)  # lives until the run is over
        session = self._bind(method, leaves, arrays)
        shapes = session.output_shapes()
        if any(isinstance(result, Tensor) for result in results):
            raise RunError(
                "results: expected arrays or torch tensors, got a penlight.Tensor, which never changes",
                status="argument",
            )
        if len(results) != len(shapes):
            raise RunError(
                f"results: expected {len(shapes)}, one for each output, got {len(results)}", status="argument"
            )
        writable = [_as_writable(result) for result in results]
        for index, (array, (code, shape, fixed)) in enumerate(zip(writable, shapes, strict=True)):
            if not fixed:
                name = self.outputs(method)[index].name
                message = (
                    f"result {name}: its size depends on the data, so there is no writing into an array: call the model"
                )
                raise RunError(message, status="argument", tensor=name)
            if not _fits(array, _NAMES[code], shape):
                name, wanted = self.outputs(method)[index].name, _dtype_of(array, _NAMES[code])
                expected = f"{wanted} {shape}, row-major, to be written"
                got = _unwritable(results[index]) if array is None else f"{array.dtype} {tuple(array.shape)}"
                message = f"result {name}: expected {expected}, got {got}{'' if array is None else ' or another order'}"
                raise RunError(message, status="argument", tensor=name, expected=expected, got=got)
        self._check_overlap(method, writable, arrays)
        problem = session.run(writable)
        for result in results:
            if _is_torch(result):  # a backward pass that needs what was in it says so, as after torch's own operators
                _torch().autograd.graph.increment_version(result)
        if problem:
            raise RunError(**problem)

    def _check_overlap(self, method: str, results: Sequence[Any], inputs: Sequence[Any]) -> None:
        """A result is written while inputs are still read."""
        named = [(f"input {info.name}", array) for info, array in zip(self.inputs(method), inputs, strict=True)]
        if self._bytes is not None:  # which may be the caller's, who wrote them
            named.append(("the model", self._bytes))
        for info, array in zip(self.outputs(method), results, strict=True):
            for other, memory in named:
                if _overlap(array, memory):
                    expected, got = "memory of its own", f"memory that {other} has too"
                    message = f"result {info.name}: expected {expected}, got {got}. Copy one of them first"
                    raise RunError(message, status="argument", tensor=info.name, expected=expected, got=got)
            named.append((f"result {info.name}", array))

    def seed(self, seed: int) -> None:
        """Where the model's random operators (rand, dropout in training, …) start from, in this thread: the runs after it
        give the same numbers as those after the last `seed` with this number. A model starts with 0, in every thread, and
        each run gives other numbers than the one before it. torch draws others from the same seed."""
        words = "a whole number of 64 bits"
        self._local.seed = limits.whole("seed", seed, -(2**63), 2**64 - 1, words) % 2**64
        for session in self._sessions().values():
            session.seed(self._local.seed)
        if self._script:
            self._script.seed(self._local.seed)

    def prepare(self, *args: Any, method: str = "forward", **kwargs: Any) -> None:
        """Plans a method for the shapes of these arguments without running it: a warm-up, and `arena_bytes` is known."""
        leaves = containers.flatten(self._input_spec(method), args, kwargs)
        running = self._begin(method)
        try:
            arrays = self._given(method, leaves)
            self._bind(method, leaves, arrays).set_inputs([])  # lets go of them
        finally:
            running.discard(method)

    def profile(self, *args: Any, runs: int = 10, method: str = "forward", **kwargs: Any) -> list[StepTime]:
        """Runs a method a few times and says how long each kernel took, the median, in order of execution. Each run of a model that keeps
        state starts from a reset, and so does what follows."""
        runs = limits.whole("runs", runs, 0, _INT_MAX, "a number of runs")
        session = self._session(self._known(method))
        session.reset()
        self.run_method(method, *args, **kwargs)
        times = []
        try:
            for _ in range(runs):
                session.reset()
                session.set_profiling(True)  # counts from zero
                self.run_method(method, *args, **kwargs)
                times.append(session.step_nanoseconds())
        finally:
            session.set_profiling(False)
            session.reset()
        steps = session.steps()
        seconds = 1e-9 * np.median(times, axis=0) if runs else np.zeros(len(steps))
        return [step_time(float(taken), *step) for taken, step in zip(seconds, steps, strict=True)]

    def save(self, path: str | os.PathLike[str] | IO[bytes]) -> int:
        """Writes the .pen file, to a path or a file opened for writing, and returns its size in bytes. At a path, the old file
        stays until the new one is whole."""
        from penlight.paths import replace_file, write_all

        data = self._image()
        if isinstance(path, (str, os.PathLike)):
            return replace_file(path, lambda out: out.write(data.data))
        if not hasattr(path, "write"):
            raise TypeError(f"expected a path or a file opened for writing in binary, got {type(path).__name__}")
        return write_all(path, data.data.toreadonly())

    def to_bytes(self) -> bytes:
        """What `save` would write."""
        return self._image().tobytes()

    def with_metadata(self, metadata: Mapping[str, Any]) -> Model:
        """The same model with these entries in its metadata, beside those that it has or in their place."""
        told.check_given(metadata)
        return self._again(with_metadata(self._image(), {**self.metadata, **metadata}))

    def on(self, device: str) -> Model:
        """The same model on another device, with the state that the file says."""
        options = {**self._options, "threads": self._options["threads"] or None, "device": device_name(device)}
        made = Model(self._image(), **options, max_steps=self._max_steps)
        made.path = self.path
        return made

    def _image(self) -> np.ndarray:
        """The file as it was opened, read-only: another one may be at its path by now."""
        return self._bytes if self._bytes is not None else self._handle.image()  # type: ignore[no-any-return]

    def _again(self, source: Any) -> Model:
        options = {**self._options, "threads": self._options["threads"] or None}
        return Model(source, **options, max_steps=self._max_steps)

    # A copy has the options, and the state that the file says.
    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return self._again(self._image())

    __copy__ = functools.partialmethod(__deepcopy__, {})

    def __reduce__(self) -> tuple[Any, ...]:
        options = {**self._options, "threads": self._options["threads"] or None, "max_steps": self._max_steps}
        return functools.partial(Model, **options), (self.to_bytes(),)

    def _input_spec(self, method: str) -> Any:
        if method not in self._specs:
            spec = json.loads(self._handle.input_spec(self._known(method)))
            self._specs[method] = {"kwargs": {}, "names": [], **spec}
        return self._specs[method]

    def _caller(self, method: str) -> Callable[..., Any]:
        if method not in self._methods:
            self._known(method)
            text = self._handle.output_spec(method)
            input_spec, output_spec = self._input_spec(method), json.loads(text)
            gives_sizes = '"dim"' in text  # rare; a dict with such a key costs a little time, no more

            def call(*args: Any, **kwargs: Any) -> Any:
                leaves = containers.flatten(input_spec, args, kwargs)
                running = self._begin(method)
                try:
                    results = self._run(method, leaves)
                finally:
                    running.discard(method)
                sizes = {}
                if gives_sizes:
                    sizes = {f"in{i}_{d}": n for i, leaf in enumerate(leaves) for d, n in enumerate(np.shape(leaf))}
                try:
                    return containers.unflatten(output_spec, results, sizes)
                except (
                    ZeroDivisionError,
                    OverflowError,
                    ValueError,
                ) as e:  # sizes that do not follow from these, an item of several
                    raise RunError(f"the results of {method} cannot be put together as the file says: {e}") from None

            self._methods[method] = call
        return self._methods[method]

    def _begin(self, method: str) -> set[str]:
        """From setting inputs until results are read, the session is one call's: a finalizer or a signal's handler may run anywhere in
        between, and what it set would be read in place of the inputs, when it is gone. The set, to take the method out of when done."""
        running: set[str] = self._local.__dict__.setdefault("running", set())
        if method in running:
            raise RunError(
                "a run: expected the one before it to be over, got a call from inside of it, by a finalizer or a signal's handler."
                " Use another Model there",
                status="argument",
            )
        running.add(method)
        return running

    def _bind(self, method: str, leaves: Sequence[Any], arrays: Sequence[Any]) -> Any:
        """The session with these inputs set and a plan for them. It knows addresses only: the caller keeps the arrays
        until the run is over (a numpy scalar becomes an array that nobody else holds)."""
        session = self._session(method)
        try:
            problem = session.set_inputs(arrays) or session.prepare()
        except TypeError:
            raise _unusable(leaves, self.inputs(method)) from None
        if problem:
            raise RunError(**_with_cast(problem, leaves, arrays, self.inputs(method)))
        return session

    def _given(self, method: str, leaves: Sequence[Any]) -> list[Any]:
        """What the session is given: arrays, and buffers on its device. What comes from another device is counted."""
        session, given, moved = self._session(method), [], []
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                given.append(_as_array(leaf))
            elif leaf.buffer is not None and session.takes(leaf.buffer):
                given.append(leaf.buffer)
            else:
                moved += [nbytes(leaf)] if leaf.buffer is not None else []
                given.append(leaf.numpy())
        self._local.__dict__.setdefault("moved", {})[method] = moved
        return given

    def _run_tensors(self, method: str, leaves: Sequence[Any]) -> list[Any]:
        """With penlight.Tensors among the inputs, results are such too, on the model's device: what lies there is used in place. A tensor
        of another device comes by way of the host."""
        session, given = self._session(method), self._given(method, leaves)
        kind = next(type(leaf) for leaf in leaves if isinstance(leaf, Tensor))
        self._bind(method, leaves, given)
        shapes = session.output_shapes()
        if self.device == "cpu" or not all(fixed for *_, fixed in shapes):
            return [kind.of_array(result, self.device) for result in self._run_bound(session, _empty_numpy, False)]
        buffers = [result_buffer(session, self.device, _NAMES[code], shape) for code, shape, _ in shapes]
        problem = session.run(buffers)
        if problem:
            raise RunError(**problem)
        return [
            kind.of_buffer(buffer, self.device, _NAMES[code], shape)
            for buffer, (code, shape, _) in zip(buffers, shapes, strict=True)
        ]

    def _run(self, method: str, leaves: Sequence[Any]) -> list[Any]:
        if any(isinstance(leaf, Tensor) for leaf in leaves):
            return self._run_tensors(method, leaves)
        if "moved" in self._local.__dict__:
            self._local.moved.pop(method, None)
        arrays = [_as_array(leaf) for leaf in leaves]
        session = self._bind(method, leaves, arrays)
        as_torch = any(_is_torch(leaf) for leaf in leaves)
        formats = self._input_spec(method).get("channels_last") if as_torch else None
        results = self._run_bound(session, _empty_torch if as_torch else _empty_numpy, as_torch)
        for index in formats[any(map(_is_channels_last, leaves))] if formats else ():
            results[index] = results[index].contiguous(memory_format=_torch().channels_last)
        return results

    def _run_bound(self, session: Any, make: Callable[[str, tuple[int, ...]], Any], as_torch: bool) -> list[Any]:
        """Runs a session that has its inputs; `make` gives room for a result."""
        results = [make(_NAMES[code], shape) if fixed else None for code, shape, fixed in session.output_shapes()]
        problem = session.run([None if result is None else _as_array(result) for result in results])
        if problem:
            raise RunError(**problem)
        for index, result in enumerate(results):
            if result is not None:
                continue
            code, shape, _ = session.output_shapes()[index]  # now its size is known
            taken = session.take_output(index)
            if taken is None:
                results[index] = make(_NAMES[code], shape)
                session.read_output(index, _as_array(results[index]))
            else:
                results[index] = _torch().from_numpy(taken) if as_torch else taken
        return results

    def _sessions(self) -> dict[str, Any]:
        """This thread's, by method."""
        try:
            return self._local.sessions  # type: ignore[no-any-return]
        except AttributeError:
            self._local.sessions = {}
            return self._local.sessions

    def _session(self, method: str) -> Any:
        sessions = self._sessions()
        if method not in sessions:
            from penlight import _runtime

            session = _runtime.Session()
            problem = session.create(self._handle, method, **self._options)
            if problem:
                raise RunError(**problem)
            session.seed(getattr(self._local, "seed", 0))
            if self._trace is not None:
                session.set_trace(self._trace)
            sessions[method] = session
        return sessions[method]

    def _known(self, method: str) -> str:
        if self._script is not None and method in self._script.signatures:
            raise AttributeError(f"method {method!r} is interpreted: it has no fixed inputs, outputs or plan")
        if method not in self._handle.methods:
            raise AttributeError(printable(f"this model has no method {method!r}; it has {', '.join(self.methods)}"))
        return method

    def __repr__(self) -> str:
        where = str(self.path) if self.path else "in memory"
        return printable(f"<penlight.Model {self.metadata.get('name', '')!r} {where}: {', '.join(self.methods)}>")


def _check_device(device: str) -> None:
    """A device that no library has is a mistake of the caller, one that this library lacks is a matter of how it was built."""
    from penlight import _runtime

    if not isinstance(device, str):
        raise InputError(
            f"device: expected a name, one of {', '.join(_runtime.backends())}, got {type(device).__name__}"
        )
    name = device.partition(":")[0]
    if (
        name in _runtime.backends() and device.isprintable()
    ):  # no NUL, and no half of a letter, which no driver's name has
        return
    if name not in ("vulkan",) or not device.isprintable():
        raise ArgumentError(f"device: expected one of {', '.join(_runtime.backends())}, got {device!r}")
    problem = _runtime.without_vulkan()
    raise LoadError(problem["message"] if problem else f"device: this library lacks {name}", "kernel")


def _best_isa() -> str:
    from penlight import _runtime

    return _runtime.isas()[0]


def _info(name: str, code: int, dims: list[int], least: list[int], most: list[int | None]) -> TensorInfo:
    shape = tuple(None if d < 0 else d for d in dims)
    return TensorInfo(name, _NAMES[code], shape, tuple(zip(least, most, strict=True)))


def step_time(seconds: float, key: str, output: str, source: str, inputs: list[Any], outputs: list[Any]) -> StepTime:
    """From what the runtime tells of a step; of each operand its shape, bytes, and whether it is copied first."""
    from penlight.ops import registry

    given = [operand for operand in inputs if operand is not None]
    shapes = tuple(operand and operand[0] for operand in inputs)
    shape = outputs[0][0]
    work = registry.get(key.partition(".")[0]).work
    return StepTime(
        key, output, source, seconds, shapes, shape,
        bytes=sum(size for _, size, _ in [*given, *outputs]),
        multiply_adds=work(shapes, shape) if work else 0,
        copied=sum(copied for *_, copied in given),
    )  # fmt: skip


def _plain_bytes(source: Any) -> np.ndarray:
    """Of a file in memory."""
    try:
        view = memoryview(source)
    except ValueError:  # numpy's times show no memory, and a view that was released has none
        raise InputError(f"expected the bytes of a file, got a {type(source).__name__} that shows none") from None
    if "O" in view.format:
        raise InputError("expected the bytes of a file, got an array of objects")
    if not view.c_contiguous:
        raise InputError(f"expected the bytes of a file in one piece, got a {type(source).__name__} with gaps")
    return np.frombuffer(source, np.uint8)


def _aligned(data: np.ndarray) -> np.ndarray:
    """The same bytes at a 64-byte boundary, so that the runtime need not copy them."""
    if data.ctypes.data % 64 == 0:
        return data
    room = np.empty(data.size + 64, np.uint8)
    start = -room.ctypes.data % 64
    room[start : start + data.size] = data
    return room[start : start + data.size]


_torch_types: dict[type, bool] = {}  # answers so far


def _is_torch(value: Any) -> bool:
    """Without importing torch; also a subclass of Tensor from elsewhere (torchvision.tv_tensors.Image)."""
    kind = type(value)
    if kind not in _torch_types:
        _torch_types[kind] = any(base.__module__.partition(".")[0] == "torch" for base in kind.__mro__)
    return _torch_types[kind]


def _is_channels_last(leaf: Any) -> bool:
    """A tensor of rank 4 with its channels innermost, and not row-major at the same time."""
    if not _is_torch(leaf) or leaf.dim() != 4 or leaf.is_contiguous():
        return False
    return bool(leaf.is_contiguous(memory_format=_torch().channels_last))


def _as_array(leaf: Any) -> Any:
    """What the runtime reads or writes in place. A torch tensor's memory is shown by numpy, which takes a tenth of the time
    that DLPack does; what numpy cannot show (bf16, another device, sparse) stays a tensor, for DLPack to take or refuse."""
    if _is_torch(leaf):
        leaf = leaf.detach() if leaf.requires_grad else leaf
        leaf = (
            leaf.resolve_neg() if leaf.is_neg() else leaf
        )  # what torch.imag of a conjugate is: numbers with the other sign
        try:
            array = leaf.numpy()
            return array if leaf.data_ptr() or not leaf.numel() else leaf  # of no memory, numpy shows some of its own
        except (TypeError, RuntimeError):
            return leaf
    array = leaf if type(leaf) is np.ndarray else plain_array(leaf)
    return (
        array.copy() if any(s < 0 or s % max(array.itemsize, 1) for s in array.strides) else array
    )  # x[::-1], x["field"]


def _as_writable(result: Any) -> Any:
    """Where a result goes: the caller's own memory, never a copy, in which it would be lost. None: there is none that may be written."""
    if not _is_torch(result):
        plain = isinstance(result, np.ndarray) and not isinstance(result, np.ma.MaskedArray)
        return np.asarray(result) if plain else None
    if result.requires_grad or result.is_neg():
        return None
    array, lies = _as_array(result), _address(result)
    if isinstance(array, np.ndarray) and array.size and array.ctypes.data != lies:
        return None
    return None if lies is None else array


def _address(tensor: Any) -> int | None:
    """Where a torch tensor's elements lie; None: nowhere that a program could write."""
    if tensor.device.type != "cpu" or tensor.layout != _torch().strided or tensor.is_nested:
        return None
    try:
        return tensor.data_ptr() or (None if tensor.numel() else 0)  # type: ignore[no-any-return]
    except RuntimeError:  # stand-ins for tensors have none
        return None


def _unwritable(result: Any) -> str:
    """What `_as_writable` found no memory in."""
    if _is_torch(result):
        if result.requires_grad:
            return "a tensor that requires grad: give its .detach()"
        return f"a {result.layout} tensor on {result.device} without memory of its own that can be written"
    return (
        "an array with a mask: give its .data"
        if isinstance(result, np.ma.MaskedArray)
        else f"a {type(result).__name__}"
    )


def _overlap(a: Any, b: Any) -> bool:
    """Whether two arrays, or tensors that numpy cannot show, have memory in common."""
    a, b = (x if isinstance(x, np.ndarray) else _bytes_of(x) for x in (a, b))
    if a is None or b is None or not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _bytes_of(tensor: Any) -> np.ndarray | None:
    """Of a torch tensor of bf16; None: it lies on another device."""
    return tensor.view(_torch().int16).numpy() if _is_torch(tensor) and tensor.device.type == "cpu" else None  # type: ignore[no-any-return]


def _fits(array: Any, dtype: str, shape: tuple[int, ...]) -> bool:
    """Whether results of this dtype and shape can be written into it."""
    wanted = _dtype_of(array, dtype)
    if array is None:
        return False
    if not isinstance(array, np.ndarray):  # a torch tensor that numpy cannot show
        return array.is_contiguous() and str(array.dtype) == f"torch.{wanted}" and tuple(array.shape) == shape  # type: ignore[no-any-return]
    flags = array.flags
    return array.dtype == wanted and array.shape == shape and flags.c_contiguous and flags.writeable


def _dtype_of(array: Any, name: str) -> str:
    """What numpy or, of a tensor that numpy cannot show, torch calls a dtype."""
    return DTYPES[name][1] if isinstance(array, np.ndarray) or name != "bf16" else "bfloat16"


def _empty_numpy(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.empty(shape, DTYPES[dtype][1])


def _empty_torch(dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    if _torch()._C._is_tracing():  # all that a trace would see of the run is memory that nobody wrote
        raise RunError(
            "a run: expected torch to compute nothing else, got a call that torch.jit.trace records: it would be lost in the trace",
            status="argument",
        )
    return _torch().empty(shape, dtype=_torch_dtype(dtype), device="cpu")  # type: ignore[no-any-return]  # whatever the default


@functools.cache
def _torch() -> Any:
    import torch

    return torch


@functools.cache
def _torch_dtype(name: str) -> Any:
    return getattr(_torch(), {"bf16": "bfloat16"}.get(name, DTYPES[name][1]))


def _with_cast(
    problem: dict[str, Any], leaves: Sequence[Any], arrays: Sequence[Any], inputs: Sequence[TensorInfo]
) -> dict[str, Any]:
    """The error of a wrong dtype, with the call that mends it."""
    for leaf, array, info in zip(leaves, arrays, inputs, strict=True):
        if isinstance(leaf, Tensor):
            continue
        wanted, got = DTYPES[info.dtype][1], str(array.dtype).removeprefix("torch.")
        if info.name in problem["tensor"] and got != wanted and info.dtype != "bf16":
            cast = f".to(torch.{wanted})" if _is_torch(leaf) else f".astype('{wanted}')"
            return {**problem, "message": f"{problem['message']}. Cast it: {cast}"}
    return problem


def _unusable(leaves: Sequence[Any], inputs: Sequence[TensorInfo]) -> RunError:
    """Which leaf the runtime could not read, in words."""
    for leaf, info in zip(leaves, inputs, strict=True):
        kind = f"{type(leaf).__module__}.{type(leaf).__name__}"
        if _is_torch(leaf) and leaf.device.type != "cpu":
            kind = f"a tensor on {leaf.device}; move it with .cpu()"
        elif _is_torch(leaf) and leaf.is_nested:
            kind = "a nested tensor; make it dense with .to_padded_tensor(0)"
        elif _is_torch(leaf) and leaf.is_quantized:
            kind = "a quantized tensor; make it real with .dequantize()"
        elif _is_torch(leaf) and leaf.layout.__repr__() != "torch.strided":
            kind = f"a {leaf.layout} tensor; make it dense with .to_dense()"
        elif isinstance(leaf, np.ndarray) and (leaf.dtype.byteorder == ">" or leaf.dtype.kind not in "fiub"):
            kind = f"an array of {leaf.dtype}"
        elif _is_torch(leaf) or isinstance(leaf, np.ndarray):
            continue
        return RunError(
            f"input {info.name}: expected {info.dtype} data on the CPU, got {kind}",
            status="input",
            tensor=info.name,
            got=kind,
        )
    return RunError("an input could not be read: expected torch tensors or numpy arrays on the CPU", status="input")
