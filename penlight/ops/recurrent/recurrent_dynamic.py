"""lstm_dynamic, gru_dynamic, rnn_dynamic: recurrent layers with integers as weights, whose state is rounded at every step (dynamic quantization).

    %s: u8[T, B, F] q(1.0, 0), %t: f32[2] = quantize_dynamic(%x, high=255, rule="torch", eps=0.0)    all steps at once: one scale
    %g: f32[T, B, 4H] = linear(%s, @w_ih, …)
    %y: f32[T, B, H], %h: f32[B, H], %c: f32[B, H] = lstm_dynamic(%g, @w_hh: i8[4H, H], %h0, %c0, @b_hh, reverse=false, high=255, rule="torch")

A step's scale is known when the step before is done, so its product is a part of the operator. Rules and levels: ops/quantized/dynamic.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.quantized.dynamic import library, round_dynamic
from penlight.ops.registry import Op, Sample, Selection, Shapes

if TYPE_CHECKING:
    from penlight.ir.graph import Node, Value
    from penlight.ops.emitter import Emitter


def _select(node: Node) -> Selection:
    return Selection(f"{node.op}.i8", {1: "quads16"})


def _work(x: Shapes, y: tuple[int, ...]) -> int:
    return x[0][0] * x[0][1] * x[1][0] * x[1][1]


def _op(name: str, state: str, more: str, outputs: int, doc: str) -> Op:
    """Until kernels are chosen, `b` is the state's bias; then what kernels know of their columns (lower/columns.py)."""
    return Op(
        name,
        f"x: tensor, w: tensor, h: tensor, {state}b: tensor?, reverse: bool, high: int = 255, rule: str = 'torch'{more}",
        outputs=outputs,
        dtypes=("i8",),
        mixed=("x", "h", "c", "b") if state else ("x", "h", "b"),
        quantized="kernels",
        select=_select,
        work=_work,
        doc=doc,
    )


lstm_dynamic = _op(
    "lstm_dynamic",
    "c: tensor, ",
    "",
    3,
    "lstm with integers as weights: x [T, B, 4H] is the input's gates, w [4H, H] and b [4H] are the state's, h and c [B, H]. "
    "Each step rounds h to levels of a scale that is chosen from its range.",
)
gru_dynamic = _op("gru_dynamic", "", "", 2, "gru with integers as weights, as lstm_dynamic has them.")
rnn_dynamic = _op(
    "rnn_dynamic", "", ", nonlinearity: str = 'tanh'", 2, "rnn with integers as weights, as lstm_dynamic has them."
)


def _emit(g: Emitter, cell: str, x: Value, w: Value, states: list[Value], b: Value | None, reverse: bool, reduce_range: bool, **more: Any) -> Any:  # fmt: skip
    from penlight.ir.types import TensorType

    made = w.producer
    if made is None or made.op != "dequantize" or made.inputs[0] is None or made.inputs[0].constant is None:
        return g.fail("weights of a dynamically quantized layer that only a run tells")
    integers = made.inputs[0]
    x, *states = (g.cast(v, "f32") for v in (x, *states))
    types = (TensorType("f32", (*x.shape[:2], w.shape[1])), *(s.tensor for s in states))
    more = {"reverse": reverse, "high": 127 if reduce_range else 255, "rule": "torch", **more}
    return tuple(g.emit(f"{cell}_dynamic", x, integers, *states, b, types=types, **more))


@lstm_dynamic.from_aten("penlight::lstm_dynamic")
def _(g: Emitter, x: Value, w: Value, h: Value, c: Value, b: Value | None, reverse: bool, reduce_range: bool) -> Any:
    return _emit(g, "lstm", x, w, [h, c], b, reverse, reduce_range)


@gru_dynamic.from_aten("penlight::gru_dynamic")
def _(g: Emitter, x: Value, w: Value, h: Value, b: Value | None, reverse: bool, reduce_range: bool) -> Any:
    return _emit(g, "gru", x, w, [h], b, reverse, reduce_range)


@rnn_dynamic.from_aten("penlight::rnn_dynamic")
def _(g: Emitter, x: Value, w: Value, h: Value, b: Value | None, reverse: bool, reduce_range: bool, nonlinearity: str) -> Any:  # fmt: skip
    return _emit(g, "rnn", x, w, [h], b, reverse, reduce_range, nonlinearity=nonlinearity)


def cell_dynamic(name: str) -> Any:
    """torch's operator of that name, for capture: all steps of a layer in one direction, weights in floats that stand for integers. torch
    has none that torch.export takes."""
    import torch

    if not hasattr(torch.ops.penlight, f"{name}_dynamic"):
        _define()
    return getattr(torch.ops.penlight, f"{name}_dynamic").default


def _define() -> None:
    import torch

    rounded = round_dynamic()

    def lstm(gates: Any, own: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        i, f, g, o = (own + gates).chunk(4, 1)
        c = f.sigmoid() * states[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def gru(gates: Any, own: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        (r, z, n), (r_own, z_own, n_own) = gates.chunk(3, 1), own.chunk(3, 1)
        fresh = (n + n_own * (r_own + r).sigmoid()).tanh()
        return ((states[0] - fresh) * (z_own + z).sigmoid() + fresh,)

    def steps(
        cell: Callable[..., Any], x: Any, w: Any, states: tuple[Any, ...], b: Any, reverse: bool, reduce_range: bool
    ) -> tuple[Any, ...]:
        ys: list[Any] = []
        for gates in reversed(x) if reverse else x:
            own = torch.nn.functional.linear(rounded(states[0], reduce_range), w, b)
            states = cell(gates, own, states)
            ys.append(states[0])
        y = torch.stack(ys[::-1] if reverse else ys) if ys else x.new_empty(0, *states[0].shape)
        return (y, *(s.clone() for s in states))

    def alike(x: Any, *states: Any) -> tuple[Any, ...]:
        return (x.new_empty(x.shape[0], *states[0].shape), *map(torch.empty_like, states))

    text = "Tensor? b, bool reverse, bool reduce_range"
    library().define(f"lstm_dynamic(Tensor x, Tensor w, Tensor h, Tensor c, {text}) -> (Tensor, Tensor, Tensor)")
    library().impl("lstm_dynamic", lambda x, w, h, c, *rest: steps(lstm, x, w, (h, c), *rest), "CPU")
    library().impl("lstm_dynamic", lambda x, w, h, c, *rest: alike(x, h, c), "Meta")
    library().define(f"gru_dynamic(Tensor x, Tensor w, Tensor h, {text}) -> (Tensor, Tensor)")
    library().impl("gru_dynamic", lambda x, w, h, *rest: steps(gru, x, w, (h,), *rest), "CPU")
    library().impl("gru_dynamic", lambda x, w, h, *rest: alike(x, h), "Meta")

    def rnn(x: Any, w: Any, h: Any, b: Any, reverse: bool, reduce_range: bool, nonlinearity: str) -> tuple[Any, ...]:
        function = {"tanh": torch.tanh, "relu": torch.relu}[nonlinearity]
        return steps(lambda gates, own, _: (function(own + gates),), x, w, (h,), b, reverse, reduce_range)

    library().define(f"rnn_dynamic(Tensor x, Tensor w, Tensor h, {text}, str nonlinearity) -> (Tensor, Tensor)")
    library().impl("rnn_dynamic", rnn, "CPU")
    library().impl("rnn_dynamic", lambda x, w, h, *rest: alike(x, h), "Meta")


def _samples(name: str) -> Iterator[Sample]:
    """More steps than one: a last bit of tanh may move a state by a level of the next step's scale."""
    import torch
    import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed

    op, gates = cell_dynamic(name), {"lstm": 4, "gru": 3, "rnn": 1}[name]
    real = torch.ops.quantized_decomposed.dequantize_per_channel

    def case(label: str, steps: int, batch: int, hidden: int, high: int = 255, reverse: bool = False, **more: Any) -> Sample:  # fmt: skip
        rand = torch.Generator().manual_seed(hidden)
        w = torch.randint(-127, 128, (gates * hidden, hidden), dtype=torch.int8, generator=rand)
        scales = (torch.rand(gates * hidden, generator=rand) + 0.2) / (90 * hidden**0.5)
        zeros = torch.zeros(gates * hidden, dtype=torch.int64)
        b = torch.randn(gates * hidden, generator=rand) if more.pop("bias", True) else None
        x, *states = (
            torch.randn(*shape, generator=rand)
            for shape in ((steps, batch, gates * hidden), *[(batch, hidden)] * (2 if name == "lstm" else 1))
        )

        def run(x: Any, *states: Any) -> Any:
            weight = real(w, scales, zeros, 0, -128, 127, torch.int8)
            return op(x, weight, *states, b, reverse, high == 127, *more.values())

        return Sample(run, (x, *states), label, tolerance=1e-5 if steps == 1 else 5e-3)

    more: dict[str, Any] = {"nonlinearity": "tanh"} if name == "rnn" else {}
    yield case("one step", 1, 3, 33, **more)
    yield case("one row", 6, 1, 20, **more)
    yield case("no bias, backwards", 4, 5, 17, reverse=True, bias=False, **more)
    yield case("128 levels", 3, 2, 48, high=127, **more)
    yield case("many rows", 2, 61, 9, **more)
    yield case("one unit", 2, 2, 1, **more)
    if name == "rnn":
        yield case("relu", 1, 4, 30, nonlinearity="relu")


for _name, _declared in (("lstm", lstm_dynamic), ("gru", gru_dynamic), ("rnn", rnn_dynamic)):
    _declared.samples(lambda name=_name: _samples(name))  # type: ignore[misc]
