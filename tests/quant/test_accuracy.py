"""The demo's pretrained network on real photographs, in integers and in floats: calibrated on other pictures than those it is tried on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import penlight
from examples.demo import CATS, PREPROCESSING, find_photographs, imagenet_labels, pretrained_model

OTHERS = (
    "astronaut.png", "camera.png", "brick.png", "grass.png", "gravel.png", "ihc.png", "coins.png", "page.png", "text.png", "moon.png",
    "hubble_deep_field.jpg", "retina.jpg", "color.png",
)  # fmt: skip
"""Pictures of scikit-image's that the demo does not show."""


def crops(path: Path, count: int) -> list[np.ndarray]:
    """Parts of a picture of different sizes, some mirrored; the same ones each time."""
    from PIL import Image

    picture = Image.open(path).convert("RGB")
    random = np.random.default_rng(len(path.name) * 1000 + count)
    made = []
    for _ in range(count):
        side = int(min(picture.size) * random.uniform(0.5, 1.0))
        left, top = (int(random.integers(0, size - side + 1)) for size in picture.size)
        part = picture.crop((left, top, left + side, top + side))
        made.append(PREPROCESSING(part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else part))
    return made


@pytest.mark.slow
def test_a_pretrained_network_sees_the_same_in_integers() -> None:
    module, photographs = pretrained_model(), find_photographs()
    folder = photographs[0].parent
    calibration = [crop for name in OTHERS for crop in crops(folder / name, 3)]
    tried = [crop for path in photographs for crop in (PREPROCESSING(path), *crops(path, 7))]
    floats = penlight.optimize(module, (torch.from_numpy(calibration[0]),))
    quantized = penlight.quantize(module, calibration, sensitivity=False, speed=False)
    expected, got = (np.concatenate([model(x) for x in tried]) for model in (floats, quantized))
    same = float((got.argmax(1) == expected.argmax(1)).mean())
    sqnr = 10 * np.log10((expected**2).sum() / ((got - expected) ** 2).sum())
    print(
        f"top 1 agreement {same:.1%} of {len(tried)}, SQNR {sqnr:.1f} dB, {quantized.report().smaller:.3f} of the size"
    )
    assert imagenet_labels()[int(got[0].argmax())] in CATS
    assert same >= 0.93
    assert sqnr > 22
    assert quantized.report().smaller < 0.31
