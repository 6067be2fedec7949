"""torch.utils.bundled_inputs, for ScriptModules and for what optimize_for_mobile gives back.

A ScriptModule goes to torch's own functions, which still work: they add attributes and methods to it. A compiled module takes
the inputs into its file, with the results that are expected for them.
"""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import bundled_inputs as original
from torch.utils.bundled_inputs import MAX_RAW_TENSOR_SIZE, InflatableArg, bundle_large_tensor, bundle_randn

from penlight.bundles import with_results
from penlight.capture.quiet import quiet
from penlight.compat.mobile_module import MobileModule
from penlight.compat.rewrite import clone

__all__ = [
    "MAX_RAW_TENSOR_SIZE", "InflatableArg", "augment_many_model_functions_with_bundled_inputs", "augment_model_with_bundled_inputs",
    "bundle_inputs", "bundle_large_tensor", "bundle_randn",
]  # fmt: skip

Inputs = Sequence[tuple[Any, ...]]
_originals = {  # as they were before install() put others in their places
    name: getattr(original, name)
    for name in (
        "bundle_inputs",
        "augment_model_with_bundled_inputs",
        "augment_many_model_functions_with_bundled_inputs",
    )
}


def bundle_inputs(
    model: Any,
    inputs: Inputs | dict[Callable[..., Any], Inputs | None] | None,
    info: list[str] | dict[Callable[..., Any], list[str]] | None = None,
    *,
    _receive_inflate_expr: list[str] | None = None,
) -> Any:
    """A copy of the model with these inputs. Others that it may have are dropped."""
    if not isinstance(model, MobileModule):
        return _originals["bundle_inputs"](model, inputs, info, _receive_inflate_expr=_receive_inflate_expr)
    if isinstance(inputs, dict):
        if info is not None and not isinstance(info, dict):
            raise AssertionError("If inputs is a dict, info must be a dict or None")
        given, told = inputs, info
    else:
        if info is not None and not isinstance(info, list):
            raise AssertionError("If inputs is a list, info must be a list or None")
        given, told = {model.forward: inputs}, {model.forward: info} if info else None
    copied = copy.copy(model)
    _bundle(copied, given, told, True, _receive_inflate_expr)
    return copied


def augment_model_with_bundled_inputs(
    model: Any,
    inputs: Inputs | None = None,
    _receive_inflate_expr: list[str] | None = None,
    info: list[str] | None = None,
    skip_size_check: bool = False,
) -> None:
    """Adds inputs of forward to the model itself."""
    if not isinstance(model, MobileModule):
        _take_own_type(model)
        _originals["augment_model_with_bundled_inputs"](model, inputs, _receive_inflate_expr, info, skip_size_check)
        return
    forward = model.forward
    augment_many_model_functions_with_bundled_inputs(
        model, {forward: inputs}, _receive_inflate_expr, {forward: info} if info else None, skip_size_check
    )


def augment_many_model_functions_with_bundled_inputs(
    model: Any,
    inputs: dict[Callable[..., Any], Inputs | None],
    _receive_inflate_expr: list[str] | None = None,
    info: dict[Callable[..., Any], list[str]] | None = None,
    skip_size_check: bool = False,
) -> None:
    """Adds inputs of several methods to the model itself."""
    if not isinstance(model, MobileModule):
        _take_own_type(model)
        many = _originals["augment_many_model_functions_with_bundled_inputs"]
        many(model, inputs, _receive_inflate_expr, info, skip_size_check)
        return
    if not inputs:
        raise Exception("Please provide inputs for at least 1 function")
    if model._bundles:
        raise Exception(
            "Models can only be augmented with bundled inputs once. This Model seems to have already been augmented with "
            "bundled inputs. Please start afresh with one that doesn't have bundled inputs."
        )
    _bundle(model, inputs, info, skip_size_check, _receive_inflate_expr)


def _take_own_type(model: Any) -> None:
    """torch defines the accessors in the module's type, which all modules scripted from one class share: the second of them
    could have no inputs of its own. A clone has a type of its own."""
    if isinstance(model, torch.jit.RecursiveScriptModule) and not hasattr(model, "get_all_bundled_inputs"):
        model._reconstruct(clone(model)._c)


def _bundle(
    model: MobileModule,
    inputs: Mapping[Callable[..., Any], Inputs | None],
    info: Mapping[Callable[..., Any], list[str]] | None,
    skip_size_check: bool,
    expressions: list[str] | None,
) -> None:
    values: dict[str, list[tuple[Any, ...]]] = {}
    for function, calls in inputs.items():
        name = function.__name__
        if calls is None or len(calls) == 0:
            raise Exception(
                f"inputs for {name} must be specified if _generate_bundled_inputs_for_{name} is not already defined"
            )
        if not isinstance(calls, Sequence):
            raise TypeError(f"Error inputs for function {name} is not a Sequence")
        values[name] = []
        for index, args in enumerate(calls):
            if not isinstance(args, (tuple, list)):
                raise TypeError(f"Error bundled input for function {name} idx: {index} is not a Tuple or a List")
            inflated = []
            for position, arg in enumerate(args):
                value, expression = _inflate(arg, f"deflated[{index}][{position}]", skip_size_check)
                inflated.append(value)
                if expressions is not None:
                    expressions.append(expression)
            values[name].append(tuple(inflated))
    told = {function.__name__: texts for function, texts in (info or {}).items()}  # each access makes another function
    model._bundle(with_results(model._script, values, told))


def _inflate(arg: Any, place: str, skip_size_check: bool) -> tuple[Any, str]:
    """The value that an argument stands for, and the expression that makes it. torch's own code does it, in a module of its own;
    tensors of any size are taken there, since they are in the file of a compiled model anyway."""
    if not isinstance(arg, InflatableArg):
        if not isinstance(arg, torch.Tensor):
            return arg, place
        deflated, expression, _ = original._inflate_expr(arg, place, "", skip_size_check=skip_size_check)
        return arg, expression
    deflated, expression, helper = original._inflate_expr(arg, "value", "inflate_helper")  # type: ignore[arg-type]
    with quiet():
        holder = clone(torch.jit.script(_Holder()))  # a clone has a type of its own to define methods in
    kind = torch._C._jit_try_infer_type(deflated).type().annotation_str  # type: ignore[attr-defined]
    if helper:
        holder.define(textwrap.dedent(helper))
    holder.define(f"def inflate(self, value: {kind}):\n    return {expression}\n")
    return holder.inflate(deflated), expression


class _Holder(torch.nn.Module):
    """Somewhere to define a method in."""

    def forward(self) -> int:
        return 0
