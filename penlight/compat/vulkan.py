"""torch's Vulkan tensors on Penlight: `x.to(device="vulkan")` and `x.vulkan()` give a VulkanTensor, which loaded modules take, `.cpu()` brings
back, and torch's own functions (torch.relu, torch.nn.functional.conv2d, +, @ …) compute with on the device."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

import penlight
from penlight import functional
from penlight.tensor import Tensor

_torch_to = torch.Tensor.to


class DeviceName(str):
    """A device's name that can be asked like a torch.device."""

    @property
    def type(self) -> str:
        return self.partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override, unused-ignore]
        number = self.partition(":")[2]
        return int(number) if number.isdigit() else None


class VulkanTensor(Tensor):
    """A tensor on a Vulkan device. Where torch has a result on the CPU, this is a torch tensor."""

    is_vulkan = True
    requires_grad = False

    @property
    def device(self) -> DeviceName:
        return DeviceName(self._device)

    @device.setter
    def device(self, name: str) -> None:
        self._device = name

    @classmethod
    def of_array(cls, array: Any, device: str) -> Any:
        return torch.from_numpy(array) if device == "cpu" else cls(array, device)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        device = _device_in(args, kwargs)
        if device is None:
            raise NotImplementedError(
                f"to({', '.join(map(str, args))}): a Vulkan tensor changes its device only: .cpu() first"
            )
        return self.torch() if device == "cpu" else super().to(device)

    def cpu(self) -> torch.Tensor:
        return self.torch()

    def size(self, dim: int | None = None) -> Any:
        return torch.Size(self.shape) if dim is None else self.shape[dim]

    def dim(self) -> int:
        return len(self.shape)

    def __neg__(self) -> Any:
        return functional.call(operator.neg, self)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return functional.call(func, *args, **(kwargs or {}))


def _binary(name: str, function: Callable[..., Any]) -> None:
    def forward(self: Any, other: Any) -> Any:
        return functional.call(function, self, other)

    def backward(self: Any, other: Any) -> Any:
        return functional.call(function, other, self)

    setattr(VulkanTensor, f"__{name}__", forward)
    setattr(VulkanTensor, f"__r{name}__", backward)


for _name, _function in (
    ("add", operator.add), ("sub", operator.sub), ("mul", operator.mul), ("truediv", operator.truediv), ("matmul", operator.matmul),
    ("pow", operator.pow),
):  # fmt: skip
    _binary(_name, _function)


def is_vulkan_available() -> bool:
    """torch's name for penlight.is_vulkan_available()."""
    return penlight.is_vulkan_available()


def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """torch.Tensor.to, which also knows "vulkan", "vulkan:1"."""
    device = _device_in(args, kwargs)
    if device is None or not device.startswith("vulkan"):
        return _torch_to(self, *args, **kwargs)
    dtypes = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype)]
    return VulkanTensor(_torch_to(self, dtypes[0]) if dtypes else self, device)


def vulkan(self: torch.Tensor) -> VulkanTensor:
    """A copy on the Vulkan device."""
    return VulkanTensor(self, "vulkan")


def _device_in(args: Any, kwargs: Any) -> str | None:
    """The device that arguments of `to` name."""
    for value in (*args[:1], kwargs.get("device")):
        if isinstance(value, (str, torch.device)):
            return str(value).lower()
    return None
