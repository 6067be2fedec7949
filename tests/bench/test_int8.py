"""The int8 comparison: its measure knows a quantized network from a broken one, and its table from the times."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bench import case as cases
from bench import documents, int8, prepare, report, variants
from bench.accuracy import LEAST_SQNR_DB, is_right, keep_worst, nearest_of, sqnr_of
from bench.conduct import add_times
from bench.engines import ENGINES, Loaded
from bench.settled import photographs, settle

WANT = [np.array([[3.0, -1.0, 2.0]], np.float32)]
NEAREST = [np.array([[2.0, -1.0, 2.0]], np.float32)]


def test_sqnr_is_of_what_the_image_adds() -> None:
    noisy = [WANT[0] + np.array([[0.0, 0.1, 0.0]], np.float32)]
    assert sqnr_of(WANT, NEAREST, noisy) == pytest.approx(20.0, abs=1e-5)  # 1 over 0.1
    assert sqnr_of(WANT, NEAREST, NEAREST) == pytest.approx(0.0)  # though 91 % of its length is right
    assert sqnr_of(WANT * 2, NEAREST * 2, [*WANT, *noisy]) == pytest.approx(20.0, abs=1e-5)  # the worst output counts
    assert sqnr_of(WANT, NEAREST, WANT) == math.inf


@pytest.mark.parametrize(
    "got", [[], WANT + WANT, [WANT[0][0]], [np.full((1, 3), math.nan)], [np.array([[3.0, math.inf, 2.0]])]]
)
def test_what_cannot_be_compared_is_wrong(got: list[np.ndarray]) -> None:
    sqnr_db = sqnr_of(WANT, NEAREST, got)
    assert sqnr_db == -math.inf
    assert not is_right({"error": 0.0, "sqnr_db": sqnr_db})


@pytest.mark.parametrize("sqnr_db", [LEAST_SQNR_DB - 0.1, -math.inf, math.nan])
def test_a_wrong_result_has_no_time(sqnr_db: float) -> None:
    result = {"error": 0.0, "sqnr_db": sqnr_db}
    add_times(result, [0.001])
    assert "best_s" not in result
    row = {"model": "a", "threads": 1, "engines": {"openvino-int8": result}}
    assert report.best_peer(row) is None
    assert "openvino-int8 is wrong: SQNR" in report.footnotes([row])[0]


def test_a_right_result_has_the_worst_run_beside_its_time() -> None:
    result = {"error": 0.1, "sqnr_db": 20.0}
    keep_worst(result, {"error": 0.3, "sqnr_db": 15.0})
    keep_worst(result, {"error": 0.2, "sqnr_db": 18.0})
    add_times(result, [0.002, 0.001])
    assert (result["best_s"], result["error"], result["sqnr_db"]) == (0.001, 0.3, 15.0)


def result_of_a_run() -> dict[str, object]:
    def row(model: str, threads: int, ours: float | None) -> report.Row:
        right = {"sqnr_db": 12.4, "error": 0.1, "first_run_s": 0.1, "peak_rss_bytes": 10**8}
        engines = {
            "penlight-int8": {"failed": "does not convert: penlight.quantize is not there yet"}
            if ours is None
            else {**right, "best_s": ours, "median_s": 2 * ours},
            "onnxruntime-int8": {"error": 0.9, "sqnr_db": 1.0, "way": "u8s8"},
            "openvino-int8": {**right, "best_s": 0.004, "median_s": 0.005, "way": "mixed-f32"},
        }
        return {"model": model, "threads": threads, "engines": engines}

    rows = [row("a", 1, 0.002), row("b", 1, 0.008), row("a", 2, None)]
    where = {"cpu": "some", "cores": 2, "used_by_others": 0.0}
    head = {
        "date": "2026-11-01",
        "machine": where,
        "versions": {"openvino-int8": "1"},
        "engines": [*rows[0]["engines"]],
    }
    return {**head, "settings": {"batch": 1, "size": 224}, "rows": rows}


def test_table() -> None:
    result = result_of_a_run()
    title, header, lines = int8.tables(result)[0]
    assert title == "ms, best run · SQNR, dB; batch 1, 224×224, int8, 1 thread"
    assert header == ["model", "penlight-int8", "onnxruntime-int8", "openvino-int8", "/ best peer"]
    assert lines == [
        ["a", "2.00 · 12", "wrong · 1", "**4.00 · 12**", "0.50"],
        ["b", "8.00 · 12", "wrong · 1", "**4.00 · 12**", "2.00"],
        ["geometric mean", "", "", "", "1.00"],
    ]
    assert int8.tables(result)[2][2] == [["a", "-", "wrong · 1", "**4.00 · 12**", "-"]]
    assert not int8.is_right(result)
    text = documents.of_int8(result)
    assert "- a: penlight-int8 does not convert: penlight.quantize is not there yet" in text
    assert "- a, b: onnxruntime-int8 is wrong: SQNR 1.0 dB, at least 3 dB expected" in text
    assert "- openvino-int8, mixed-f32: a, b" in text


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = [[nn.Conv2d(c, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()] for c in (3, *[16] * 7)]
        self.layers = nn.Sequential(*[layer for block in blocks for layer in block])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).mean((2, 3))  # type: ignore[no-any-return]


def test_a_settled_network_answers_to_the_image() -> None:
    """And in eight bits is right, in four wrong; as is the answer to another image."""
    torch.manual_seed(1)
    batches = photographs(8, 32)
    model = settle(Small(), batches)
    image = photographs(1, 32)
    with torch.no_grad():
        want, others = model(image).numpy(), [answer[None] for answer in model(batches).numpy()]
        nearest = nearest_of(want, others)
        found = {bits: sqnr_of([want], [nearest], [_rounded(model, image, bits).numpy()]) for bits in (8, 4)}
    assert max(sqnr_of([want], [nearest], [other]) for other in (*others, np.mean(others, 0))) == pytest.approx(0.0)
    assert found[8] > LEAST_SQNR_DB + 12
    assert found[4] < LEAST_SQNR_DB


def _rounded(model: Small, x: torch.Tensor, bits: int) -> torch.Tensor:
    """The network with inputs and weights of convolutions in so many bits."""

    def rounded(t: torch.Tensor) -> torch.Tensor:
        step = t.abs().max() / (2 ** (bits - 1) - 1)
        return (t / step).round() * step

    for layer in model.layers:
        x = (
            layer._conv_forward(rounded(x), rounded(layer.weight), layer.bias)
            if isinstance(layer, nn.Conv2d)
            else layer(x)
        )
    return x.mean((2, 3))


def test_images_of_the_calibration_are_others() -> None:
    for batch in (1, 8):
        case = cases.Case.of("mobilenet_v2", batch, 32, "int8")
        batches, (image,) = case.calibration(), case.inputs()
        assert len(batches) == cases.CALIBRATION_BATCHES
        assert all(b.shape == image.shape for b in batches)
        assert min(float((a - b).abs().max()) for group in batches for a in group for b in image) > 0.5


def test_steps_of_int8_begin_with_the_calibration() -> None:
    wanted = [name for name, engine in ENGINES.items() if engine.precision == "int8"]
    assert prepare.steps(wanted) == ["reference", "calibration", "onnx", *wanted]
    assert "calibration" not in prepare.steps(["penlight", "openvino"])


def test_the_fastest_right_way_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "MODELS_FOLDER", tmp_path)
    monkeypatch.setattr(variants, "TURN_S", 0.02)
    case = cases.Case("mobilenet_v2", precision="int8")
    for name in ("reference", "calibration", "engine"):
        (case.folder / name).mkdir(parents=True)
    np.savez(case.folder / "reference" / "inputs.npz", np.zeros(1))
    np.savez(case.folder / "reference" / "outputs.npz", *WANT)
    np.savez(case.folder / "calibration" / "nearest.npz", *NEAREST)
    ways = {"slow": (100_000, WANT), "fast": (10, WANT), "wrong": (0, NEAREST)}

    def load(folder: Path, inputs: list[np.ndarray], threads: int) -> Loaded:
        work, answer = ways[folder.name]
        return Loaded(lambda: sum(range(work)), lambda _: answer)

    folder = case.folder / "engine"
    for names, best in (([*ways], "fast"), (["wrong"], "wrong")):
        for name in names:
            (folder / name).mkdir(exist_ok=True)
        variants.keep_best(case, folder, names, load)
        assert variants.chosen(folder) == best
        assert [line.split(":")[0] for line in (folder / "ways.txt").read_text().splitlines()] == names
        assert (folder / best).exists()
        assert sum(path.is_dir() for path in folder.iterdir()) <= 2
