"""nms: of boxes that overlap, the one with the best score. torchvision's other operators on boxes are made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penlight.ops.registry import Op, Sample

if TYPE_CHECKING:
    from penlight.ir.graph import Value
    from penlight.ops.emitter import Emitter

nms = Op(
    "nms",
    "boxes: tensor, order: tensor, threshold: float",
    tolerance=0.0,
    mixed=("order",),
    sized_by_data=True,
    doc="Going through boxes [n, 4] (x1, y1, x2, y2) in this order: those that overlap none kept before by more than threshold.",
)


@nms.from_aten("torchvision::nms")
def _(g: Emitter, boxes: Value, scores: Value, threshold: float) -> Value:
    from penlight.ir.types import TensorType

    scores = g.cast(scores, "f32")
    types = scores.type, TensorType("i64", scores.shape)
    _, order = g.emit("sort", scores, types=types, dim=0, descending=True)
    return g.emit("nms", g.cast(boxes, "f32"), order, threshold=threshold)


def nms_in_python(boxes: Any, scores: Any, threshold: float) -> Any:
    import torch

    order = scores.sort(stable=True, descending=True).indices
    kept = []
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    alive = torch.ones(len(order), dtype=torch.bool)
    for at, i in enumerate(order.tolist()):
        if not alive[at]:
            continue
        kept.append(i)
        rest = order[at + 1 :]
        low, high = torch.maximum(boxes[i, :2], boxes[rest, :2]), torch.minimum(boxes[i, 2:], boxes[rest, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        alive[at + 1 :] &= ~((shared / (area[i] + area[rest] - shared)).double() > threshold)
    return torch.tensor(kept, dtype=torch.int64)


def _fake_nms(boxes: Any, scores: Any, threshold: float) -> Any:
    import torch

    count = torch.library.get_ctx().new_dynamic_size()
    return boxes.new_empty(count, dtype=torch.int64)


_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
STAND_INS = {  # for penlight/torchvision.py: schema, values, shape
    "nms": (_BOXES, nms_in_python, _fake_nms),
    "qnms": (_BOXES, None, None),  # which torchvision's import names
    "box_iou_rotated": ("(Tensor boxes1, Tensor boxes2) -> Tensor", None, None),  # in a branch of what detectors script
}


@nms.samples
def _() -> Iterator[Sample]:
    import torch

    from penlight.torchvision import declare_operators

    declare_operators()
    rand = torch.Generator().manual_seed(0)

    def boxes(n: int, span: float = 20.0) -> Any:
        corner = torch.rand(n, 2, generator=rand) * span
        return torch.cat([corner, corner + torch.rand(n, 2, generator=rand) * 10], 1)

    def keep(threshold: float) -> Any:
        return lambda boxes, scores: torch.ops.torchvision.nms(boxes, scores, threshold)

    yield Sample(keep(0.5), (boxes(100), torch.rand(100, generator=rand)), "many overlap")
    yield Sample(keep(0.1), (boxes(301, 400.0), torch.rand(301, generator=rand)), "few overlap")
    yield Sample(keep(0.3), (boxes(0), torch.rand(0)), "none")
    yield Sample(keep(0.3), (boxes(1), torch.rand(1)), "one")
    yield Sample(keep(0.7), (boxes(33).repeat(2, 1), torch.ones(66)), "twice, equal scores")
    yield Sample(keep(0.0), (torch.zeros(5, 4), torch.arange(5.0)), "without area")

    def detect(x: Any, scores: Any) -> Any:
        good = torch.where(scores > 0.5)[0]
        kept = torch.ops.torchvision.nms(x[good], scores[good], 0.4)
        return x[good][kept], scores[good][kept]

    given = boxes(65), torch.rand(65, generator=rand)
    rows = torch.export.Dim("rows", min=2, max=99)
    yield Sample(detect, given, "after a threshold", dynamic=({0: rows}, {0: rows}))
