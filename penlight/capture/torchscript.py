"""TorchScript (torch.jit.script, torch.jit.trace, .pt files) → Program.

A ScriptModule is mirrored by a tree of plain nn.Modules with the same parameters under the same names, whose forward runs the
TorchScript graph in Python (interpreter.py). torch.export captures the mirror: symbolic shapes, in-place calls and types are
then the same work as for any module. The mirror is always in eval mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.fx.traceback
from torch import nn

from penlight.capture.export import nn_module as modules
from penlight.capture.interpreter import Interpreter
from penlight.capture.quiet import quiet
from penlight.capture.script import plan as interpreted
from penlight.capture.script.plan import not_tensors
from penlight.capture.script.torchscript import script_of
from penlight.errors import CaptureError, UnsupportedError
from penlight.ir.graph import Program
from penlight.ops.vm_operators import operators

_SCALARS = {"Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
            "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
            "Bool": torch.bool}  # fmt: skip


def capture_torchscript(
    script: torch.jit.ScriptModule | str | Path,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    methods: Sequence[str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Program:
    """Captures a ScriptModule, or a .pt file of one. Without `args`: those that the model was traced with or that are bundled
    with it. What cannot be planned as a whole is interpreted (interpreted.py)."""
    kept = ["forward"] if methods is None else list(methods)
    if isinstance(script, (str, Path)):
        try:
            with quiet():
                loaded: torch.jit.ScriptModule = torch.jit.load(str(script), map_location="cpu")
        except RuntimeError:  # this torch lacks a class or an operator that the file names: read it without torch
            from penlight.capture.source.read import read

            return interpreted.program_of(read(script, kept), args, kwargs, dynamic_shapes, say)
    else:
        loaded = script
    reason, refused = "", CaptureError()
    if args is None and not kwargs:
        args = own_inputs(loaded)
        reason = "" if args is not None else "it came without example inputs"
    args, keywords = modules.prepare_inputs(() if args is None else args, kwargs or {})
    if not reason:
        reason = f"it keeps {', '.join(kept)}" if kept != ["forward"] else not_tensors((*args, *keywords.values()))
    if not reason:
        mirror = mirror_of(loaded)
        try:
            with torch.fx.traceback.preserve_node_meta():  # keeps the annotations with source lines
                return modules.capture_shapes(mirror, args, keywords, dynamic_shapes, mirror._penlight[1].decided)
        except CaptureError as e:
            reason, refused = str(e), e
            if dynamic_shapes not in (None, "auto"):
                raise
    code = script_of(loaded, kept)
    missing = [name for name in code.operators if name not in operators()]
    if missing and isinstance(refused, UnsupportedError):  # which names them all, with their lines
        raise refused
    if missing:
        say(f"these operators are not there, a run that meets one will fail: {', '.join(missing)}")
    return interpreted.program_of(code, args or None, keywords, dynamic_shapes, say, reason)


class Mirror(nn.Module):
    """A ScriptModule's parameters, buffers and submodules, under their names; anything else is read from the original."""

    def __init__(self, script: Any, interpreter: Interpreter) -> None:
        super().__init__()
        self._penlight = (script, interpreter)  # in a tuple: not to be taken for a submodule
        self._cached: dict[str, Any] = {}
        tables: tuple[Any, ...] = (torch._C.ParameterDict(script), torch._C.BufferDict(script))
        for name, tensor in (item for table in tables for item in table.items()):
            self.register_buffer(name, tensor.detach())
        children: Any = torch._C.ModuleDict(script)
        for name, child in children.items():
            self.add_module(name, Mirror(child, interpreter))
        self.eval()

    def forward(self, *args: Any) -> Any:
        return self.run("forward", args)

    def run(self, method: str, args: Any) -> Any:
        return self._penlight[1].run(self._graph(method), [self, *args], method)

    def _graph(self, method: str) -> Any:
        key = f"graph of {method}"
        if key not in self._cached:  # each access makes another object
            self._cached[key] = self._penlight[0]._get_method(method).graph
        return self._cached[key]

    def script_attribute(self, name: str) -> Any:
        if name == "training":
            return False
        if name in self._buffers or name in self._modules:
            return getattr(self, name)  # while exporting, torch puts its own tensors there
        if name not in self._cached:
            self._cached[name] = self._penlight[0].getattr(name)
        return self._cached[name]


def mirror_of(script: torch.jit.ScriptModule) -> Mirror:
    """The mirror of a whole model; its forward has the parameters of the original's."""
    if not script._c._has_method("forward"):
        raise CaptureError("the TorchScript module has no forward method")

    def call_method(owner: Any, name: str, args: list[Any]) -> Any:
        if not isinstance(owner, Mirror):
            raise CaptureError(
                f"method {name!r} of a TorchScript class: not captured yet\n  {interpreter.frames.source()}"
            )
        return owner(*args) if name == "forward" else owner.run(name, args)

    interpreter = Interpreter(call_method)
    mirror = Mirror(script._c, interpreter)
    object.__setattr__(mirror, "forward", _with_signature(mirror, script._c._get_method("forward").schema))
    return mirror


def _with_signature(mirror: Mirror, schema: Any) -> Callable[..., Any]:
    """A function with the names and defaults of the schema's arguments: torch.export reads them for dynamic_shapes."""
    parameters, defaults = [], {}
    for i, a in enumerate(schema.arguments[1:]):
        name = a.name if a.name.isidentifier() else f"argument_{i}"
        if a.has_default_value():
            defaults[f"_default_{i}"] = a.default_value
            parameters.append((name, f"{name}=_default_{i}"))
        else:
            parameters.append((name, name))
    text = (
        f"def forward({', '.join(p for _, p in parameters)}):\n    return run({', '.join(n for n, _ in parameters)})\n"
    )
    scope: dict[str, Any] = {"run": lambda *args: _explained(mirror, args), **defaults}
    exec(text, scope)
    forward: Callable[..., Any] = scope["forward"]
    return forward


def _explained(mirror: Mirror, args: tuple[Any, ...]) -> Any:
    """Errors of operators say in which line of the TorchScript source they arose."""
    try:
        return mirror.run("forward", args)
    except CaptureError:
        raise
    except Exception as e:
        source = mirror._penlight[1].frames.source()
        if source and hasattr(e, "add_note"):
            e.add_note(f"in the TorchScript source: {source}")
        raise


def own_inputs(script: torch.jit.ScriptModule) -> tuple[Any, ...] | None:
    """Example inputs that the model carries: bundled ones, or tensors of the shapes that it was traced with; None if neither."""
    if script._c._has_method("get_all_bundled_inputs"):
        bundled = script.get_all_bundled_inputs()
        if bundled:
            return tuple(bundled[0])
    inputs: list[Any] = [v.type() for v in list(script.graph.inputs())[1:]]
    made = []
    for t in inputs:
        sizes = t.sizes() if t.kind() == "TensorType" else None
        if sizes is None or t.scalarType() not in _SCALARS:
            return None
        made.append(torch.zeros(sizes, dtype=_SCALARS[t.scalarType()]))
    return tuple(made) or None
