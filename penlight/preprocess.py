"""Images as models want them: the `preprocessing` of a file's metadata, applied with Pillow and numpy.

    {"resize": 256, "crop": 224, "interpolation": "bicubic", "color": "RGB",
     "scale": 0.00392156862745098, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "layout": "NCHW"}

In this order: convert to `color`, resize, crop the centre, then y = (pixel * scale - mean) / std with pixels 0 … 255.
Resizing and cropping round as torchvision's transforms do on Pillow images. The form is part of the file: SPEC.md.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penlight.errors import PenlightError
from penlight.paths import check_path

if TYPE_CHECKING:
    from PIL.Image import Image

INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")
COLORS = {"RGB": 3, "BGR": 3, "L": 1}  # name -> channels
LAYOUTS = ("NCHW", "NHWC")
_MOST_PIXELS = (
    1 << 27
)  # about where Pillow refuses to open an image; of one that is a single row, the shorter side grows as the longer does
_ORIENTATION = 0x0112  # a tag of Exif
_PROGRAMS = ("EPS",)  # PostScript, for which Pillow starts an interpreter
# What Pillow's readers end with where a file is damaged or hostile, beside errors of the system.
_UNREADABLE = (
    OSError, ValueError, SyntaxError, EOFError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    AssertionError, struct.error, zlib.error,
)  # fmt: skip


class PreprocessingError(PenlightError, ValueError):
    """Preprocessing metadata that says something impossible, or an image that it cannot be applied to."""


@dataclass(frozen=True)
class Preprocessing:
    """What happens to an image before a model sees it. Sizes are the shorter side, or (height, width)."""

    resize: int | tuple[int, int] | None = None
    crop: int | tuple[int, int] | None = None
    interpolation: str = "bilinear"
    color: str = "RGB"
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    layout: str = "NCHW"

    def __post_init__(self) -> None:
        names = ", ".join(INTERPOLATIONS)
        _check("interpolation", self.interpolation in INTERPOLATIONS, f"one of {names}", self.interpolation)
        _check("color", self.color in COLORS, f"one of {', '.join(COLORS)}", self.color)
        _check("layout", self.layout in LAYOUTS, "NCHW or NHWC", self.layout)
        channels = COLORS[self.color]
        for name, values in (("mean", self.mean), ("std", self.std)):
            _check(name, len(values) in (1, channels), f"1 or {channels} numbers for {self.color}", list(values))
        _check("std", 0 not in self.std, "numbers other than 0", list(self.std))

    @staticmethod
    def from_metadata(fields: Mapping[str, Any]) -> Preprocessing:
        """Reads the JSON form; an error names a field that is unknown or has another kind."""
        _check("preprocessing", isinstance(fields, Mapping), "a JSON object", fields)
        known = Preprocessing.__dataclass_fields__
        unknown = sorted(set(fields) - set(known))
        _check("preprocessing", not unknown, f"the fields {', '.join(known)}", ", ".join(unknown))
        values: dict[str, Any] = {}
        for name, value in fields.items():
            if name in ("resize", "crop"):
                values[name] = _size(name, value)
            elif name in ("mean", "std"):
                values[name] = _numbers(name, value)
            elif name == "scale":
                (values[name],) = _numbers(name, [value])
            else:
                _check(name, isinstance(value, str), "text", value)
                values[name] = value
        return Preprocessing(**values)

    def to_metadata(self) -> dict[str, Any]:
        """The JSON form."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items() if v is not None}

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width of the result, where they do not depend on the image."""
        if isinstance(self.crop, int):
            return (self.crop, self.crop)
        return self.crop or (self.resize if isinstance(self.resize, tuple) else None)

    def __call__(self, image: str | os.PathLike[str] | np.ndarray | Image) -> np.ndarray:
        """An image file, Pillow image or uint8 array [H, W, 3] as f32 [1, C, H, W] (or [1, H, W, C])."""
        picture = self.crop_centre(self.resized(self._open(image)))
        pixels: np.ndarray = np.asarray(picture, np.float32)
        pixels = pixels[..., None] if pixels.ndim == 2 else pixels
        pixels = pixels[..., ::-1] if self.color == "BGR" else pixels
        pixels = (pixels * np.float32(self.scale) - np.asarray(self.mean, np.float32)) / np.asarray(
            self.std, np.float32
        )
        return np.ascontiguousarray((pixels if self.layout == "NHWC" else pixels.transpose(2, 0, 1))[None], np.float32)

    def _open(self, image: str | os.PathLike[str] | np.ndarray | Image) -> Image:
        try:
            from PIL import Image as pillow
        except ImportError:
            raise PreprocessingError("reading images needs Pillow: pip install pillow") from None
        mode = "L" if self.color == "L" else "RGB"
        if isinstance(image, np.ndarray):
            if image.dtype != np.uint8:
                raise PreprocessingError(f"an image array: expected dtype uint8, got {image.dtype}")
            return pillow.fromarray(image).convert(mode)
        if not isinstance(image, (str, os.PathLike)):
            return image.convert(mode)
        check_path(image)
        try:
            with pillow.open(image) as picture:
                if picture.format in _PROGRAMS:
                    raise ValueError(f"{picture.format} is a program that draws one, and no program is run")
                return _upright(picture).convert(mode)
        except FileNotFoundError:
            raise PreprocessingError(f"{os.fspath(image)}: no such file") from None
        except (*_UNREADABLE, pillow.DecompressionBombError) as e:
            raise PreprocessingError(f"{os.fspath(image)}: not an image that can be read ({e})") from None

    def resized(self, picture: Image) -> Image:
        if self.resize is None:
            return picture
        from PIL.Image import Resampling

        if isinstance(self.resize, int):
            short, long = sorted(picture.size)
            other = int(self.resize * long / short)
            size = (self.resize, other) if picture.width <= picture.height else (other, self.resize)
        else:
            size = (self.resize[1], self.resize[0])
        if size[0] * size[1] > _MOST_PIXELS:
            raise PreprocessingError(
                f"an image of {picture.width} x {picture.height} would be {size[0]} x {size[1]} after resize"
            )
        return picture.resize(size, Resampling[self.interpolation.upper()])

    def crop_centre(self, picture: Image) -> Image:
        """The middle; where the image is smaller, black around it."""
        if self.crop is None:
            return picture
        height, width = (self.crop, self.crop) if isinstance(self.crop, int) else self.crop
        if picture.width < width or picture.height < height:
            from PIL import ImageOps

            across, down = max(width - picture.width, 0), max(height - picture.height, 0)
            picture = ImageOps.expand(picture, (across // 2, down // 2, (across + 1) // 2, (down + 1) // 2))
        left, top = round((picture.width - width) / 2), round((picture.height - height) / 2)
        return picture.crop((left, top, left + width, top + height))


def _upright(picture: Image) -> Image:
    """A photograph taken with the phone turned carries its rotation as a tag. Other tags are not looked at: whatever they hold."""
    from PIL.Image import Transpose

    turned = {
        2: Transpose.FLIP_LEFT_RIGHT, 3: Transpose.ROTATE_180, 4: Transpose.FLIP_TOP_BOTTOM, 5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270, 7: Transpose.TRANSVERSE, 8: Transpose.ROTATE_90,
    }.get(picture.getexif().get(_ORIENTATION, 1))  # fmt: skip
    return picture if turned is None else picture.transpose(turned)


def _check(name: str, right: bool, expected: str, got: object) -> None:
    if not right:
        raise PreprocessingError(f"preprocessing: {name}: expected {expected}, got {got}")


def _size(name: str, value: Any) -> int | tuple[int, int] | None:
    expected = "a size of 1 to 8192, or [height, width]"
    sizes = list(value) if isinstance(value, (list, tuple)) else [value]
    _check(name, value is None or all(type(s) is int and 1 <= s <= 8192 for s in sizes), expected, value)
    _check(name, not isinstance(value, (list, tuple)) or len(sizes) == 2, expected, value)
    return (sizes[0], sizes[1]) if isinstance(value, (list, tuple)) else value


def _numbers(name: str, value: Any) -> tuple[float, ...]:
    values: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    finite = all(type(v) in (int, float) and abs(v) <= 1e30 for v in values)
    _check(name, finite and len(values) > 0, "a number, or a list of them", value)
    return tuple(float(v) for v in values)


IMAGENET = Preprocessing(resize=256, crop=224, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
"""As torchvision's ImageNet classifiers are evaluated."""
