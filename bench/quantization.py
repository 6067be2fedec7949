"""What integers cost and gain for the models of the benchmark: `python -m bench.quantization [MODEL…]`.

Random weights, calibrated on noise: signal to noise of the outputs on other noise, of the worst layer, size and time, each beside the floats.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np
import torch

import penlight
from penlight.agreement import leaves
from tests.models import build, example

MODELS = (
    "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "squeezenet1_1", "resnet18", "resnet50", "deeplabv3_resnet50", "vit_b_16",
)  # fmt: skip
CALIBRATED, TRIED = 8, 4  # images; for noise, more tell nothing new


def main(models: Sequence[str]) -> int:
    print(
        f"{'model':20} {'SQNR dB':>8} {'worst layer':>12} {'layers':>9} {'file':>7} {'ms':>7} {'in floats':>10} {'seconds':>8}"
    )
    for name in models:
        module = build(name)
        noise = [example(name, batch=seed)[0][:1] for seed in range(1, CALIBRATED + TRIED + 1)]
        start = time.perf_counter()
        quantized = penlight.quantize(module, noise[:CALIBRATED], sensitivity=False)
        seconds = time.perf_counter() - start
        signal = error = 0.0
        for x in noise[CALIBRATED:]:
            with torch.inference_mode():
                expected = leaves(module(x))
            for (_, got), (_, want) in zip(leaves(quantized(x)), expected, strict=True):
                signal += float((want.astype(np.float64) ** 2).sum())
                error += float(((got - want.astype(np.float64)) ** 2).sum())
        report = quantized.report()
        worst = report.worst
        whole = 10 * np.log10(signal / error)
        count = f"{sum(layer.stored == 'i8' for layer in report.layers)}/{len(report.layers)}"
        print(
            f"{name:20} {whole:8.1f} {worst.sqnr if worst is not None else 0.0:12.1f} {count:>9} {report.smaller:6.3f}× "
            f"{(report.seconds_after or 0) * 1e3:7.2f} {(report.seconds_before or 0) * 1e3:10.2f} {seconds:8.1f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or MODELS))
