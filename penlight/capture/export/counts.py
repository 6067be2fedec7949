"""Operators that take as many steps as a number says, wherever torch is about to call one for a program that may come from a file.

The number may be written in the program or computed by it, so each is looked at when it is there: by a mode, which torch asks before a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode

from penlight.capture.trust import check_count


class Counts(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if isinstance(func, OpOverload):
            check_count(func.name(), args, kwargs)
        elif isinstance(func, OpOverloadPacket):
            check_count(func._qualified_op_name, args, kwargs)
        return func(*args, **(kwargs or {}))
