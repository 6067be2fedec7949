"""Runs a TorchScript graph in Python, so that torch.export can trace it like any other module.

Tensor operators are called as they are (torch.ops); everything else is Python on symbolic sizes (script_values.py). `if` and
`loop` are taken as the example inputs and symbolic shapes decide, calls of submodules go through nn.Module, and each
operator is annotated with its line of source.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import sympy
import torch
import torch.fx.traceback
from torch import nn

from penlight.capture.export.source_lines import ANNOTATION
from penlight.capture.script.operators import call_torch, plain_result
from penlight.capture.script.plain_values import PLAIN, dtype_code, is_number
from penlight.capture.script.source_lines import Frames
from penlight.errors import CaptureError

_annotate: Callable[[dict[str, str]], Any] = getattr(
    torch.fx.traceback, "annotate", nullcontext
)  # torch before 2.9: no lines
_PASSES_ON = {"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "prim::NumToTensor", "prim::ImplicitTensorToNum",
              "prim::data", "aten::_unwrap_optional", "aten::alias"}  # fmt: skip


class GradMode:
    """Stands for the object of `with torch.no_grad()`: nothing here has gradients."""


class Interpreter:
    """Executes graphs; one per capture. `call_method(module, name, args)` runs a method of a submodule."""

    def __init__(self, call_method: Callable[[Any, str, list[Any]], Any]) -> None:
        self._call_method = call_method
        self._functions: dict[int, Any] = {}
        self._constants: dict[tuple[int, int], Any] = {}
        self._scalars: dict[int, Any] = {}  # id of a rank-0 constant -> its number
        self._graphs: list[Any] = []  # keeps ids unique
        self.frames = Frames()
        self.decided: dict[str, str] = {}  # conditions on sizes -> the line that asks (guards.py)

    def run(self, graph: Any, args: list[Any], function: str) -> Any:
        """The graph's result for the arguments."""
        if not any(graph is g for g in self._graphs):
            self._graphs.append(graph)
        env = dict(zip((v.unique() for v in graph.inputs()), args, strict=True))
        with self.frames.inside(function):
            self._nodes(graph.nodes(), env, graph)
        results = [env[v.unique()] for v in graph.outputs()]
        return results[0] if len(results) == 1 else tuple(results)

    def _nodes(self, nodes: Any, env: dict[int, Any], graph: Any) -> None:
        for node in nodes:
            self.frames.at(node)
            outputs = [o.unique() for o in node.outputs()]
            result = self._node(node, env, graph)
            if outputs:
                env.update(zip(outputs, [result] if len(outputs) == 1 else result, strict=True))

    def _block(self, block: Any, args: list[Any], env: dict[int, Any], graph: Any) -> list[Any]:
        env.update(zip((v.unique() for v in block.inputs()), args, strict=True))
        self._nodes(block.nodes(), env, graph)
        return [env[v.unique()] for v in block.outputs()]

    def _node(self, node: Any, env: dict[int, Any], graph: Any) -> Any:
        kind: str = node.kind()
        if kind == "prim::Constant":
            return self._constant(node, graph)
        args = [env[v.unique()] for v in node.inputs()]
        if kind == "prim::If":
            condition = self._decide(args[0], "an `if`")
            block = list(node.blocks())[0 if condition else 1]
            results = self._block(block, [], env, graph)
            return results[0] if len(results) == 1 else results
        if kind == "prim::Loop":
            results = self._loop(node, args, env, graph)
            return results[0] if len(results) == 1 else results
        if kind == "prim::CallFunction":
            name = next(iter(node.inputs())).node().s("name")
            return self.run(self._function(node, graph), args[1:], name)
        if kind == "prim::CallMethod":
            return None if isinstance(args[0], GradMode) else self._call_method(args[0], node.s("name"), args[1:])
        if kind.startswith("prim::"):
            return self._primitive(node, kind, args)
        return self._operator(node, kind, args)

    def _constant(self, node: Any, graph: Any) -> Any:
        key = (id(graph), node.output().unique())
        if key not in self._constants:
            is_function = node.output().type().kind() == "FunctionType"
            value = None if is_function else node.output().toIValue()
            self._constants[key] = value
            if isinstance(value, torch.Tensor) and value.dim() == 0:
                self._scalars[id(value)] = value.tolist()
        return self._constants[key]

    def _decide(self, condition: Any, what: str) -> bool:
        if isinstance(condition, torch.SymBool):
            self.decided[str(condition.node.expr)] = self.frames.source()
            self.decided[str(sympy.Not(condition.node.expr))] = self.frames.source()
        try:
            return bool(condition)
        except Exception as e:
            raise CaptureError(
                f"{what} depends on the values of a tensor, so there is no one graph to plan\n  {self.frames.source()}"
            ) from e

    def _loop(self, node: Any, args: list[Any], env: dict[int, Any], graph: Any) -> list[Any]:
        trips, condition, carried = args[0], args[1], args[2:]
        block, i = next(iter(node.blocks())), 0
        while self._decide(condition, "a loop") and self._decide(i < trips, "the length of a loop"):
            condition, *carried = self._block(block, [i, *carried], env, graph)
            self.frames.at(node)
            i += 1
        return list(carried)

    def _function(self, node: Any, graph: Any) -> Any:
        """The body of the function that a node calls: a graph of that one call, inlined."""
        constant, *inputs = node.inputs()
        key = hash((id(graph), tuple(o.unique() for o in node.outputs()), tuple(v.unique() for v in node.inputs())))
        if key not in self._functions:
            body: Any = torch._C.Graph()
            callee = body.createClone(constant.node(), lambda v: v)
            body.insertNode(callee)
            values = {constant.unique(): [callee.output()]}
            ordered = [callee.output()]
            for v in inputs:
                parameter = body.addInput()
                parameter.setType(v.type())
                values.setdefault(v.unique(), []).append(parameter)
                ordered.append(parameter)
            # The clone asks for its inputs in order; the same value may be passed twice.
            remaining = iter(ordered)
            call = body.createClone(node, lambda v: next(remaining))
            body.insertNode(call)
            for output in call.outputs():
                body.registerOutput(output)
            torch._C._jit_pass_inline(body)
            self._functions[key] = body
        return self._functions[key]

    # ---- prim:: -------------------------------------------------------------------------------------------------

    def _primitive(self, node: Any, kind: str, args: list[Any]) -> Any:
        if kind in _PASSES_ON:
            return args[0]
        match kind.removeprefix("prim::"):
            case "GetAttr":
                return self._attribute(args[0], node.s("name"))
            case "ListConstruct":
                return list(args)
            case "TupleConstruct":
                return _tuple(node.output().type(), args)
            case "DictConstruct":
                return dict(zip(args[::2], args[1::2], strict=True))
            case "ListUnpack" | "TupleUnpack":
                return args[0][0] if node.outputsSize() == 1 else args[0]
            case "TupleIndex":
                return args[0][args[1]]
            case "TupleSlice":
                return tuple(args[0][node.i("beg") : node.i("end")])
            case "Uninitialized" | "Enter" | "Exit" | "Print" | "profile":
                return None
            case "CreateObject" if "grad_mode" in node.output().type().str():
                return GradMode()
            case "RaiseException":
                raise CaptureError(
                    f"the model raises an error for these example inputs: {args[0]}\n  {self.frames.source()}"
                )
            case "dtype":
                return dtype_code(args[0])
            case "device":
                return torch.device("cpu")
            case "layout":
                return 0
            case "shape":
                return list(args[0].shape)
            case "requires_grad":
                return True  # with "is_grad_enabled": nn.MultiheadAttention then takes its plain path, not one fused operator
            case "type":
                return args[0].type
            case "is_cuda" | "is_nested" | "is_sparse" | "is_sparse_csr" | "is_quantized" | "is_mkldnn" | "is_mps":
                return False
            case "is_meta" | "is_vulkan" | "is_ipu" | "is_xla" | "is_xpu" | "is_ort" | "is_maia" | "is_mtia":
                return False
            case "is_cpu":
                return True
            case "isinstance":
                return any(_is_instance(args[0], t) for t in node.tys("types"))
            case "rangelist":
                return list(range(args[0]))
            case "StringIndex":
                return args[0][args[1]]
            case "SetAttr":
                raise CaptureError(
                    f"the model keeps state: it sets its attribute {node.s('name')!r} when run"
                    f"\n  {self.frames.source()}"
                )
            case name if name in PLAIN:
                return PLAIN[name](*args)
        raise CaptureError(f"{kind} of TorchScript is not captured yet\n  {self.frames.source()}")

    def _attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, nn.Module):
            return owner.script_attribute(name)  # type: ignore[operator]
        if isinstance(owner, tuple) and hasattr(owner, name):
            return getattr(owner, name)
        raise CaptureError(
            f"attribute {name!r} of an object that is no module ({type(owner).__name__}): TorchScript classes are not captured"
            f" yet\n  {self.frames.source()}"
        )

    # ---- aten:: and other operators -----------------------------------------------------------------------------

    def _operator(self, node: Any, kind: str, args: list[Any]) -> Any:
        name = kind.partition("::")[2]
        args = self._as_numbers(args)
        is_plain, result = plain_result(name, args)
        if is_plain:
            return result
        with _annotate({ANNOTATION: self.frames.source()}):
            return self._torch_operator(node, kind, args)

    def _as_numbers(self, args: list[Any]) -> list[Any]:
        """A trace computes with sizes as rank-0 tensors (NumToTensor, constants); here they are numbers all the way."""
        known = [self._scalars.get(id(a), a) if isinstance(a, torch.Tensor) else a for a in args]
        is_arithmetic = any(map(is_number, args)) and all(
            is_number(a) or a is None or isinstance(a, str) for a in known
        )
        return known if is_arithmetic else args

    def _torch_operator(self, node: Any, kind: str, args: list[Any]) -> Any:
        text = node.schema()
        if not text.startswith(kind.partition("::")[0]):
            raise CaptureError(f"{kind} of TorchScript is not captured yet\n  {self.frames.source()}")
        schema = torch._C.parse_schema(text)
        try:
            return call_torch(schema.name, schema.overload_name, args)
        except CaptureError as e:
            raise CaptureError(f"{e}\n  {self.frames.source()}") from None


def _is_instance(value: Any, type_: Any) -> bool:
    kinds: dict[str, tuple[type, ...]] = {
        "TensorType": (torch.Tensor,), "IntType": (int, torch.SymInt), "FloatType": (float, torch.SymFloat), "BoolType": (bool,),
        "StringType": (str,), "NoneType": (type(None),), "ListType": (list,), "AnyListType": (list,), "TupleType": (tuple,),
        "AnyTupleType": (tuple,), "DictType": (dict,), "NumberType": (int, float, torch.SymInt, torch.SymFloat),
    }  # fmt: skip
    kind = type_.kind()
    return isinstance(value, kinds.get(kind, ())) and not (kind == "IntType" and isinstance(value, bool))


def _tuple(type_: Any, args: list[Any]) -> Any:
    text = type_.str()
    if not text.startswith("NamedTuple("):
        return tuple(args)
    fields = tuple(re.findall(r"(\w+) : ", _without_nested(text[len("NamedTuple(") : -1])))
    name = type_.annotation_str.rpartition(".")[2]
    return _named(name, fields)(*args) if len(fields) == len(args) else tuple(args)


def _without_nested(text: str) -> str:
    while True:
        shorter = re.sub(r"\([^()]*\)", "", text)
        if shorter == text:
            return text
        text = shorter


@lru_cache(maxsize=64)
def _named(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    return namedtuple(name, fields, rename=True)  # type: ignore[misc]
