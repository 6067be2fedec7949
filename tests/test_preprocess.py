"""preprocess.py against torchvision's own transforms, and its errors."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

from penlight.preprocess import IMAGENET, Preprocessing, PreprocessingError  # noqa: E402


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize(("height", "width"), [(211, 301), (301, 211), (90, 100), (224, 224), (257, 255), (333, 1000)])
@pytest.mark.parametrize(
    ("resize", "crop", "interpolation"),
    [
        (256, 224, "bilinear"),
        (232, 224, "bicubic"),
        ((100, 77), (99, 60), "nearest"),
        (60, 225, "lanczos"),
        (None, 225, "box"),
        (33, None, "hamming"),
    ],
)
def test_like_torchvision(height: int, width: int, resize: Any, crop: Any, interpolation: str) -> None:
    pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms")
    steps = [transforms.Resize(resize, transforms.InterpolationMode(interpolation))] if resize else []
    steps += [transforms.CenterCrop(crop)] if crop else []
    steps += [transforms.ToTensor(), transforms.Normalize(IMAGENET.mean, IMAGENET.std)]
    image = noise(height, width)
    expected = transforms.Compose(steps)(pillow.fromarray(image))[None].numpy()
    got = Preprocessing(resize=resize, crop=crop, interpolation=interpolation, mean=IMAGENET.mean, std=IMAGENET.std)(
        image
    )
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6)


def test_scale_mean_std() -> None:
    image = noise(5, 6)
    got = Preprocessing(scale=1.0, mean=(127.0,), std=(128.0,))(image)
    np.testing.assert_allclose(got[0].transpose(1, 2, 0), (image.astype(np.float64) - 127) / 128, atol=1e-6)


def test_color_and_layout() -> None:
    image = noise(5, 6)
    assert Preprocessing(layout="NHWC")(image).shape == (1, 5, 6, 3)
    assert Preprocessing(color="L")(image).shape == (1, 1, 5, 6)
    np.testing.assert_array_equal(Preprocessing(color="BGR")(image), Preprocessing()(image)[:, ::-1])


def test_files_of_every_kind(tmp_path: Path) -> None:
    image = pillow.fromarray(noise(40, 50))
    for name, mode in (
        ("a.png", "RGB"),
        ("b.png", "RGBA"),
        ("c.png", "L"),
        ("d.png", "P"),
        ("e.jpg", "RGB"),
        ("f.png", "1"),
    ):
        image.convert(mode).save(tmp_path / name)
        assert IMAGENET(tmp_path / name).shape == (1, 3, 224, 224)
    np.testing.assert_array_equal(IMAGENET(tmp_path / "a.png"), IMAGENET(np.asarray(image)))


def test_a_turned_photograph_is_turned_back(tmp_path: Path) -> None:
    image = pillow.fromarray(noise(40, 50))
    exif = image.getexif()
    exif[0x0112] = 6  # taken with the phone turned by a quarter
    image.save(tmp_path / "turned.png", exif=exif)
    np.testing.assert_array_equal(
        Preprocessing()(tmp_path / "turned.png"), Preprocessing()(image.rotate(-90, expand=True))
    )


def test_metadata_round_trip() -> None:
    for steps in (IMAGENET, Preprocessing(), Preprocessing(resize=(3, 4), crop=(1, 2), color="BGR", layout="NHWC")):
        assert Preprocessing.from_metadata(steps.to_metadata()) == steps


def test_size() -> None:
    assert IMAGENET.size == (224, 224)
    assert Preprocessing(resize=(3, 4)).size == (3, 4)
    assert Preprocessing(resize=256).size is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resise": 3}, "expected the fields resize, crop"),
        ({"resize": 0}, "resize: expected a size of 1"),
        ({"crop": [1, 2, 3]}, "crop: expected a size"),
        ({"resize": "big"}, "resize: expected a size"),
        ({"resize": True}, "resize: expected a size"),
        ({"mean": "0.5"}, "mean: expected a number"),
        ({"mean": [1, 2]}, "mean: expected 1 or 3 numbers for RGB"),
        ({"std": 0}, "std: expected numbers other than 0"),
        ({"scale": float("nan")}, "scale: expected a number"),
        ({"interpolation": "cubic"}, "interpolation: expected one of nearest"),
        ({"color": 3}, "color: expected text"),
        ({"layout": "CHWN"}, "layout: expected NCHW or NHWC"),
    ],
)
def test_errors_in_metadata(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PreprocessingError) as caught:
        Preprocessing.from_metadata(fields)
    assert message in str(caught.value)


@pytest.mark.parametrize(("tag", "kind"), [(0x010E, 5), (0x010E, 12), (0xA005, 2), (0xA005, 7)])
def test_tags_that_cannot_be_written_again(tag: int, kind: int, tmp_path: Path) -> None:
    """A caption that is a fraction, a place that is text: how the photograph is turned was found, and all of them written anew without it."""
    entries = struct.pack("<HHI4sHHIHH", tag, kind, 1, bytes(4), 0x0112, 3, 1, 6, 0)
    image = pillow.fromarray(np.arange(6 * 4 * 3, dtype=np.uint8).reshape(6, 4, 3))
    image.save(tmp_path / "photo.jpg", exif=b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + entries + bytes(40))
    assert Preprocessing()(tmp_path / "photo.jpg").shape == (1, 3, 4, 6)


@pytest.mark.parametrize(
    "data",
    [b"DDS " + struct.pack("<I", 124) + bytes(120), b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"],
    ids=["no pixel format", "a program"],
)  # fmt: skip
def test_files_that_are_no_images(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(data)
    with pytest.raises(PreprocessingError, match="photo.jpg: not an image that can be read"):
        Preprocessing()(tmp_path / "photo.jpg")


def test_no_interpreter_of_postscript_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *given, **_: started.append(given))
    image = pillow.fromarray(np.zeros((4, 4, 3), np.uint8))
    image.save(tmp_path / "photo.eps")
    with pytest.raises(PreprocessingError, match="no program is run"):
        Preprocessing()(tmp_path / "photo.eps")
    assert not started


def test_one_long_row_does_not_grow_without_end(tmp_path: Path) -> None:
    """A file of 200 bytes was 256 x 15,360,000 pixels: 12 GB."""
    pillow.fromarray(np.zeros((1, 60_000), np.uint8)).save(tmp_path / "row.png")
    with pytest.raises(PreprocessingError, match="an image of 60000 x 1 would be 15360000 x 256 after resize"):
        Preprocessing(resize=256, crop=224)(tmp_path / "row.png")


def test_errors_in_images(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("not an image")
    with pytest.raises(PreprocessingError, match="not an image that can be read"):
        IMAGENET(tmp_path / "text.png")
    with pytest.raises(PreprocessingError, match="no such file"):
        IMAGENET(tmp_path / "none.png")
    with pytest.raises(PreprocessingError, match="expected dtype uint8"):
        IMAGENET(np.zeros((3, 4, 3)))
