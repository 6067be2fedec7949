"""Tensors that live on a device: what models on it take and give without a way through the host.

Memory on the device is the runtime's (pen_buffer in penlight.h); a tensor on the CPU is a numpy array.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.errors import InputError, RunError
from penlight.ir.types import DTYPES

if TYPE_CHECKING:
    import torch

    from penlight._runtime import Buffer

_NAMES = {numpy: name for name, (_, numpy) in DTYPES.items() if name != "bf16"}
# Buffers of results that are gone, by device, dtype and shape: a loop gets the same ones again, and its recordings with them.
_spare: OrderedDict[tuple[str, str, tuple[int, ...]], list[Buffer]] = OrderedDict()
_SPARE_KINDS, _SPARE_EACH, _SPARE_BYTES = 8, 2, 16 << 20


class Tensor:
    """A tensor on the CPU or on a device. Never changed once it is made.

    >>> t = penlight.Tensor(image).to("vulkan")      # numpy, torch, lists
    >>> y = penlight.load("mobilenet_v2.pen", device="vulkan")(t)
    >>> y.device, y.cpu().numpy().shape
    ('vulkan', (1, 1000))
    """

    def __init__(self, data: Any, device: str = "cpu") -> None:
        self._array: np.ndarray | None = None
        self._buffer: Buffer | None = None
        array = _host_array(data)
        self.dtype: str = _NAMES[str(array.dtype)]
        self.shape: tuple[int, ...] = array.shape
        self.device = device_name(device)
        if self.device == "cpu":
            self._array = array
            return
        self._buffer = new_buffer(self.device, self.dtype, self.shape)
        _check(self._buffer.upload(np.ascontiguousarray(array)))

    @classmethod
    def of_buffer(cls, buffer: Buffer, device: str, dtype: str, shape: tuple[int, ...]) -> Tensor:
        """On memory of the device that is there already."""
        made = cls.__new__(cls)
        made._array, made._buffer = None, buffer
        made.device, made.dtype, made.shape = device, dtype, shape
        return made

    @classmethod
    def of_array(cls, array: np.ndarray, device: str) -> Any:
        """Of a result that is on the CPU."""
        return cls(array, device)

    @property
    def buffer(self) -> Buffer | None:
        """Its memory on the device; None on the CPU."""
        return self._buffer

    @property
    def device_name(self) -> str:
        """What its driver calls the device; "cpu"."""
        return self._buffer.device_name if self._buffer is not None else "cpu"

    def to(self, device: str) -> Tensor:
        """The same tensor on this device: "cpu", "vulkan", "vulkan:1", "vulkan:nvidia"."""
        return self if device_name(device) == self.device else type(self)(self.numpy(), device)

    def vulkan(self) -> Tensor:
        return self.to("vulkan")

    def cpu(self) -> Any:
        return self.to("cpu")

    def numpy(self) -> np.ndarray:
        """Its numbers, on the CPU; of one that is there already, without a copy."""
        if self._buffer is None:
            assert self._array is not None
            return self._array
        array = np.empty(self.shape, DTYPES[self.dtype][1])
        _check(self._buffer.download(array))
        return array

    def torch(self) -> torch.Tensor:
        import torch

        return torch.from_numpy(self.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False and self._buffer is not None:
            raise ValueError(f"a tensor on {self.device} comes to the host as a copy")
        return np.array(self.numpy(), dtype, copy=copy if self._buffer is None else None)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<penlight.Tensor {self.dtype}[{', '.join(map(str, self.shape))}] on {self.device}>"

    # It never changes, and its memory is its own, which another tensor may have when it is gone: a copy is itself.
    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.numpy(), str(self.device))

    def __del__(self) -> None:
        buffer = self.__dict__.pop("_buffer", None)
        if buffer is None or nbytes(self) > _SPARE_BYTES:
            return
        key = (self.device, self.dtype, self.shape)
        if key not in _spare and len(_spare) >= _SPARE_KINDS:
            _spare.popitem(last=False)  # the oldest kind makes room
        kept = _spare.setdefault(key, [])
        if len(kept) < _SPARE_EACH:
            kept.append(buffer)


def device_name(device: Any) -> str:
    """As the runtime takes it."""
    if not isinstance(device, str) or not device.isprintable():
        got = repr(device) if isinstance(device, str) else type(device).__name__
        raise InputError(f"device: expected a name, such as cpu, vulkan or vulkan:1, got {got}")
    return device.lower()


def nbytes(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * np.dtype(DTYPES[tensor.dtype][1]).itemsize


def new_buffer(device: str, dtype: str, shape: tuple[int, ...]) -> Buffer:
    from penlight import _runtime

    made = _runtime.Buffer()
    _check(made.create(device, DTYPES[dtype][0], list(shape)))
    return made


def result_buffer(session: Any, device: str, dtype: str, shape: tuple[int, ...]) -> Buffer:
    """For a result of this session: one that an earlier result had, or a new one."""
    kept = _spare.get((device, dtype, shape))
    while kept:
        try:
            buffer = kept.pop()
        except IndexError:  # another thread had the last
            break
        if session.takes(buffer):  # else of a device that was lost since, or of another choice of it
            return buffer
    return new_buffer(device, dtype, shape)


def plain_array(data: Any) -> np.ndarray:
    """What numpy makes of it, and no subclass, which might show other memory than its own. Of a masked array numpy would take what is under
    the mask."""
    if isinstance(data, np.ma.MaskedArray) and np.ma.is_masked(data):
        raise InputError(
            "an input: expected an array, got one with a mask over some of it. Fill that first: .filled(value)"
        )
    return np.asarray(data)


def _host_array(data: Any) -> np.ndarray:
    if isinstance(data, Tensor):
        return data.numpy()
    if hasattr(data, "detach"):
        data = data.detach().cpu().resolve_neg()
        if str(data.dtype) == "torch.bfloat16":
            raise InputError("Tensor: expected a dtype that numpy has, got bfloat16; cast it: .float()")
        data = data.numpy()
    array = plain_array(data)
    if str(array.dtype) not in _NAMES:
        raise InputError(f"Tensor: expected one of {', '.join(_NAMES)}, got {array.dtype}")
    return array


def _check(problem: dict[str, Any] | None) -> None:
    if problem:
        raise RunError(**problem)
