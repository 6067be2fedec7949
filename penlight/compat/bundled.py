"""PyTorch's accessors of bundled inputs, on what a compiled model's file carries (penlight/bundles.py puts it there)."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penlight.ir.script import Bundle
    from penlight.model import Model


@dataclass
class Bundles:
    """All bundled calls of a model, by method."""

    calls: dict[str, list[Bundle]] = field(default_factory=dict)

    @staticmethod
    def of(model: Model) -> Bundles:
        """Without torch, tensors come as numpy arrays."""
        as_torch = sys.modules.get("torch") is not None
        found = {name: model.bundled_inputs(name, as_torch) for name in model.methods}
        return Bundles({name: calls for name, calls in found.items() if calls})

    def __bool__(self) -> bool:
        return bool(self.calls)

    def inputs(self, method: str) -> list[tuple[Any, ...]]:
        """The arguments, as copies: a caller may write into them."""
        return [copy.deepcopy(call.args) for call in self.calls[method]]

    def functions_and_info(self) -> dict[str, dict[str, list[str]]]:
        return {
            name: {
                "get_inputs_function_name": [f"get_all_bundled_inputs_for_{name}"],
                "info": [call.info for call in calls] if any(call.info for call in calls) else [],
            }
            for name, calls in self.calls.items()
        }

    def method_names(self) -> list[str]:
        """PyTorch's accessors that these bundles answer to."""
        if not self:
            return []
        names = [
            "get_bundled_inputs_functions_and_info",
            *(f"get_all_bundled_inputs_for_{name}" for name in self.calls),
        ]
        if "forward" in self.calls:
            names += ["get_all_bundled_inputs", "get_num_bundled_inputs", "run_on_bundled_input"]
        return names

    def method(self, module: Any, name: str) -> Callable[..., Any] | None:
        """The accessor of this name, for a module with these bundles."""
        if name not in self.method_names():
            return None
        if name == "get_bundled_inputs_functions_and_info":
            return self.functions_and_info
        if name == "run_on_bundled_input":
            return lambda index: module.forward(*self.inputs("forward")[index])
        if name == "get_num_bundled_inputs":
            return lambda: len(self.calls["forward"])
        if name == "get_all_bundled_inputs":
            return functools.partial(self.inputs, "forward")
        return functools.partial(self.inputs, name.removeprefix("get_all_bundled_inputs_for_"))
