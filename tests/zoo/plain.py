"""Networks of plain torch.nn, as people write them themselves."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.zoo.entry import Entry, Inputs, Size, images

FAMILY = "plain nn"


class Translator(nn.Module):
    """nn.Transformer between two vocabularies, with the usual causal mask."""

    def __init__(self, words: int = 50, width: int = 32) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.transformer = nn.Transformer(width, 4, 2, 2, 64, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        n = target.shape[1]
        mask = torch.full((n, n), float("-inf")).triu(1)
        y: torch.Tensor = self.head(
            self.transformer(self.source(source), self.target(target), tgt_mask=mask, tgt_is_causal=True)
        )
        return y


class Tagger(nn.Module):
    def __init__(self, rnn: type[nn.LSTM] | type[nn.GRU], words: int = 60, tags: int = 9) -> None:
        super().__init__()
        self.words = nn.Embedding(words, 24)
        self.rnn = rnn(24, 20, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(40, tags)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = F.log_softmax(self.head(self.rnn(self.words(words))[0]), dim=-1)
        return y


def _double(channels: int, out: int) -> nn.Sequential:
    def one(c: int) -> list[nn.Module]:
        return [nn.Conv2d(c, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]

    return nn.Sequential(*one(channels), *one(out))


class UNet(nn.Module):
    def __init__(self, channels: tuple[int, ...] = (8, 16, 32, 64)) -> None:
        super().__init__()
        self.down = nn.ModuleList(_double(a, b) for a, b in zip((3, *channels), channels, strict=False))
        pairs = list(zip(channels[::-1], channels[-2::-1], strict=False))
        self.lift = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs)
        self.up = nn.ModuleList(_double(2 * b, b) for _, b in pairs)
        self.head = nn.Conv2d(channels[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for block in self.down:
            x = block(x if not skips else F.max_pool2d(x, 2))
            skips.append(x)
        for lift, block, skip in zip(self.lift, self.up, skips[-2::-1], strict=True):
            y = lift(x)
            y = F.pad(y, (0, skip.shape[-1] - y.shape[-1], 0, skip.shape[-2] - y.shape[-2]))
            x = block(torch.cat([skip, y], 1))
        scores: torch.Tensor = self.head(x)
        return scores


class CRNN(nn.Module):
    """Lines of text: a convolutional front, two LSTMs along the width, log probabilities for CTC and their best path."""

    def __init__(self, letters: int = 30) -> None:
        super().__init__()
        self.front = nn.Sequential(
            *_double(1, 16), nn.MaxPool2d(2), *_double(16, 32), nn.MaxPool2d((2, 1)), nn.Conv2d(32, 32, (8, 1)), nn.ReLU()
        )  # fmt: skip
        self.rnn = nn.LSTM(32, 24, num_layers=2, bidirectional=True)
        self.head = nn.Linear(48, letters)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        columns = self.front(image).squeeze(2).permute(2, 0, 1)
        scores = F.log_softmax(self.head(self.rnn(columns)[0]), dim=-1)
        return scores, scores.argmax(-1)


class SuperResolution(nn.Module):
    """Twice by pixel shuffle, twice by transposed convolution, over a bicubic enlargement."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(3, width, 5, padding=2), nn.PReLU(width))
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.PReLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        self.shuffle = nn.Sequential(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(width))
        self.enlarge = nn.ConvTranspose2d(width, 3, 9, stride=2, padding=4, output_padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.front(x)
        y = self.enlarge(self.shuffle(y + self.body(y)))
        return y + F.interpolate(x, scale_factor=4, mode="bicubic", align_corners=False)


class Yolo(nn.Module):
    """Three scales with anchors, decoded to boxes, objectness and classes, as one list of candidates."""

    ANCHORS = (((10, 13), (16, 30), (33, 23)), ((30, 61), (62, 45), (59, 119)), ((116, 90), (156, 198), (373, 326)))

    def __init__(self, classes: int = 5, width: int = 16) -> None:
        super().__init__()

        def conv(a: int, b: int, k: int = 1, s: int = 1) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b), nn.SiLU())

        self.stem = nn.Sequential(conv(3, width, 3, 2), conv(width, width, 3, 2))
        self.stages = nn.ModuleList(conv(width << i, width << (i + 1), 3, 2) for i in range(3))
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.join = conv(4 * 8 * width, 8 * width)
        self.reduce = nn.ModuleList([conv(8 * width, 4 * width), conv(4 * width, 2 * width)])
        self.merge = nn.ModuleList([conv(8 * width, 4 * width, 3), conv(4 * width, 2 * width, 3)])
        self.heads = nn.ModuleList(nn.Conv2d(c, 3 * (5 + classes), 1) for c in (2 * width, 4 * width, 8 * width))
        self.register_buffer("anchors", torch.tensor(self.ANCHORS, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, features = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        pooled = [x]
        for _ in range(3):
            pooled.append(self.pool(pooled[-1]))
        outputs = [self.join(torch.cat(pooled, 1))]
        for reduce, merge, skip in zip(self.reduce, self.merge, features[1::-1], strict=True):
            up = F.interpolate(reduce(outputs[0]), scale_factor=2.0, mode="nearest")
            outputs.insert(0, merge(torch.cat([up, skip], 1)))
        return torch.cat([self.decode(h(f), i) for i, (h, f) in enumerate(zip(self.heads, outputs, strict=True))], 1)

    def decode(self, x: torch.Tensor, scale: int) -> torch.Tensor:
        n, _, h, w = x.shape
        y = x.view(n, 3, -1, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack((columns, rows), 2).view(1, 1, h, w, 2).float()
        center = (y[..., :2] * 2 - 0.5 + grid) * 8 * 2**scale
        extent = (y[..., 2:4] * 2) ** 2 * self.anchors[scale].view(1, 3, 1, 1, 2)
        return torch.cat((center, extent, y[..., 4:]), -1).view(n, 3 * h * w, -1)


def _words(*lengths: int) -> tuple[Size, ...]:
    return tuple((n,) for n in lengths)


def _sentence(batch: int, size: Size, random: torch.Generator) -> Inputs:
    return (torch.randint(0, 60, (batch, *size), generator=random),)


def _sentences(batch: int, size: Size, random: torch.Generator) -> Inputs:
    return tuple(torch.randint(0, 50, (batch, n), generator=random) for n in size)


def _line(batch: int, size: Size, random: torch.Generator) -> Inputs:
    return (torch.randn(batch, 1, 32, *size, generator=random),)


ENTRIES = [
    Entry("nn.Transformer", FAMILY, Translator, _sentences, ((11, 7), (13, 9))),
    Entry("LSTM tagger", FAMILY, lambda: Tagger(nn.LSTM), _sentence, _words(11, 17), quick=True),
    Entry("GRU tagger", FAMILY, lambda: Tagger(nn.GRU), _sentence, _words(11, 17)),
    Entry("UNet", FAMILY, UNet, images, ((48, 64), (57, 43)), quick=True),
    Entry("CRNN, CTC head", FAMILY, CRNN, _line, _words(64, 90)),
    Entry("super resolution", FAMILY, SuperResolution, images, ((20, 24), (17, 31))),
    Entry("YOLO-like", FAMILY, Yolo, images, ((64, 96), (128, 64)), quick=True),
]
