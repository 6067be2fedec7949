"""One pass over an exported graph: each aten call is handed to its operator's converter (penlight/ops/**).

Weights become constants when first used, sizes become Dims, in-place calls update what their argument stands for. A call
that cannot be converted is noted and passed over, so that one run finds all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.fx
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, SymIntArgument, TensorArgument

from penlight.capture.export import mutation
from penlight.capture.export.aten_calls import arguments, aten_name
from penlight.capture.export.constant_calls import Known
from penlight.capture.export.decompose import taken_apart
from penlight.capture.export.source_lines import source_of
from penlight.capture.export.state import (
    STATE_OUTPUTS,
    changed_buffers,
    refuse_complex,
    refuse_mutation,
    refuse_shared,
    rounded,
)
from penlight.capture.export.symbols import Symbols, symbol_range
from penlight.capture.export.tensors import Constants, described, half_name, tensor_type, to_numpy, value_type
from penlight.errors import CaptureError, UnsupportedCall, UnsupportedError
from penlight.ir import containers
from penlight.ir.dims import Dim, Expr, symbol, symbols_of
from penlight.ir.graph import Graph, Method, SymbolRange, Value
from penlight.ir.symbols import defined_by
from penlight.ir.types import TensorType
from penlight.ops import complex_values as pairs
from penlight.ops import registry
from penlight.ops.complex_values import ComplexType, ComplexValue
from penlight.ops.emitter import Emitter, Unconvertible
from penlight.ops.refused import nearest, refusal

# Checks that torch inserts; the runtime checks shapes itself, at bind.
_CHECKS = {
    "_assert_scalar",
    "_assert_async",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
}
_SAME_VALUE = {"alias", "detach", "detach_", "lift_fresh", "lift_fresh_copy"}
_READS_A_NUMBER = {"item", "_local_scalar_dense"}
_INLINED = {"wrap_with_set_grad_enabled": 1}  # higher-order operators that just call: the position of the callee

DEEPEST = 8  # levels of decompositions within decompositions


class Conversion:
    """One pass over an exported graph. `roots`: see mutation.plan; `known`: see constant_calls.py."""

    def __init__(
        self,
        ep: ExportedProgram,
        roots: Mapping[torch.fx.Node, torch.fx.Node],
        known: Known,
        dim_names: Mapping[tuple[int, int], str],
    ) -> None:
        self.ep = ep
        self.roots = roots
        self.dim_names = dim_names
        self.graph = Graph()
        self.emitter = Emitter(self.graph)
        self.symbols = Symbols()
        self.hints: dict[str, int] = {}  # of our symbols: sizes of the example inputs
        self.constants = Constants(self.graph)
        self.weights: dict[torch.fx.Node, tuple[torch.Tensor, str]] = {}
        self.states: dict[str, Value] = {}  # by the name of a buffer that the model changes: what a run finds there
        self.initial: dict[str, Value] = {}  # and what the first run finds
        self.known = known
        self.env: dict[torch.fx.Node, Any] = {}  # Values, tuples of them, numbers, SymInts
        self.inputs: list[containers.Spec] = []  # one per leaf of the arguments
        self.outputs: list[containers.Spec] = []
        self.unsupported: dict[tuple[str, str, str], UnsupportedCall] = {}
        self.failed: set[OpOverload] = set()
        self.inside: list[OpOverload] = []  # operators that are being taken apart (decompose.py)
        self.halves: dict[tuple[Value, str], Value] = {}
        self.from_data: set[str] = set()  # torch's symbols (u0) that nodes define
        self.floats: dict[str, Value] = {}  # torch's symbols of floats that were read from tensors

    def run(self) -> None:
        refuse_mutation(self.ep)
        self._bind_inputs()
        results = self._block(self.ep.graph)
        nodes = next(n for n in self.ep.graph.nodes if n.op == "output").args[0]
        specs = self.ep.graph_signature.output_specs
        left = {s.target: r for s, r in zip(specs, results, strict=True) if s.kind in STATE_OUTPUTS}
        for spec, node, result in zip(specs, nodes, results, strict=True):
            if spec.kind == OutputKind.USER_OUTPUT:
                given = self._stored(node, result)
                if isinstance(given, Value) and any(given is r for r in left.values()):
                    # a state's memory is the session's, which can write it in place: the caller gets a copy
                    given = self.emitter.emit("copy", given, type=given.tensor, force=True)
                self.outputs.append(self._output(given))
        if not self.unsupported:
            self.graph.outputs += [self._left(name, left[name]) for name in self.states]

    def _left(self, name: str, result: Any) -> Value:
        """What a run leaves in a state."""
        before = self.states[name]
        if not isinstance(result, Value) or result.type != before.type:
            raise CaptureError(
                f"the model changes its buffer {name} from {before.type} to {result!r}: a state keeps its type"
            )
        tensor = self.ep.state_dict.get(name, self.ep.constants.get(name))
        half = half_name(tensor)
        result = rounded(self.emitter, result, before, half) if half else result
        if self.graph.is_output(result):  # of two states, each has memory of its own
            result = self.emitter.emit("copy", result, type=result.tensor, force=True)
        return result

    def method(self) -> Method:
        signature = self.ep.module_call_graph[0].signature
        names = list(signature.forward_arg_names or []) if signature else []
        spec = containers.from_treespec(self.ep.call_spec.in_spec, self.inputs)
        args, kwargs = spec["tuple"]
        input_spec = {"args": args["tuple"], "kwargs": kwargs["dict"], "names": names}
        output_spec = containers.from_treespec(self.ep.call_spec.out_spec, self.outputs)
        self.graph.prune_constants()
        self._refuse_unbound()
        return Method(self.graph, input_spec, output_spec, self._ranges(), list(self.initial.values()))

    def _ranges(self) -> dict[str, SymbolRange]:
        inputs = {t: n for t, n in self.symbols.names.items() if t not in self.from_data}
        known = {
            str(s): symbol_range(r.lower, r.upper) for s, r in self.ep.range_constraints.items() if str(s) in inputs
        }
        ranges = {name: known.get(theirs, SymbolRange()) for theirs, name in inputs.items()}
        return {name: replace(r, hint=self.hints.get(name)) for name, r in ranges.items()}

    def _refuse_unbound(self) -> None:
        """Sizes must follow from the input shapes, or from what nodes before find in the data."""
        bound = {n for t, n in self.symbols.names.items() if t not in self.from_data}
        for node in self.graph.walk():
            bound |= defined_by(node)
            dims = [d for v in node.outputs for d in v.shape]
            for attr in node.attrs.values():
                dims += [a for a in (attr if isinstance(attr, tuple) else (attr,)) if isinstance(a, Expr)]
            for dim in dims:
                if symbols_of(dim) - bound:
                    raise CaptureError(
                        f"the size {dim} depends on the data in a way that Penlight cannot follow\n  {node.source}"
                    )

    # ---- inputs and outputs -------------------------------------------------------------------------------------

    def _bind_inputs(self) -> None:
        placeholders = [n for n in self.ep.graph.nodes if n.op == "placeholder"]
        specs = self.ep.graph_signature.input_specs
        user = [n for s, n in zip(specs, placeholders, strict=True) if s.kind == InputKind.USER_INPUT]
        self._name_symbols(user)
        changed = set(changed_buffers(self.ep).values())
        kept: list[tuple[torch.fx.Node, str, torch.Tensor]] = []
        for spec, node in zip(specs, placeholders, strict=True):
            if spec.kind == InputKind.USER_INPUT:
                self._bind_user_input(spec.arg, node)
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                name = str(spec.target)
                tensor = self.ep.state_dict.get(name, self.ep.constants.get(name))
                if not isinstance(tensor, torch.Tensor):
                    raise CaptureError(f"{name}: the exported program holds no tensor for it")
                said = node.meta.get("val")
                if not isinstance(said, torch.Tensor) or (said.shape, said.dtype) != (tensor.shape, tensor.dtype):
                    raise CaptureError(
                        f"{name}: expected {described(said)}, as the exported program says, got {described(tensor)}"
                    )
                if name in changed:
                    kept.append((node, name, tensor))
                else:
                    self.weights[node] = (tensor, name)
            elif spec.kind == InputKind.TOKEN:
                self.env[node] = None  # torch passes it through calls with side effects, to keep their order
            else:
                raise CaptureError(
                    f"{spec.target or node.name}: an object of the model ({spec.kind.name}) that is no tensor"
                )

        if kept:
            tensors = [*((name, t) for _, name, t in kept), *((name, t) for t, name in self.weights.values())]
            refuse_shared(tensors, changed)
        for node, name, tensor in kept:  # after the caller's inputs, whose numbers the specs have
            self._bind_state(node, name, tensor)

    def _bind_state(self, node: torch.fx.Node, name: str, tensor: torch.Tensor) -> None:
        refuse_complex(name, tensor)
        array, dtype = to_numpy(tensor, name)
        value = self.graph.add_input(_input_name(node.name), TensorType(dtype, array.shape))
        self.initial[name] = Value(name, value.type, constant=array)
        self.env[node] = self.states[name] = value

    def _name_symbols(self, user: list[torch.fx.Node]) -> None:
        """Plain symbols first, under the name of the input dim that they are; then those inside of expressions."""
        for plain in (True, False):
            for index, node in enumerate(user):
                val = node.meta.get("val")
                for i, size in enumerate(val.shape if isinstance(val, torch.Tensor) else ()):
                    if isinstance(size, torch.SymInt) and (size.node.expr.is_Symbol or not plain):
                        found = sorted(size.node.expr.free_symbols, key=str)
                        wish = self.dim_names.get((index, i), f"{node.name}_{i}" if plain else "")
                        for s in found:
                            self.symbols.define(str(s), wish if wish and len(found) == 1 else str(s))
                        if plain and isinstance(size.node.hint, int):
                            self.hints[self.symbols.names[str(found[0])]] = size.node.hint

    def _bind_user_input(self, arg: Any, node: torch.fx.Node) -> None:
        if isinstance(arg, TensorArgument) and node.meta["val"].dtype == torch.complex64:
            part = value_type(node.meta["val"], self.symbols).part  # type: ignore[union-attr]
            real, imag = (self.graph.add_input(_input_name(f"{node.name}_{p}"), part) for p in ("real", "imag"))
            self.env[node] = ComplexValue(real, imag)
            self.inputs.append({"complex": [len(self.graph.inputs) - 2, len(self.graph.inputs) - 1]})
        elif isinstance(arg, TensorArgument):
            inside, half = tensor_type(node.meta["val"], self.symbols), half_name(node.meta["val"])
            value = self.graph.add_input(_input_name(node.name), replace(inside, dtype=half) if half else inside)
            self.env[node] = self.emitter.cast(value, inside.dtype)
            self.inputs.append(len(self.graph.inputs) - 1)
        elif isinstance(arg, ConstantArgument):
            self.env[node] = arg.value
            self.inputs.append(containers.constant_spec(arg.value))
        elif isinstance(arg, SymIntArgument):
            raise CaptureError(
                f"input {node.name!r} is an int that may vary from call to call; pass it as a tensor, or leave it out of"
                " dynamic_shapes, so that its value is fixed"
            )
        else:
            raise CaptureError(
                f"input {node.name!r}: {type(arg).__name__} is not supported; inputs are tensors and constants"
            )

    def _stored(self, node: Any, result: Any) -> Any:
        """A result in the dtype that the model gives it: halves are f32 inside of the graph. One cast for each value."""
        half = half_name(node.meta.get("val")) if isinstance(node, torch.fx.Node) else None
        if half is None or not isinstance(result, Value):
            return result
        if (result, half) not in self.halves:
            self.halves[result, half] = self.emitter.cast(result, half)
        return self.halves[result, half]

    def _output(self, result: Any) -> containers.Spec:
        if isinstance(result, ComplexValue):
            return {"complex": [self._output(part) for part in result.parts]}
        if isinstance(result, Value):
            index = next((i for i, o in enumerate(self.graph.outputs) if o is result), len(self.graph.outputs))
            if index == len(self.graph.outputs):
                self.graph.outputs.append(result)
            return index
        if isinstance(result, torch.SymInt):
            dim = self.symbols.dim(result)
            if self._is_from_data(result) and not isinstance(dim, int):
                return {"item": self._output(self.emitter.constant(dim))}
            if symbols_of(dim) - set(self.symbols.names.values()):
                raise CaptureError(
                    f"the result holds the number {result}, which follows from the data, not from shapes"
                )
            return {"const": dim} if isinstance(dim, int) else {"dim": str(dim)}
        if isinstance(result, torch.SymFloat) and any(str(s) in self.floats for s in result.node.expr.free_symbols):
            return {"item": self._output(self._ratio(result))}
        if isinstance(result, (torch.SymFloat, torch.SymBool)):
            raise CaptureError(
                f"the result holds the number {result}, computed from shapes: only integers can be returned"
            )
        return containers.constant_spec(result)

    # ---- nodes --------------------------------------------------------------------------------------------------

    def _block(self, graph: torch.fx.Graph) -> list[Any]:
        for node in graph.nodes:
            if node.op == "output":
                return [self._value(a) for a in node.args[0]]
            if node.op == "get_attr":
                self.env[node] = self._attribute(node)
            elif node.op == "call_function" and node in self.known.nodes:
                self.known.compute(node, lambda n: self.weights[n][0])
                if self.known.is_converted_too(node):
                    self._try_to_convert(node)
            elif node.op == "call_function":
                self.env[self.roots.get(node, node)] = self._call(node)
        raise CaptureError("the exported graph has no output node")

    def _value(self, x: Any) -> Any:
        """What a node argument stands for. Weights become constants when first used."""
        if not isinstance(x, torch.fx.Node):
            return x
        node = self.roots.get(x, x)
        if node in self.known.tensors and node not in self.env:
            return self._constant(self.known.snapshot(node), node.name)
        if node in self.weights and node not in self.env:
            self.env[node] = self.constants.value(*self.weights[node])
        return self.env[node]

    def _try_to_convert(self, node: torch.fx.Node) -> None:
        """Where that fails, the node's numbers, which are known, become a constant."""
        unsupported, failed = dict(self.unsupported), set(self.failed)
        try:
            result = self._call(node)
        except CaptureError:
            result = None
        if result is not None and len(self.unsupported) == len(unsupported) and len(self.failed) == len(failed):
            self.env[node] = result
        else:
            self.unsupported, self.failed = unsupported, failed

    def _attribute(self, node: torch.fx.Node) -> Any:
        owner: Any = node.graph.owning_module
        for part in str(node.target).split("."):
            owner = getattr(owner, part)
        return self.constants.value(owner, str(node.target)) if isinstance(owner, torch.Tensor) else owner

    def _call(self, node: torch.fx.Node) -> Any:
        target, val = node.target, node.meta.get("val")
        name = getattr(target, "__name__", "")
        if (
            name == "getitem"
            and isinstance(node.args[0], torch.fx.Node)
            and isinstance(self._value(node.args[0]), (tuple, list))
        ):
            return self._element(node)
        if isinstance(target, OpOverload):
            return self._aten(node, target)
        if isinstance(target, HigherOrderOperator):
            return self._higher_order(node, target)
        if isinstance(val, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)):
            return val  # Python arithmetic on sizes
        return self._refuse(node, name or str(target), "not an operator that Penlight knows")

    def _element(self, node: torch.fx.Node) -> Any:
        whole, index = self._value(node.args[0]), node.args[1]
        if whole[index] is None:
            of = getattr(node.args[0], "target", None)
            name = f"aten::{aten_name(of)}" if isinstance(of, OpOverload) else str(of)
            return self._refuse(node, name, f"its result number {index} is not available")
        return whole[index]

    def _higher_order(self, node: torch.fx.Node, target: HigherOrderOperator) -> Any:
        name = target.name() if callable(target.name) else str(target)
        at = _INLINED.get(name)
        if name == "with_effects" and isinstance(node.args[1], OpOverload):
            return self._effect(node, node.args[1], node.args[2:])
        if at is None:
            known = {"cond", "while_loop", "scan", "map_impl", "auto_functionalized", "auto_functionalized_v2"}
            return self._refuse(
                node, f"higher_order::{name}", "control flow is not captured yet" if name in known else ""
            )
        body = self._value(node.args[at])
        inside = [n for n in body.graph.nodes if n.op == "placeholder"]
        self.env.update(zip(inside, (self._value(a) for a in node.args[at + 1 :]), strict=True))
        return tuple(self._block(body.graph))

    def _effect(self, node: torch.fx.Node, op: OpOverload, given: tuple[Any, ...]) -> Any:
        """A call that torch keeps in order with others by a token, its first result. A check has no other."""
        converter = registry.ATEN.get(aten_name(op))
        if converter is None or op._schema.returns:
            return self._refuse(node, _full_name(op), "")
        self.emitter.source = source_of(node)
        try:
            converter(self.emitter, *arguments(op, given, dict(node.kwargs), self._argument))
        except Unconvertible as e:
            return self._refuse(node, _full_name(op), str(e))
        return (True,)

    def _aten(self, node: torch.fx.Node, op: OpOverload) -> Any:
        val = node.meta.get("val")
        bare = op._schema.name.removeprefix("aten::")
        if bare in _READS_A_NUMBER:
            return self._number(node)
        if bare in _CHECKS:
            return None
        if bare.startswith("sym_") or isinstance(val, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)):
            return val
        if bare in _SAME_VALUE:
            return self._value(node.args[0])
        functional = mutation.functional_form(op) if mutation.is_in_place(node) else op
        converter = registry.ATEN.get(aten_name(functional)) if functional is not None else None
        if functional is None or (converter is None and pairs.rule(aten_name(functional)) is None):
            inlined = self._inline(node, functional) if functional is not None else None
            return self._refuse(node, _full_name(op), "") if inlined is None else inlined
        return self._convert(node, functional, converter)

    def _inline(self, node: torch.fx.Node, op: OpOverload) -> Any:
        """The call taken apart; None where that fails: then torch traces the model again."""
        if len(self.inside) > DEEPEST:
            return None
        made = taken_apart(node, op, self._value)
        if made is None:
            return None
        tensors = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
        inside = [n for n in made.graph.nodes if n.op == "placeholder"]
        self.env.update(zip(inside, map(self._value, tensors), strict=True))
        unsupported, failed = dict(self.unsupported), set(self.failed)
        self.inside.append(op)
        try:
            results = self._results(made.graph)
            if len(self.unsupported) == len(unsupported) and self.failed == failed:
                return self._checked(results, self._types(node.meta.get("val")), op)
        except (CaptureError, TypeError):
            pass
        finally:
            self.inside.pop()
        self.unsupported, self.failed = unsupported, failed
        return None

    def _results(self, graph: torch.fx.Graph) -> Any:
        """Of a graph whose output may be one value or a tuple."""
        for node in graph.nodes:
            if node.op == "output":
                return torch.fx.node.map_arg(node.args[0], self._value)
            if node.op == "get_attr":
                self.env[node] = self._attribute(node)
            elif node.op == "call_function":
                self.env[node] = self._call(node)
        raise CaptureError("a decomposition without an output")

    def _constant(self, numbers: Any, name: str) -> Any:
        if isinstance(numbers, (list, tuple)):
            return tuple(self._constant(n, name) for n in numbers)
        return self.constants.value(numbers, name)

    def _convert(self, node: torch.fx.Node, op: OpOverload, converter: Callable[..., Any] | None) -> Any:
        g = self.emitter
        g.source, g.node = source_of(node), node
        try:
            g.new_symbols = self._new_symbols(node)
            g.out = self._types(node.meta.get("val"))
            first = node.args[0].meta.get("val") if node.args and isinstance(node.args[0], torch.fx.Node) else None
            g.halves = (half_name(first), half_name(node.meta.get("val")))
            args = arguments(op, node.args, dict(node.kwargs), self._argument)
            if pairs.is_complex([g.out, *args]):
                result = pairs.convert(g, aten_name(op), converter, args)
            else:
                result = converter(g, *args) if converter is not None else g.fail("")
            if g.new_symbols:
                self._follow_symbols(node, result)
            return None if g.out is None else self._checked(result, g.out, op)  # None: a check, no result
        except Unconvertible as e:
            inlined = self._inline(node, op)
            return self._refuse(node, _full_name(op), str(e)) if inlined is None else inlined
        except UnsupportedError:
            raise
        except CaptureError as e:
            raise CaptureError(f"{_full_name(op)}: {e}\n  {g.source}") from e
        except Exception as e:
            raise CaptureError(
                f"the converter of {_full_name(op)} failed: {type(e).__name__}: {e}\n  {g.source}"
            ) from e

    def _new_symbols(self, node: torch.fx.Node) -> frozenset[str]:
        """Our names of the sizes and numbers that only this node's data tell."""
        found = [str(s) for s in node.meta.get("unbacked_bindings") or ()]
        for name in found:
            self.symbols.define(name, name)
        self.from_data.update(found)
        return frozenset(self.symbols.names[name] for name in found)

    def _follow_symbols(self, node: torch.fx.Node, result: Any) -> None:
        """Symbols that are new to torch, but follow from others by the sizes that the converter works out: u1 of x[:u0] from u0."""
        for s, path in node.meta["unbacked_bindings"].items():
            dim = _size_at(result, path)
            if dim is not None and symbol(self.symbols.names[str(s)]) != dim:
                self.symbols.dims[str(s)] = dim
        self.emitter.out = self._types(node.meta.get("val"))

    def _number(self, node: torch.fx.Node) -> Any:
        """A Python number that is read from a tensor. An integer is a symbol, which an `item` node defines; a float stays a tensor
        of rank 0."""
        val, g = node.meta.get("val"), self.emitter
        g.source = source_of(node)
        if not isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return val
        x = g.reshape(self._value(node.args[0]), ())
        if isinstance(val, torch.SymFloat):
            self.floats[str(val.node.expr)] = g.cast(x, "f32")
            return val
        for name in self._new_symbols(node):
            g.size_of(x, symbol(name))
        return val

    def _is_from_data(self, value: Any) -> bool:
        return any(str(s) in self.from_data for s in value.node.expr.free_symbols)

    def _argument(self, x: Any) -> Any:
        value = self._value(x)
        if isinstance(value, torch.SymInt):
            return self.symbols.dim(value)
        if isinstance(value, torch.SymFloat):
            return self._ratio(value)
        if isinstance(value, torch.SymBool):
            raise CaptureError(f"the condition {value} on shapes is used as a number")
        return value

    def _ratio(self, value: torch.SymFloat) -> Value:
        """A float that follows from shapes, or from numbers read from tensors, as a rank-0 tensor."""
        g, scalar = self.emitter, TensorType("f32", ())
        if any(str(s) in self.floats for s in value.node.expr.free_symbols):
            return self._float(value.node.expr)
        over, under = self.symbols.quotient(value)
        numerator = g.constant(float(over) if isinstance(over, int) else over, "f32")
        return numerator if under == 1 else g.emit("div", numerator, g.constant(under, "f32"), type=scalar)

    def _float(self, e: Any) -> Value:
        """Arithmetic with floats that were read from tensors, as arithmetic with those tensors."""
        g = self.emitter
        if e.is_Symbol and str(e) in self.floats:
            return self.floats[str(e)]
        if e.is_number:
            return g.constant(float(e), "f32")
        operators = {"Add": "add", "Mul": "mul", "FloatTrueDiv": "div", "IntTrueDiv": "div", "FloatPow": "pow", "Pow": "pow",
                     "Max": "maximum", "Min": "minimum"}  # fmt: skip
        name = type(e).__name__
        if name in operators:
            total = self._float(e.args[0])
            for a in e.args[1:]:
                total = g.emit(operators[name], total, self._float(a), type=TensorType("f32", ()))
            return total
        if name in ("ToFloat", "Identity"):
            return self._float(e.args[0])
        return g.constant(self.symbols.dim(e), "f32")

    def _types(self, val: Any) -> Any:
        if isinstance(val, torch.Tensor):
            return value_type(val, self.symbols)
        if isinstance(val, (list, tuple)):
            return tuple(self._types(v) for v in val)
        return None

    def _checked(self, result: Any, out: Any, op: OpOverload) -> Any:
        """The converter's result, its type as torch states it (which keeps equal sizes equal expressions)."""
        if isinstance(out, tuple):
            if not isinstance(result, (tuple, list)) or len(result) > len(out):
                raise TypeError(f"returned {result!r}, {len(out)} results are expected")
            padded = [*result, *[None] * (len(out) - len(result))]
            return tuple(None if r is None else self._checked(r, t, op) for r, t in zip(padded, out, strict=True))
        if isinstance(out, ComplexType) and isinstance(result, ComplexValue):
            return ComplexValue(*(self._checked(part, out.part, op) for part in result.parts))
        if not isinstance(result, Value) or isinstance(out, ComplexType):
            raise TypeError(f"returned {result!r}, a value of type {out} is expected")
        if op is not None and result.dtype != out.dtype and result.rank == out.rank:
            raise TypeError(f"returned {result.type}, torch says {out}")
        pairs = zip(result.shape, out.shape, strict=False)
        if result.rank != out.rank or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
            raise TypeError(f"returned {result.type}, torch says {out}")
        stated = replace(out, quant=result.tensor.quant)  # torch knows of no scales: its integers are plain
        if result.producer is not None and result.type != stated:
            result.type = stated
        return result

    def _refuse(self, node: torch.fx.Node, name: str, reason: str) -> Any:
        """Notes a call that cannot be converted, and goes on with stand-ins for its results."""
        if isinstance(node.target, OpOverload):
            self.failed.add(node.target)
        origin, origin_name = _origin(node)
        op, through = (origin, name) if origin and origin != name else (name, "")
        left_out = refusal(op) or refusal(name)
        known = UnsupportedCall(op, reason or (left_out.reason if left_out else ""), through)
        known.instead = left_out.instead if left_out else "" if reason else nearest(op)
        call = self.unsupported.setdefault((op, through, reason), known)
        call.calls.add(origin_name)
        shapes = ", ".join(
            str(v.type) for v in map(self._value, node.all_input_nodes) if isinstance(v, (Value, ComplexValue))
        )
        for texts, text in ((call.shapes, shapes), (call.sources, source_of(node))):
            if text and text not in texts:
                texts.append(text)
        return self._stand_in(node.meta.get("val"))

    def _stand_in(self, val: Any) -> Any:
        if isinstance(val, torch.Tensor):
            try:
                kind = value_type(val, self.symbols)
                if isinstance(kind, ComplexType):
                    return ComplexValue(Value("?", kind.part), Value("?", kind.part))
                return Value("?", kind)
            except CaptureError:
                return Value("?", TensorType("f32", tuple(1 for _ in val.shape)))
        if isinstance(val, (list, tuple)):
            return tuple(self._stand_in(v) for v in val)
        return val


def _size_at(result: Any, path: Any) -> Dim | None:
    """The size that a path of torch's names (result 2, size, dim 0); None for what is no size (a storage offset)."""
    for i, key in enumerate(path):
        if getattr(key, "name", "") == "size" and isinstance(result, Value):
            return result.shape[path[i + 1].idx]
        if not hasattr(key, "idx") or not isinstance(result, (tuple, list)) or key.idx >= len(result):
            return None
        result = result[key.idx]
    return None


def _full_name(op: OpOverload) -> str:
    name = aten_name(op)
    return name if "::" in name else f"aten::{name}"


def _origin(node: torch.fx.Node) -> tuple[str, str]:
    """The call that torch decomposed to get this one: its operator ("" where there is none) and its name."""
    came_from = node.meta.get("from_node") or []
    target = str(getattr(came_from[-1], "target", "")) if came_from else ""
    if not target.startswith("aten."):
        return "", node.name
    return "aten::" + target.removeprefix("aten.").removesuffix(".default"), came_from[-1].name


def _input_name(name: str) -> str:
    """An input's name that no generated one (op_7, v7) can take."""
    stem, _, number = name.rpartition("_")
    taken = (number.isdigit() and stem in registry.OPS) or (name[:1] == "v" and name[1:].isdigit())
    return f"{name}_" if taken else name
