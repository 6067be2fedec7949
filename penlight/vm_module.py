"""Interpreted methods in Python: values on their way to the VM and back, over the compiled extension.

Tensors are not copied: an in-place operator of the model writes into the caller's tensor, as in torch, and a result shares memory
with what it is a view of. Torch in gives torch out, numpy gives numpy.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from penlight.errors import InputError, OutOfMemoryError, PlanWarning, RunError
from penlight.file import told
from penlight.ir.containers import _namedtuple, settled
from penlight.ir.script import Bundle
from penlight.ir.types import DTYPES
from penlight.tensor import Tensor, plain_array

_CODES = {name: code for name, (code, _) in DTYPES.items()}
_BF16 = _CODES["bf16"]


@dataclass(frozen=True)
class PlannedPart:
    """A part of interpreted code that was planned beforehand, and how it fared so far. `unfit`: interpreted since a tensor had another
    kind or size than it was planned for; `failed`: since no plan could be made, for lack of memory or by a bug. Reasons are those of
    the first time."""

    name: str
    source: str
    taken: int
    unfit: int
    failed: int
    unfit_reason: str
    failed_reason: str


_modules: weakref.WeakSet[VmModule] = weakref.WeakSet()
_left_behind: list[
    Any
] = []  # modules that were running when the process forked: they can neither be used nor taken down


def _create(options: tuple[Any, ...]) -> Any:
    from penlight import _runtime

    module = _runtime.Module()
    problem = module.create(*options)
    if problem:
        raise RunError(**problem)
    return module


def _after_fork() -> None:
    for module in list(_modules):
        module.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class VmModule:
    """The module behind a model's interpreted methods. One caller at a time: others wait."""

    def __init__(
        self, model: Any, threads: int, memory_limit: int, max_steps: int, isa: str | None, device: str, f16: bool
    ) -> None:
        self.signatures: dict[str, list[dict[str, Any]]] = {}  # by method, its arguments: name, type, optional
        for name, schema, defaults in model.functions:
            self.signatures[name] = told.arguments(name, schema, defaults)
        self._options = (model, threads, memory_limit, max_steps, isa, device, f16)
        self._module = _create(self._options)
        self._device = device
        self._lock = threading.RLock()
        self._runs = 0
        self._failed: set[str] = set()  # planned parts that were told of
        _modules.add(self)

    def after_fork(self) -> None:
        """In the child: a thread that was running the module is not there to end its run. The module is left as it is, and a new one takes
        its place, with the state that the file says."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return
        _left_behind.append(self._module)
        self._lock = threading.RLock()
        self._module = _create(self._options)

    def run(self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        given = [settled(a) for a in self._positional(method, list(args), kwargs)]
        as_torch = _any_torch(given) or ("torch" in sys.modules and not _any_array(given))
        with self._lock:
            try:
                problem, result = self._module.run(method, [to_vm(a) for a in given])
            except TypeError as e:
                raise InputError(str(e)) from None
            except ValueError as e:  # of results: deeper than Python takes
                raise RunError(f"{method}: {e}", status="run") from None
            except MemoryError:
                raise OutOfMemoryError(
                    f"{method}: no memory for what it gives, or none within the limit", status="memory"
                ) from None
        self._tell_of_failed_parts()
        if problem:
            raise RunError(**problem)
        if kind := _tensor_kind(given):  # results are such too, where the model runs
            return from_vm(result, lambda value: kind.of_array(_to_numpy(value), self._device))
        return from_vm(result, _to_torch if as_torch else _to_numpy)

    def _tell_of_failed_parts(self) -> None:
        """A plan that cannot be made is slow, and a mistake or a lack of memory: said once for each. (Looked for in the first runs,
        and now and then: it takes microseconds.)"""
        self._runs += 1
        if self._runs > 8 and self._runs % 64:
            return
        for part in self.planned_parts:
            if part.failed and part.name not in self._failed:
                self._failed.add(part.name)
                text = f"planned part {part.name} is interpreted: {part.failed_reason} (at {part.source})"
                warnings.warn(PlanWarning(text), stacklevel=4)

    def _positional(self, method: str, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        parameters = self.signatures[method]
        names = [p["name"] for p in parameters]
        takes = ", ".join(f"{p['name']}: {p['type']}{' = …' if p['optional'] else ''}" for p in parameters)
        unknown = [k for k in kwargs if k not in names[len(args) :]]
        if unknown:
            what = "is given twice" if unknown[0] in names else "is unknown"
            raise InputError(f"argument {unknown[0]!r} {what}; {method} takes ({takes})")
        if len(args) > len(names):
            raise InputError(f"{method} takes ({takes}); got {len(args)} positional arguments")
        missing = [p["name"] for p in parameters[len(args) :] if not p["optional"] and p["name"] not in kwargs]
        if missing:
            raise InputError(f"argument {missing[0]!r} is missing; {method} takes ({takes})")
        for name in names[len(args) :]:
            if name not in kwargs:
                break
            args.append(kwargs[name])
        left = [n for n in kwargs if names.index(n) >= len(args)]
        if left:  # defaults are the runtime's, and of the last arguments only
            raise InputError(
                f"argument {left[0]!r} comes after {names[len(args)]!r}: pass that too; {method} takes ({takes})"
            )
        return args

    def reset(self) -> None:
        with self._lock:
            problem = self._module.reset()
        if problem:
            raise RunError(**problem)

    def set_trace(self, trace: Any) -> None:
        with self._lock:
            problem = self._module.set_trace(trace)
        if problem:
            raise RunError(**problem)

    def seed(self, seed: int) -> None:
        with self._lock:
            self._module.seed(seed)

    def device_report(self) -> dict[str, Any]:
        """Of the planned parts that the last run came by."""
        with self._lock:
            return self._module.device_report()

    @property
    def planned_parts(self) -> list[PlannedPart]:
        with self._lock:
            return [PlannedPart(*part) for part in self._module.planned_parts]


def bundled(model: Any, method: str, as_torch: bool = False) -> list[Bundle]:
    made = []
    tensor = _to_torch if as_torch else _to_numpy
    try:
        found = model.bundles()
    except (ValueError, TypeError) as e:
        raise RunError(f"the bundled inputs cannot be read: {e}", status="run") from None
    except MemoryError:
        raise OutOfMemoryError("no memory for the bundled inputs", status="memory") from None
    for name, info, args, outputs, has_outputs, absolute, relative in found:
        if name == method:
            values = from_vm(args, tensor), from_vm(outputs, tensor)
            made.append(Bundle(name, *values, has_outputs, info, absolute, relative))
    return made


def _any_torch(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_any_torch(v) for v in value)
    if isinstance(value, Mapping):
        return any(_any_torch(v) for v in value.values())
    return hasattr(value, "detach") and hasattr(value, "data_ptr")


def _tensor_kind(value: Any) -> type[Tensor] | None:
    """Of the first penlight.Tensor in it."""
    if isinstance(value, Tensor):
        return type(value)
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return next(filter(None, map(_tensor_kind, parts)), None)


def _any_array(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_any_array(v) for v in value)
    if isinstance(value, Mapping):
        return any(_any_array(v) for v in value.values())
    return isinstance(value, (np.ndarray, np.generic, Tensor))


def to_vm(value: Any) -> Any:
    """A value as the extension takes it."""
    if isinstance(value, (list, tuple)):
        made = [to_vm(v) for v in value]
        return made if isinstance(value, list) else tuple(made)
    if isinstance(value, Mapping):
        return {k: to_vm(v) for k, v in value.items()}
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, Tensor):  # VM code is the CPU's: it takes what lies on a device by way of the host
        never_changes = value.numpy().view()
        never_changes.flags.writeable = False
        return never_changes
    if isinstance(value, np.ndarray):
        value = plain_array(value)
        if value.dtype.kind not in "fiub" or not value.dtype.isnative:
            raise InputError(
                f"an argument: expected an array of numbers as this machine has them, got one of {value.dtype}"
            )
        if any(s % value.itemsize for s in value.strides):
            raise InputError(
                "an argument: expected an array whose elements are whole elements apart, got a field of a structured one. Copy it first"
            )
        return value.copy() if any(s < 0 for s in value.strides) else value  # a view that runs backwards: x[::-1]
    if hasattr(value, "detach") and hasattr(value, "data_ptr"):
        return _tensor_to_vm(value.detach().resolve_neg())  # a negative bit is no memory's: that is a copy
    if type(value).__module__ == "torch":  # a dtype, a device …
        return _constant_to_vm(value)
    return value


def _tensor_to_vm(t: Any) -> Any:
    import torch

    from penlight import _runtime

    if t.device.type != "cpu" or t.layout != torch.strided or t.is_nested:
        kind = "a nested" if t.is_nested else f"a {t.layout}"
        raise InputError(f"an argument: expected a dense tensor on the CPU, got {kind} tensor on {t.device}")
    if t.is_quantized:
        stored = t.int_repr()
        code = _CODES[{torch.uint8: "u8", torch.int8: "i8", torch.int32: "i32"}[stored.dtype]]
        if t.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            return _runtime.TensorValue(stored, code, -1, [t.q_scale()], [t.q_zero_point()])
        scales, zeros = t.q_per_channel_scales().tolist(), [int(z) for z in t.q_per_channel_zero_points().tolist()]
        return _runtime.TensorValue(stored, code, t.q_per_channel_axis(), scales, zeros)
    if t.dtype == torch.bfloat16:
        return _runtime.TensorValue(t.view(torch.int16), _BF16)
    return t


def _constant_to_vm(value: Any) -> Any:
    import torch

    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.dtype):
        return _dtype_number(value)
    raise TypeError(f"{value!r} cannot be passed to an interpreted method")


def _dtype_number(dtype: Any) -> int:
    """torch's own number of a dtype, which TorchScript code computes with."""
    import torch

    order = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
             torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32, torch.bfloat16]  # fmt: skip
    return order.index(dtype)


def from_vm(value: Any, tensor: Callable[[Any], Any]) -> Any:
    """A value that the extension gave: `tensor` makes arrays or tensors of its TensorValues."""
    from penlight import _runtime

    if isinstance(value, _runtime.TensorValue):
        return tensor(value)
    if isinstance(value, list):
        return [from_vm(v, tensor) for v in value]
    if isinstance(value, tuple):
        return tuple(from_vm(v, tensor) for v in value)
    if isinstance(value, dict):
        return {k: from_vm(v, tensor) for k, v in value.items()}
    if isinstance(value, _runtime.Fields):
        items = [from_vm(v, tensor) for v in value.items]
        try:
            if value.is_tuple and all(value.names):
                return _namedtuple(value.type.rpartition(".")[2], tuple(value.names))(*items)
            return tuple(items) if value.is_tuple else SimpleNamespace(**dict(zip(value.names, items, strict=True)))
        except ValueError as e:
            raise RunError(f"a result is of a class whose name, or a field's, is none: {e}", status="run") from None
    return value


def is_protocol(name: str) -> bool:
    """Whether Python or a notebook asks for it, not a person: a file's method `_repr_html_` would be run wherever a model is shown, and what it
    gives would be taken for a page. (`run_method` runs it.)"""
    return name.startswith("__") or (name.startswith("_") and name.endswith("_"))


def as_torch(value: Any) -> Any:
    """With torch tensors for numpy arrays: what PyTorch's functions give, also where no tensor went in."""
    import torch

    if isinstance(value, np.ndarray):
        return torch.from_numpy(value if value.flags.writeable else value.copy())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(as_torch(v) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(as_torch(v) for v in value)
    if isinstance(value, dict):
        return {k: as_torch(v) for k, v in value.items()}
    return value


def _to_numpy(value: Any) -> Any:
    """Quantized tensors come as real numbers: numpy has none of these."""
    if value.axis == -2:
        return value.array
    real = value.array.astype(np.float32)
    if value.axis == -1:
        return (real - np.float32(value.zero_points[0])) * np.float32(value.scales[0])
    shape = [-1 if d == value.axis else 1 for d in range(real.ndim)]
    zeros, scales = np.float32(value.zero_points).reshape(shape), np.float32(value.scales).reshape(shape)
    return (real - zeros) * scales


def _to_torch(value: Any) -> Any:
    import torch

    array = value.array
    if not array.flags.writeable:  # a weight in the mapped file
        array = array.copy()
    made = torch.from_numpy(array.view(np.int16) if value.dtype == _BF16 else array)
    if value.dtype == _BF16:
        made = made.view(torch.bfloat16)
    if value.axis == -1:
        return torch._make_per_tensor_quantized_tensor(made, value.scales[0], value.zero_points[0])
    if value.axis >= 0:
        scales = torch.tensor(value.scales, dtype=torch.float64, device="cpu")  # whatever the default
        zeros = torch.tensor(value.zero_points, device="cpu")
        return torch._make_per_channel_quantized_tensor(made, scales, zeros, value.axis)
    return made
