"""The layers of the sweep: 200 single convolutions and linear layers, the same on every machine.

Most come from real networks, walked on torch's meta device, which computes shapes and nothing else. The rest fills what
networks leave out: odd channel counts, kernels of 1 to 7, strides to 3, dilation, groups, batches, tall and skinny GEMMs.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

COUNT = 200
NETWORKS = (
    "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "mnasnet0_5", "mnasnet1_0", "efficientnet_b0", "efficientnet_b3",
    "efficientnet_v2_s", "squeezenet1_0", "squeezenet1_1", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "resnet18", "resnet50",
    "wide_resnet50_2", "resnext50_32x4d", "regnet_x_400mf", "regnet_y_400mf", "regnet_y_1_6gf", "densenet121", "googlenet",
    "inception_v3", "vgg16", "alexnet", "convnext_tiny", "deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large",
    "vit_b_16", "swin_t",
)  # fmt: skip

# A layer must be long enough that the call from Python does not matter, and short enough that 200 of them take minutes.
LEAST_S, MOST_S = 120e-6, 12e-3
NOMINAL_FLOPS, NOMINAL_BYTES = 120e9, 25e9  # a fixed idea of a core, so that the list is the same everywhere


@dataclass(frozen=True)
class Layer:
    """A convolution of an [n, ci, h, w] image, or (kind "linear") n rows of ci features."""

    kind: str
    origin: str
    n: int
    ci: int
    co: int
    h: int = 1
    w: int = 1
    kh: int = 1
    kw: int = 1
    stride: int = 1
    ph: int = 0
    pw: int = 0
    dilation: int = 1
    groups: int = 1

    @property
    def name(self) -> str:
        if self.kind == "linear":
            return f"linear {self.n}x{self.ci} -> {self.co}"
        parts = [f"conv {self.kh}x{self.kw} {self.n}x{self.ci}x{self.h}x{self.w} -> {self.co}"]
        parts += [
            f"{word} {value}" for word, value in (("stride", self.stride), ("dilation", self.dilation)) if value != 1
        ]
        if self.groups != 1:
            parts.append("depthwise" if self.groups == self.ci else f"groups {self.groups}")
        if (self.ph, self.pw) != (self.dilation * (self.kh - 1) // 2, self.dilation * (self.kw - 1) // 2):
            parts.append(f"pad {self.ph},{self.pw}")
        return " ".join(parts)

    @property
    def key(self) -> str:
        """Its name, as a file name."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower())

    @property
    def out_hw(self) -> tuple[int, int]:
        return tuple(
            (size + 2 * pad - self.dilation * (k - 1) - 1) // self.stride + 1
            for size, pad, k in ((self.h, self.ph, self.kh), (self.w, self.pw, self.kw))
        )  # type: ignore[return-value]

    @property
    def multiply_adds(self) -> int:
        return self.n * math.prod(self.out_hw) * self.co * (self.ci // self.groups) * self.kh * self.kw

    @property
    def moved_bytes(self) -> int:
        weights = self.co * (self.ci // self.groups) * self.kh * self.kw
        return 4 * (self.n * self.ci * self.h * self.w + self.n * self.co * math.prod(self.out_hw) + weights)

    @property
    def nominal_s(self) -> float:
        return max(2 * self.multiply_adds / NOMINAL_FLOPS, self.moved_bytes / NOMINAL_BYTES)

    @property
    def trait(self) -> str:
        """What kind of layer it is, for an even choice among kinds."""
        if self.kind == "linear":
            return f"linear {'one row' if self.n == 1 else 'rows'}"
        group = "one" if self.groups == 1 else "depthwise" if self.groups == self.ci else "groups"
        area = "small" if self.h * self.w <= 14 * 14 else "middle" if self.h * self.w <= 56 * 56 else "large"
        kernel = f"{self.kh}x{self.kw}" if self.kh == self.kw else "oblong"
        return f"{group} {kernel} s{self.stride} {'dilated' if self.dilation > 1 else ''} {area} {'stem' if self.ci <= 4 else ''}"

    def module(self) -> nn.Module:
        """The layer with bias and seeded weights, which keep its output about as large as its input."""
        import torch
        from torch import nn

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(hashlib.sha256(self.name.encode()).hexdigest()[:8], 16))
            if self.kind == "linear":
                return nn.Linear(self.ci, self.co).eval()
            size, padding = (self.kh, self.kw), (self.ph, self.pw)
            return nn.Conv2d(self.ci, self.co, size, self.stride, padding, self.dilation, self.groups).eval()

    def shape(self) -> tuple[int, ...]:
        return (self.n, self.ci) if self.kind == "linear" else (self.n, self.ci, self.h, self.w)

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "multiply_adds": self.multiply_adds, **asdict(self)}


def sweep(count: int = COUNT) -> list[Layer]:
    """The list: all that were made by hand, then networks' layers, chosen evenly among the kinds."""
    made = distinct(invented())
    return made + spread(
        [x for x in distinct(from_networks()) if x.name not in {y.name for y in made}], count - len(made)
    )


def distinct(layers: Iterable[Layer]) -> list[Layer]:
    """One of each name, of those that take neither too little time nor too much."""
    kept = {layer.name: layer for layer in reversed(list(layers)) if LEAST_S <= layer.nominal_s <= MOST_S}
    return sorted(kept.values(), key=lambda layer: layer.name)


def spread(layers: list[Layer], count: int) -> list[Layer]:
    """`count` of them, one of each trait in turn while there are any; within a trait from all sizes alike."""
    shelves: dict[str, list[Layer]] = {}
    for layer in sorted(layers, key=lambda layer: (layer.nominal_s, layer.name)):
        shelves.setdefault(layer.trait, []).append(layer)
    picked: list[Layer] = []
    quota = dict.fromkeys(shelves, 0)
    while sum(quota.values()) < min(count, len(layers)):
        for trait, shelf in shelves.items():
            if quota[trait] < len(shelf) and sum(quota.values()) < count:
                quota[trait] += 1
    for trait, shelf in shelves.items():
        picked += [shelf[i * len(shelf) // quota[trait]] for i in range(quota[trait])]
    return sorted(picked, key=lambda layer: layer.name)


def from_networks() -> Iterator[Layer]:
    import penlight  # noqa: F401 (torchvision imports after it)

    # isort: split
    import torch
    import torchvision
    from torch import nn

    for name in NETWORKS:
        options: dict[str, Any] = {"weights": None}
        if "deeplab" in name or "lraspp" in name:
            options["weights_backbone"] = None
        if name in ("googlenet", "inception_v3"):
            options |= {"init_weights": False, "aux_logits": True}
        network = torchvision.models.get_model(name, **options).eval().to("meta")
        found: list[Layer] = []

        def note(
            module: nn.Module, inputs: tuple[torch.Tensor], origin: str = name, found: list[Layer] = found
        ) -> None:
            shape = inputs[0].shape
            if isinstance(module, nn.Linear):
                found.append(Layer("linear", origin, math.prod(shape[:-1]), module.in_features, module.out_features))
            elif isinstance(module, nn.Conv2d):
                n, ci, h, w = shape
                kh, kw = module.kernel_size
                ph, pw = (int(pad) for pad in module.padding)
                rest = (module.stride[0], ph, pw, module.dilation[0], module.groups)
                found.append(Layer("conv", origin, n, ci, module.out_channels, h, w, kh, kw, *rest))

        for module in network.modules():
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                module.register_forward_pre_hook(note)
        size = 299 if name == "inception_v3" else 224
        with torch.no_grad():
            network(torch.empty(1, 3, size, size, device="meta"))
        yield from found


def invented() -> Iterator[Layer]:
    """What networks leave out, each kind at a few sizes."""

    def conv(n: int, ci: int, hw: int, co: int, k: int, stride: int = 1, dilation: int = 1, groups: int = 1) -> Layer:
        pad = dilation * (k - 1) // 2
        return Layer("conv", "made", n, ci, co, hw, hw, k, k, stride, pad, pad, dilation, groups)

    # odd and power-of-two channel counts: tails, and pitches that fall on the same cache sets
    for ci, co in ((17, 37), (31, 65), (63, 127), (129, 129), (64, 64), (128, 256), (512, 512), (1024, 256)):
        yield conv(1, ci, 112 if ci < 32 else 56 if ci < 128 else 28, co, 1)
        yield conv(1, ci, 56 if ci < 32 else 28 if ci < 256 else 14, co, 3)
    # every kernel size, every stride
    for k, stride in ((2, 1), (2, 2), (3, 3), (4, 1), (4, 4), (5, 1), (5, 3), (6, 2), (7, 1), (7, 3)):
        yield conv(1, 48, 56, 48, k, stride)
    for k, stride in ((3, 3), (5, 2), (7, 1), (7, 2), (7, 3)):
        yield conv(1, 192, 56 if stride < 3 else 112, 192, k, stride, groups=192)
    # dilation, up to where most taps fall on padding
    for hw, dilation in ((28, 2), (28, 12), (28, 24), (56, 6)):
        yield conv(1, 128, hw, 128, 3, dilation=dilation)
    yield conv(1, 256, 56, 256, 3, dilation=4, groups=256)
    # groups of many widths
    for ci, groups in ((64, 2), (96, 3), (128, 8), (192, 32), (240, 10), (256, 64), (200, 25)):
        yield conv(1, ci, 28, ci, 3, groups=groups)
        yield conv(2, ci, 56, ci, 1, groups=groups)
    yield conv(1, 64, 112, 128, 3, groups=64)  # two outputs per input channel
    # batches, small and large maps
    for n in (2, 4, 8):
        yield conv(n, 160, 14, 240, 1)
        yield conv(n, 64, 14, 64, 3)
        yield conv(n, 240, 28, 240, 3, groups=240)
    yield conv(1, 512, 4, 512, 3)
    yield conv(8, 256, 2, 1024, 1)
    yield conv(1, 8, 448, 16, 3)
    yield conv(1, 16, 448, 16, 1)
    yield conv(1, 3, 512, 16, 3, 2)
    yield conv(1, 32, 320, 32, 3, groups=32)
    yield conv(1, 1, 256, 32, 5)
    # tall and skinny GEMMs
    for rows, ci, co in ((1, 4096, 1000), (1, 1280, 4096), (2, 2048, 2048), (7, 1024, 1024), (8, 512, 4096), (50, 768, 768), (197, 64, 2048),
                         (512, 512, 33), (3136, 96, 96), (4096, 24, 144), (8192, 16, 64), (900, 1000, 17), (12544, 32, 24), (16, 4096, 512)):  # fmt: skip
        yield Layer("linear", "made", rows, ci, co)
