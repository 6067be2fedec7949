"""That the comparison of detections (detection.py) sees what is wrong, and only that. The detectors run in test_zoo.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.zoo import ZOO
from tests.zoo.detection import assert_same_detections
from tests.zoo.entry import TOLERANCE

Detections = dict[str, torch.Tensor]


def _detections(count: int = 40) -> Detections:
    random = torch.Generator().manual_seed(3)
    corner = torch.rand(count, 2, generator=random) * 50
    return {
        "boxes": torch.cat([corner, corner + 5 + torch.rand(count, 2, generator=random) * 20], 1),
        "scores": torch.rand(count, generator=random).mul(0.5).add(0.4).sort(descending=True).values,
        "labels": torch.randint(1, 4, (count,), generator=random),
    }


def _without(at: int, found: Detections) -> Detections:
    return {k: torch.cat([v[:at], v[at + 1 :]]) for k, v in found.items()}


def _twice(at: int, found: Detections) -> Detections:
    return {k: torch.cat([v[: at + 1], v[at:]]) for k, v in found.items()}


def _changed(key: str, change: Callable[[torch.Tensor], Any]) -> Callable[[Detections], Detections]:
    def apply(found: Detections) -> Detections:
        changed = found[key].clone()
        changed[7] = change(changed[7])
        return {**found, key: changed}

    return apply


@pytest.mark.parametrize(
    "wrong",
    [
        lambda d: _without(7, d),
        lambda d: _without(0, d),
        lambda d: _without(39, d),
        lambda d: _twice(7, d),
        _changed("labels", lambda label: label % 3 + 1),
        _changed("boxes", lambda box: box + torch.tensor([0.0, 0.0, 0.02, 0.0])),
        _changed("scores", lambda score: score - 2e-4),
        lambda d: {k: v.flip(0) for k, v in d.items()},
        lambda d: {k: v[:0] for k, v in d.items()},
        lambda d: {**d, "scores": d["scores"].double()},
    ],
    ids=["missing", "first", "last", "twice", "label", "box", "score", "order", "none", "dtype"],
)
def test_comparison_fails(wrong: Callable[[Detections], Detections]) -> None:
    right = _detections()
    assert assert_same_detections([right], [right], TOLERANCE, least=0.3) == 0.0
    with pytest.raises(AssertionError):
        assert_same_detections([wrong(right)], [right], TOLERANCE, least=0.3)


def test_comparison_allows_ties() -> None:
    """Two of equal score in either order; the last one, if its score is the threshold up to rounding."""
    right = _detections()
    right["scores"][8] = right["scores"][7] - 1e-7
    other = {k: v.clone() for k, v in right.items()}
    for key in ("boxes", "labels"):
        other[key][[7, 8]] = right[key][[8, 7]]
    assert assert_same_detections([other], [right], TOLERANCE, least=0.3) < 1e-6
    edge = float(right["scores"][-1]) - 2e-6
    assert_same_detections([_without(39, right)], [right], TOLERANCE, least=edge)


@pytest.mark.slow
def test_comparison_sees_another_threshold() -> None:
    """What a slightly wrong kernel would do: boxes that overlap by a little more are kept."""
    entry = ZOO["ssdlite320_mobilenet_v3_large"]
    module = entry.build()
    inputs = entry.example(1, entry.sizes[0])
    expected = entry.call(module, inputs)
    module.nms_thresh = float(module.nms_thresh) + 0.02  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="without partner"):
        entry.compare(entry.call(module, inputs), expected, TOLERANCE, "")
