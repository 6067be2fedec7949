"""A small image classifier as every kind of file, made once; and the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tools.call import Penlight


@pytest.fixture
def penlight_command(capsys: pytest.CaptureFixture[str]) -> Penlight:
    return Penlight(capsys)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with classifier.pt (traced), classifier.pt2 (exported), two.pt (two inputs, a dict out), photo.png, labels.txt."""
    torch = pytest.importorskip("torch")
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    classifier = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 6)
    ).eval()  # fmt: skip
    x = torch.rand(1, 3, 32, 32)
    torch.jit.trace(classifier, x).save(folder / "classifier.pt")
    torch.export.save(torch.export.export(classifier, (x,)), folder / "classifier.pt2")
    torch.save(classifier.state_dict(), folder / "weights.pt")

    class Two(torch.nn.Module):
        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"masked": ids.float() * mask, "total": mask.sum()}

    torch.export.save(
        torch.export.export(Two(), (torch.zeros(2, 5, dtype=torch.int64), torch.rand(2, 5))), folder / "two.pt2"
    )
    image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 40, 3), np.uint8)).save(folder / "photo.png")
    (folder / "labels.txt").write_text("zero\none\ntwo\nthree\nfour\nfive\n")
    return folder


@pytest.fixture(scope="session")
def classifier(files: Path) -> Path:
    """classifier.pen, with labels and preprocessing."""
    import penlight
    from penlight.preprocess import Preprocessing

    steps = Preprocessing(resize=36, crop=32, mean=(0.5,), std=(0.25,))
    labels = (files / "labels.txt").read_text().splitlines()
    metadata = {"name": "classifier", "labels": labels, "preprocessing": steps.to_metadata()}
    penlight.optimize(str(files / "classifier.pt2"), metadata=metadata).save(files / "classifier.pen")
    return files / "classifier.pen"
