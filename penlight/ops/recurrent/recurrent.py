"""lstm, gru, rnn: one layer in one direction, over all steps. The input's share of the gates is one linear before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penlight.ops.reduce.layer_norm import as_f32
from penlight.ops.registry import Op, Sample, Selection, Shapes

if TYPE_CHECKING:
    from penlight.ir.graph import Node, Value
    from penlight.ops.emitter import Emitter


def _select(node: Node) -> Selection:
    packs = {1: "panel16"}
    if node.op == "lstm" and node.inputs[4] is not None:
        packs[4] = "panel16"
    return Selection(f"{node.op}.f32", packs)


def _work(x: Shapes, y: tuple[int, ...]) -> int:
    return x[0][0] * x[0][1] * x[1][0] * x[1][1]


lstm = Op(
    "lstm",
    "x: tensor, w: tensor, h: tensor, c: tensor, projection: tensor?, reverse: bool",
    outputs=3,
    select=_select,
    work=_work,
    doc="x [T, B, 4H]: the input's gates i, f, g, o with all biases; w [4H, P], h [B, P], c [B, H], projection [P, H]. Gives y [T, B, "
    "P], the last h and the last c.",
)
gru = Op(
    "gru",
    "x: tensor, w: tensor, h: tensor, b: tensor?, reverse: bool",
    outputs=2,
    select=_select,
    work=_work,
    doc="x [T, B, 3H]: the input's gates r, z, n; w [3H, H] and b [3H] are the state's; h [B, H]. Gives y [T, B, H] and the last h.",
)
rnn = Op(
    "rnn",
    "x: tensor, w: tensor, h: tensor, reverse: bool, nonlinearity: str",
    outputs=2,
    select=_select,
    work=_work,
    doc="h = tanh or relu of x + h w^T for each step of x [T, B, H]; w [H, H], h [B, H]. Gives y [T, B, H] and the last h.",
)


def _layers(
    g: Emitter,
    kind: str,
    x: Value,
    states: Sequence[Value],
    params: Sequence[Value],
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    """All layers of torch's call: its output, and each state's last values."""
    from penlight.ir.types import TensorType

    directions = 2 if bidirectional else 1
    each = len(params) // (layers * directions)
    x, *states = as_f32(g, x, *states)
    params = as_f32(g, *params)
    time, batch = (1, 0) if batch_first else (0, 1)
    lasts: list[list[Value]] = [[] for _ in states]

    def f32(*shape: Any) -> TensorType:
        return TensorType("f32", shape)

    def first(state: Value, index: int) -> Value:
        made: Value = g.emit("select", state, type=f32(*state.shape[1:]), dim=0, index=index)
        return made

    for layer in range(layers):
        ys = []
        for direction in range(directions):
            index = layer * directions + direction
            own = list(params[index * each : (index + 1) * each])
            w_ih, w_hh = own[:2]
            b_ih, b_hh = own[2:4] if has_biases else (None, None)
            projection = own[-1] if len(own) in (3, 5) else None
            bias = b_ih
            if kind != "gru" and b_ih is not None:
                bias = g.emit("add", b_ih, b_hh, type=b_ih.tensor)
            gates = g.emit("linear", x, w_ih, bias, type=f32(*x.shape[:-1], w_ih.shape[0]))
            gates = g.permute(gates, (time, batch, 2))
            before = [first(s, index) for s in states]
            y_type, h_type = f32(*gates.shape[:2], w_hh.shape[1]), before[0].tensor
            reverse = direction == 1
            if kind == "lstm":
                types: Any = (y_type, h_type, before[1].tensor)
                y, *after = g.emit("lstm", gates, w_hh, *before, projection, types=types, reverse=reverse)
            elif kind == "gru":
                y, *after = g.emit("gru", gates, w_hh, before[0], b_hh, types=(y_type, h_type), reverse=reverse)
            else:
                nonlinearity = kind.removeprefix("rnn_")
                y, *after = g.emit(
                    "rnn", gates, w_hh, before[0], types=(y_type, h_type), reverse=reverse, nonlinearity=nonlinearity
                )
            for last, value in zip(lasts, after, strict=True):
                last.append(g.reshape(value, (1, *value.shape)))
            ys.append(y)
        y = ys[0]
        if len(ys) == 2:
            y = g.emit("cat", *ys, type=f32(*y.shape[:2], ys[0].shape[2] + ys[1].shape[2]), dim=2)
        x = g.permute(y, (time, batch, 2))
    dtype = g.out[0].dtype
    joined = [g.emit("cat", *s, type=f32(len(s), *s[0].shape[1:]), dim=0) if len(s) > 1 else s[0] for s in lasts]
    return tuple(g.cast(v, dtype) for v in (x, *joined))


def _refuse_dropout(g: Emitter, dropout: float, train: bool) -> None:
    if dropout and train:
        g.fail("dropout in training mode: call model.eval() first")


@lstm.from_aten("lstm.input")
def _(
    g: Emitter, x: Value, hx: Sequence[Value], params: Sequence[Value], has_biases: bool, layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    _refuse_dropout(g, dropout, train)
    return _layers(g, "lstm", x, hx, params, has_biases, layers, bidirectional, batch_first)


def _register(op: Op, kind: str) -> None:
    @op.from_aten(f"{kind}.input")
    def _(
        g: Emitter, x: Value, hx: Value, params: Sequence[Value], has_biases: bool, layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        _refuse_dropout(g, dropout, train)
        return _layers(g, kind, x, [hx], params, has_biases, layers, bidirectional, batch_first)


_register(gru, "gru")
_register(rnn, "rnn_tanh")
_register(rnn, "rnn_relu")


def _samples(name: str) -> Iterator[Sample]:
    import torch

    made = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[name]

    def case(label: str, steps: int, batch: int, size: int, hidden: int, **options: Any) -> Sample:
        torch.manual_seed(len(label))
        module: Any = made(size, hidden, **options).eval()
        for p in module.parameters():
            torch.nn.init.normal_(p, 0, 0.5 / hidden**0.5)
        first = options.get("batch_first", False)
        return Sample(module, (torch.randn((batch, steps, size) if first else (steps, batch, size)),), label)

    yield case("one row", 9, 1, 20, 33)
    yield case("batch first, no bias", 7, 3, 5, 16, batch_first=True, bias=False)
    yield case("layers, both directions", 5, 3, 7, 19, num_layers=2, bidirectional=True)
    yield case("tasks", 3, 61, 8, 24)
    yield case("one step, one unit", 1, 2, 1, 1)
    if name == "lstm":
        yield case("projection", 6, 3, 9, 20, proj_size=7, bidirectional=True, num_layers=2)
    if name == "rnn":
        yield case("relu", 6, 3, 9, 20, nonlinearity="relu")
    torch.manual_seed(1)
    module = made(6, 17, 2).eval()
    state: Any = torch.randn(2, 4, 17)
    states = (state, torch.randn(2, 4, 17)) if name == "lstm" else state
    yield Sample(module, (torch.randn(5, 4, 6), states), "initial state")
    yield Sample(module, (torch.randn(5, 6),), "no batch")
    free: Any = ({0: torch.export.Dim("t", min=2, max=99), 1: torch.export.Dim("n", min=1, max=99)},)
    yield Sample(lambda x: module(x)[0], (torch.randn(5, 4, 6),), "dynamic", dynamic=free)
    special = torch.randn(4, 3, 6)
    special[1, 0, 2], special[2, 1, 1] = float("nan"), float("inf")
    yield Sample(lambda x: module(x), (special,), "nan, inf")


for _op in (lstm, gru, rnn):
    _op.samples(lambda name=_op.name: _samples(name))  # type: ignore[misc]
